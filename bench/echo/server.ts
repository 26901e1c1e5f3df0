/** The reference that results are set against: a bare fastify that answers a JSON body with itself. */
import fastify from 'fastify';

const app = fastify();
app.post('/echo', (request, reply) => reply.send(request.body));
const url = await app.listen({ host: '127.0.0.1', port: 0 });
process.send?.({ type: 'ready', url });
// Ends with the bench, however that ends.
process.once('disconnect', () => void app.close());
