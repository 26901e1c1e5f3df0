/** The reference: the same handler behind a bare fastify server. */
import fastify from 'fastify';

import { health } from './app/health.ts';

const app = fastify();
app.get('/health', (_request, reply) => reply.send(health()));
const url = await app.listen({ host: '127.0.0.1', port: 0 });
process.send?.({ type: 'ready', url });
// Ends when the bench ends, for any reason.
process.once('disconnect', () => void app.close());
