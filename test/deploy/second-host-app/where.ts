import { Endpoint } from '@capstan/sdk';

import { twice } from './twice.ts';

const web = new Endpoint({ name: 'web', workers: [0, 1] });

/** Where the worker reaches the API, and what an endpoint that it calls there returns. */
export const where = web.get('/where', async () => {
  const url = process.env['CAPSTAN_URL'] ?? '';
  return { url, ping: (await fetch(`${url}/ping`)).status, twice: await twice({ n: 21 }) };
});
