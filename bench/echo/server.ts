/** The reference for all results: a bare fastify server that returns the JSON body it receives. */
import fastify from 'fastify';

const app = fastify();
app.post('/echo', (request, reply) => reply.send(request.body));
const url = await app.listen({ host: '127.0.0.1', port: 0 });
process.send?.({ type: 'ready', url });
// Ends when the bench ends, for any reason.
process.once('disconnect', () => void app.close());
