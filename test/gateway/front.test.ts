/** The answer of a load-balanced endpoint that fails after it has begun (gateway/lb/responders.ts). */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

import test from 'ava';
import { request } from 'undici';

import { HttpResponder } from '../../gateway/lb/responders.ts';
import { CapstanError } from '../../lib/errors.ts';

test('what was written before a failure arrives, also in the same turn; the answer is then cut off', async (t) => {
  const server = createServer((asked, response) => {
    const responder = new HttpResponder(asked, response);
    responder.head(200, ['content-type', 'application/x-ndjson']);
    responder.write(Buffer.from('{"n":1}\n'));
    responder.fail(new CapstanError('WORKER_LOST', 'the function failed'));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const answer = await request(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  t.is(answer.statusCode, 200);
  let text = '';
  await t.throwsAsync(async () => {
    for await (const part of answer.body) text += String(part);
  });
  t.is(text, '{"n":1}\n');
});
