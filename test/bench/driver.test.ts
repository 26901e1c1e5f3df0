import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';

import test, { type ExecutionContext } from 'ava';

import { runLoad } from '../../bench/driver/load.ts';
import { prepareRequest } from '../../bench/driver/request.ts';
import { ProtocolError, ResponseReader } from '../../bench/driver/response.ts';
import { startEcho } from '../../bench/echo/reference.ts';

async function serve(t: ExecutionContext, answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<string> {
  const server = createServer(answer).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as { port: number }).port}/`;
}

// Long enough for a machine that is busy with other tests.
const short = { connections: 4, durationMs: 1000, warmupMs: 20, drainMs: 10_000 };

test('two echoes under the same load both answer everything', async (t) => {
  const echoes = await Promise.all([startEcho(), startEcho()]);
  t.teardown(() => Promise.all(echoes.map((echo) => echo.close())));
  for (const echo of echoes) {
    const result = await runLoad(prepareRequest({ url: echo.url, body: '{"input":{}}' }), short);
    t.is(result.errors, 0);
    t.deepEqual(Object.keys(result.statuses), ['200']);
    t.true(result.answers > 0);
    t.true(result.latency.p50 > 0 && result.latency.p50 <= result.latency.p99 && result.latency.p99 <= result.latency.max);
  }
});

test('requests reach the server as they were given', async (t) => {
  const seen: unknown[] = [];
  const url = await serve(t, (request, response) => {
    void request.toArray().then((parts) => {
      seen.push([
        request.method,
        request.url,
        request.headers['authorization'],
        request.headers['content-type'],
        Buffer.concat(parts as Buffer[]).toString(),
      ]);
      response.end();
    });
  });
  await runLoad(prepareRequest({ url: `${url}v2/e/run?wait=1`, headers: { authorization: 'Bearer k' }, body: '{"ä":1}' }), {
    ...short,
    connections: 1,
  });
  t.deepEqual(seen[0], ['POST', '/v2/e/run?wait=1', 'Bearer k', 'application/json', '{"ä":1}']);
});

test('every answer that is not 2xx counts as an error, with an example', async (t) => {
  let count = 0;
  const url = await serve(t, (_, response) => {
    count += 1;
    response.statusCode = count % 2 === 0 ? 429 : 202;
    response.end(count % 2 === 0 ? 'slow down' : 'ok');
  });
  const result = await runLoad(prepareRequest({ url }), short);
  t.is(result.errors, result.statuses['429'] ?? 0);
  t.true(result.errors > 0);
  t.is(result.examples['status 429'], 'slow down');
  t.true(result.answers <= (result.statuses['202'] ?? 0));
});

test('a connection lost with a request open counts, and the load goes on', async (t) => {
  let count = 0;
  const url = await serve(t, (request, response) => {
    count += 1;
    if (count === 3) request.socket.destroy();
    else response.end('ok');
  });
  const result = await runLoad(prepareRequest({ url }), short);
  t.is(result.errors, 1);
  t.true(Object.keys(result.examples)[0]?.startsWith('connection: '));
  t.true((result.statuses['200'] ?? 0) > 3);
});

test('a server that closes after each answer costs no errors', async (t) => {
  const url = await serve(t, (_, response) => {
    response.setHeader('connection', 'close');
    response.end('ok');
  });
  const result = await runLoad(prepareRequest({ url }), short);
  t.is(result.errors, 0);
  t.true(result.answers > 0);
});

test('a request that is never answered counts', async (t) => {
  const url = await serve(t, () => undefined);
  const result = await runLoad(prepareRequest({ url }), { ...short, drainMs: 50 });
  t.is(result.errors, 4);
  t.deepEqual(Object.keys(result.examples), ['no answer']);
});

test('a response is read in whatever pieces it comes', (t) => {
  const bytes = Buffer.from('HTTP/1.1 201 Created\r\nContent-Length: 5\r\nX: y\r\n\r\nhello');
  const reader = new ResponseReader();
  for (let index = 0; index < bytes.length - 1; index += 1) t.is(reader.push(bytes.subarray(index, index + 1)), null);
  const response = reader.push(bytes.subarray(-1));
  t.is(response?.status, 201);
  t.is(response?.body.toString(), 'hello');
  t.false(reader.partial);
});

test('a response that the reader cannot count is refused', (t) => {
  const refused = (text: string): void => void t.throws(() => new ResponseReader().push(Buffer.from(text)), { instanceOf: ProtocolError });
  refused('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n');
  refused('HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab');
  refused('SSH-2.0-OpenSSH\r\n\r\n');
});
