import { Endpoint } from '@capstan/sdk';

const web = new Endpoint({ name: 'web', workers: [0, 1] });

/** Where the worker reaches the API, and whether it does. */
export const where = web.get('/where', async () => {
  const url = process.env['CAPSTAN_URL'] ?? '';
  return { url, ping: (await fetch(`${url}/ping`)).status };
});
