/**
 * The driver alone, against any HTTP server:
 *
 *   node bench/driver/main.ts http://127.0.0.1:8080/v2/<endpoint>/run --body '{"input":{}}' --header 'authorization:
 *   Bearer <key>'
 *
 * Prints one JSON document. Exits with 1 if any response was not 2xx.
 */
import { parseArgs } from 'node:util';

import { runLoad } from './load.ts';
import { prepareRequest } from './request.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    method: { type: 'string' },
    body: { type: 'string' },
    header: { type: 'string', multiple: true, default: [] },
    connections: { type: 'string', default: '64' },
    seconds: { type: 'string', default: '5' },
    warmup: { type: 'string', default: '1' },
  },
});
const [url] = positionals;
if (url === undefined)
  throw new Error(
    'usage: node bench/driver/main.ts <url> [--body <json>] [--header <name: value>] [--connections 64] [--seconds 5] [--warmup 1]',
  );

const headers = Object.fromEntries(
  values.header.map((line) => {
    const colon = line.indexOf(':');
    return [line.slice(0, colon).trim().toLowerCase(), line.slice(colon + 1).trim()];
  }),
);
const request = prepareRequest({
  url,
  headers,
  ...(values.method === undefined ? {} : { method: values.method }),
  ...(values.body === undefined ? {} : { body: values.body }),
});
const result = await runLoad(request, {
  connections: Number(values.connections),
  durationMs: Number(values.seconds) * 1000,
  warmupMs: Number(values.warmup) * 1000,
});
console.log(JSON.stringify(result, null, 2));
if (result.errors > 0) process.exitCode = 1;
