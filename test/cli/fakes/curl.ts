/** As much of curl as the printed commands use, so that they can be tried where there is none: `-s <url> -H <header> -d <body>`. */
import { parseArgs } from 'node:util';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    silent: { type: 'boolean', short: 's' },
    header: { type: 'string', short: 'H', multiple: true, default: [] },
    data: { type: 'string', short: 'd' },
  },
});
const headers = values.header.map((line): [string, string] => {
  const colon = line.indexOf(':');
  return [line.slice(0, colon), line.slice(colon + 1).trim()];
});
const response = await fetch(positionals[0] ?? '', {
  method: values.data === undefined ? 'GET' : 'POST',
  headers,
  ...(values.data === undefined ? {} : { body: values.data }),
});
process.stdout.write(await response.text());
