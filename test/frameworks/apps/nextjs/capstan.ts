import { endpoint } from '@capstan/sdk';

export default endpoint({ name: 'api', app: '.next/standalone/server.js', build: 'npm run build' });
