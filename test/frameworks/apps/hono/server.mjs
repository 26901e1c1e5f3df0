import { endpoint } from '@capstan/sdk';
import { serveStatic } from '@hono/node-server/serve-static';
import { Hono } from 'hono';
import { getCookie, setCookie } from 'hono/cookie';
import { streamText } from 'hono/streaming';

const app = new Hono();
app.use('/static/*', serveStatic({ root: './' }));
app.get('/', (c) => c.json({ home: true }));
app.get('/items/:number', (c) => c.json({ number: Number(c.req.param('number')), q: c.req.query('q') ?? '' }));
app.get('/go', (c) => c.redirect('/items/1'));
app.get('/cookie', (c) => {
  setCookie(c, 'seen', 'yes');
  return c.json({});
});
app.get('/cookies', (c) => c.json(getCookie(c)));
app.post('/upload', async (c) => {
  const { file } = await c.req.parseBody();
  return c.json({ name: file.name, size: file.size });
});
app.get('/stream', (c) =>
  streamText(c, async (stream) => {
    for (let number = 0; number < 3; number += 1) await stream.writeln(String(number));
  }),
);

export default endpoint({ name: 'api', app });
