/** A server of the user's own: what ends it is known to nobody. */
import { createServer } from 'node:http';

import { webJs } from './main.ts';

createServer(async (request, response) => {
  const { pathname, searchParams } = new URL(request.url, 'http://localhost');
  const of = (name) => searchParams.get(name) ?? '';
  if (pathname === '/web') await webJs(Number(of('n')), of('how'), of('marker'));
  response.end(of('n'));
}).listen(Number(process.env.PORT), '127.0.0.1');
