import { endpoint } from '@capstan/sdk';

// Its check of forms compares the address that a browser names with that of the request.
const env = { PROTOCOL_HEADER: 'x-forwarded-proto', HOST_HEADER: 'x-forwarded-host' };

export default endpoint({ name: 'api', app: 'build/index.js', build: 'npm run build', env });
