/** Knows nothing of Capstan: it listens where its environment says. */
import { createServer } from 'node:http';

createServer((_request, response) => {
  response.setHeader('content-type', 'application/json').end(JSON.stringify({ framework: 'node:http' }));
}).listen(Number(process.env.PORT));
