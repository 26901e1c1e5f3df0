import { endpoint } from '@capstan/sdk';

export default endpoint({ name: 'node-http', app: 'server.js' });
