import { endpoint } from '@capstan/sdk';

export default endpoint({ name: 'api', app: 'dist/main.js', build: 'npm run build' });
