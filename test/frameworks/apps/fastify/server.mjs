import cookie from '@fastify/cookie';
import multipart from '@fastify/multipart';
import files from '@fastify/static';
import websocket from '@fastify/websocket';
import { endpoint } from '@capstan/sdk';
import fastify from 'fastify';
import { resolve } from 'node:path';
import { Readable } from 'node:stream';

const app = fastify();
await app.register(cookie);
await app.register(multipart);
await app.register(websocket);
await app.register(files, { root: resolve('static'), prefix: '/static/' });
app.get('/', () => ({ home: true }));
app.get('/items/:number', (request) => ({ number: Number(request.params.number), q: request.query.q ?? '' }));
app.get('/go', (_request, reply) => reply.redirect('/items/1'));
app.get('/cookie', (_request, reply) => reply.setCookie('seen', 'yes').send({}));
app.get('/cookies', (request) => request.cookies);
app.post('/upload', async (request) => {
  const file = await request.file();
  return { name: file.filename, size: (await file.toBuffer()).length };
});
app.get('/stream', (_request, reply) => reply.type('text/plain').send(Readable.from(['0\n', '1\n', '2\n'])));
app.get('/ws', { websocket: true }, (socket) => socket.on('message', (text) => socket.send(`echo: ${text}`)));

export default endpoint({ name: 'api', app });
