import { endpoint } from '@capstan/sdk';
import Fastify from 'fastify';

const app = Fastify();

app.get('/', () => ({ framework: 'Fastify' }));

app.post(
  '/sum',
  { schema: { body: { type: 'object', required: ['numbers'], properties: { numbers: { type: 'array', items: { type: 'number' } } } } } },
  ({ body }) => ({ sum: body.numbers.reduce((sum, each) => sum + each, 0) }),
);

export default endpoint({ name: 'fastify', app });
