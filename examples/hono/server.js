import { endpoint } from '@capstan/sdk';
import { Hono } from 'hono';
import { streamText } from 'hono/streaming';

const app = new Hono();

app.get('/', (context) => context.json({ framework: 'Hono' }));

app.post('/sum', async (context) => {
  const { numbers } = await context.req.json();
  return context.json({ sum: numbers.reduce((sum, each) => sum + each, 0) });
});

app.get('/count', (context) =>
  streamText(context, async (stream) => {
    for (let number = 0; number < 3; number += 1) await stream.writeln(String(number));
  }),
);

export default endpoint({ name: 'hono', app });
