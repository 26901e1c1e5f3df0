/** The gateway as a process part: its own pages, configuration, start and close. */
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';

import test from 'ava';
import { pino } from 'pino';

import { gatewayConfig, gatewayToken, readConfig } from '../../gateway/config.ts';
import { start } from '../../gateway/assembly/start.ts';
import { CapstanError } from '../../lib/errors.ts';
import { JobState } from '../../proto/gen/capstan/v1/common.ts';
import { job, TOKEN, type SubmitAsked } from './fake-scheduler.ts';
import { caller, connected, KEY, RawConnection, setup } from './harness.ts';
import { folderOf } from '../support/folder.ts';

test('root, ping and healthz need no key', async (t) => {
  const { call } = await setup(t);
  t.like((await call('GET', '/', { key: null })).json, { name: 'capstan', docs: '/docs' });
  t.is((await call('GET', '/ping', { key: null })).status, 200);
  t.is((await call('GET', '/healthz', { key: null })).status, 200);
});

test('the OpenAPI document covers every operation', async (t) => {
  const { call } = await setup(t);
  const document = (await call('GET', '/openapi.json', { key: null })).json as {
    openapi: string;
    paths: Record<
      string,
      Record<string, { responses: object; requestBody?: { content: Record<string, { schema: { required: string[] } }> } }>
    >;
  };
  t.is(document.openapi, '3.1.0');
  const operations = Object.entries(document.paths).flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method} ${path}`));
  for (const wanted of [
    'post /v2/{endpointId}/run',
    'post /v2/{endpointId}/runsync',
    'get /v2/{endpointId}/status/{jobId}',
    'post /v2/{endpointId}/status/{jobId}',
    'get /v2/{endpointId}/status-sync/{jobId}',
    'get /v2/{endpointId}/stream',
    'get /v2/{endpointId}/stream/{jobId}',
    'post /v2/{endpointId}/cancel',
    'post /v2/{endpointId}/cancel/{jobId}',
    'post /v2/{endpointId}/retry',
    'post /v2/{endpointId}/retry/{jobId}',
    'post /v2/{endpointId}/purge-queue',
    'get /v2/{endpointId}/health',
    'get /v2/{endpointId}/requests',
  ]) {
    t.true(operations.includes(wanted), wanted);
  }
  const run = document.paths['/v2/{endpointId}/run']?.['post'];
  t.deepEqual(run?.requestBody?.content['application/json']?.schema.required, ['input']);
  for (const status of ['200', '400', '401', '404', '413', '415', '429', '500', '503']) t.true(status in (run?.responses ?? {}), status);
});

test('the docs page and all it loads come from here', async (t) => {
  const { call } = await setup(t);
  const moved = await call('GET', '/docs', { key: null });
  t.is(moved.status, 301);
  const page = await call('GET', '/docs/', { key: null });
  t.is(page.status, 200);
  t.regex(String(page.headers['content-type']), /^text\/html/);
  t.deepEqual([...page.text.matchAll(/(?:https?:)?\/\/[a-z0-9.-]+\.[a-z]{2,}/gi)].map(String), []);
  const policy = String(page.headers['content-security-policy']);
  t.regex(policy, /default-src 'none'/);
  t.false(/https?:/.test(policy));
  const script = /<script src="([^"]+)"/.exec(page.text)?.[1] ?? '';
  const loaded = await call('GET', new URL(script, 'http://x/docs/').pathname, { key: null });
  t.is(loaded.status, 200);
  t.regex(String(loaded.headers['content-type']), /javascript/);
});

test('a port in use is one plain error', async (t) => {
  const other = createServer();
  await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
  t.teardown(() => other.close());
  const { port } = other.address() as { port: number };
  const error = await t.throwsAsync(start(readConfig({ port, scheduler: '127.0.0.1:1', token: 'x', logLevel: 'silent' }, {})), {
    instanceOf: CapstanError,
  });
  t.like(error, { code: 'ADDRESS_IN_USE', message: `127.0.0.1:${port} is in use by another program` });
});

test('configuration comes from overrides, the environment and defaults, and names what is wrong', (t) => {
  t.like(readConfig({}, {}), { host: '127.0.0.1', port: 8080, scheduler: '127.0.0.1:7070', maxRunBytes: 10_485_760 });
  t.is(readConfig({}, { CAPSTAN_HTTP_PORT: '9000' }).port, 9000);
  t.is(readConfig({ port: 0 }, { CAPSTAN_HTTP_PORT: '9000' }).port, 0);
  t.is(readConfig({}, { CAPSTAN_HTTP_PORT: '' }).port, 8080);
  t.deepEqual(readConfig({}, { CAPSTAN_CORS_ORIGINS: 'https://a.example, https://b.example' }).corsOrigins, [
    'https://a.example',
    'https://b.example',
  ]);
  for (const port of ['http', '70000', '-1', '80.5']) {
    const error = t.throws(() => readConfig({}, { CAPSTAN_HTTP_PORT: port }), { instanceOf: CapstanError });
    t.like(error, { code: 'CONFIG', message: 'CAPSTAN_HTTP_PORT: must be an integer between 0 and 65535' });
  }
  for (const schema of Object.values(gatewayConfig.shape)) {
    t.truthy(schema.meta()?.description);
    t.regex(String(schema.meta()?.['env']), /^(?:CAPSTAN|OTEL)_/);
  }
});

test('the token comes from the setting or the first line of its file', async (t) => {
  const folder = await folderOf(t);
  const file = join(folder, 'gateway-token');
  writeFileSync(file, 'from-file\n');
  t.is(gatewayToken(readConfig({ token: 'a', tokenFile: file }, {})), 'a');
  t.is(gatewayToken(readConfig({ tokenFile: file }, {})), 'from-file');
  t.throws(() => gatewayToken(readConfig({ tokenFile: join(folder, 'none') }, {})), {
    message: /CAPSTAN_GATEWAY_TOKEN_FILE: cannot read .*ENOENT/,
  });
  t.throws(() => gatewayToken(readConfig({}, {})), { message: /one of them is required/ });
});

test('close lets a waiting request finish, then answers it with the state it has', async (t) => {
  const { scheduler, gateway, call } = await setup(t, { closeGraceMs: 50 });
  const asks: SubmitAsked[] = [];
  const arrived = new Promise<void>((resolve) => {
    scheduler.onSubmit = (asked) => {
      asks.push(asked);
      resolve();
      if (asked.submit.waitMs === 0) asked.reply(job(asked.submit.jobId, JobState.IN_PROGRESS));
    };
  });
  const reply = call('POST', '/v2/ep/runsync', { body: '{"input":{}}' });
  await arrived;
  await gateway.close();
  const answer = await reply;
  t.is(answer.status, 200);
  t.is(answer.json['status'], 'IN_PROGRESS');
  t.is(asks[0]?.submit.jobId, asks[1]?.submit.jobId);
  await t.throwsAsync(call('GET', '/ping'));
  await gateway.close();
});

test('close without a scheduler does not sit its grace period out: what is pending is answered 503', async (t) => {
  const { scheduler, gateway, call } = await setup(t, { closeGraceMs: 600_000 });
  const arrived = new Promise<void>((resolve) => {
    scheduler.onSubmit = () => resolve();
  });
  const reply = call('POST', '/v2/ep/runsync', { body: '{"input":{}}' });
  await arrived;
  scheduler.stop();
  await gateway.close();
  t.is((await reply).status, 503);
});

test('close does not wait for idle connections, nor for a caller that never ends its request', async (t) => {
  const { gateway, call } = await setup(t, { closeGraceMs: 50 });
  await call('GET', '/ping');
  const idle = new RawConnection(t, gateway.url).write(`GET /ping HTTP/1.1\r\nHost: x\r\n\r\n`);
  t.is((await idle.answer())?.status, 200);
  const stuck = new RawConnection(t, gateway.url);
  await stuck.begin(`POST /v2/ep/run HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\nContent-Length: 100\r\n`);
  stuck.write('{');
  await gateway.close();
  t.is(await idle.answer(), null);
});

test('close lets a request that is still being sent come in, and be answered', async (t) => {
  const { scheduler, gateway } = await setup(t, { closeGraceMs: 10_000 });
  const raw = new RawConnection(t, gateway.url);
  await raw.begin(`POST /v2/ep/run HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\nContent-Length: 12\r\n`);
  raw.write('{"inp');
  const closed = gateway.close();
  await t.throwsAsync(fetch(`${gateway.url}/ping`));
  raw.write('ut":{}}');
  t.is((await raw.answer())?.status, 200);
  await closed;
  t.is(scheduler.submits.length, 1);
});

test('the log of a fault names the request, the endpoint and the job', async (t) => {
  const lines = new PassThrough();
  let text = '';
  lines.on('data', (chunk: Buffer) => (text += chunk.toString()));
  const { scheduler } = await setup(t);
  const gateway = await start(readConfig({ port: 0, scheduler: scheduler.address, token: TOKEN, closeGraceMs: 0 }, {}), {
    log: pino({ level: 'error' }, lines),
  });
  t.teardown(async () => gateway.close());
  const call = caller(t, gateway.url);
  await connected(call);
  const fault = new CapstanError('INTERNAL', 'a fault');
  scheduler.onGet = (asked) => asked.fail(fault);
  scheduler.onSubmit = (asked) => asked.fail(fault);
  scheduler.onStream = (asked) => asked.fail(fault);
  for (const [method, path, body] of [
    ['GET', '/v2/ep/status/job-7', undefined],
    ['POST', '/v2/ep/run', '{"input":{}}'],
    ['POST', '/v2/ep/openai/v1/chat/completions', '{}'],
  ] as const) {
    text = '';
    const reply = await call(method, path, body === undefined ? {} : { body });
    t.is(reply.status, 500);
    const line = JSON.parse(text) as Record<string, unknown>;
    t.like(line, { msg: 'request failed', method, endpoint: 'ep', job: scheduler.submits.at(-1)?.jobId ?? 'job-7' });
    t.is(typeof line['requestId'], 'string');
    t.truthy(reply.headers['x-request-id']);
  }
});

test('no log line holds a key, a token or an input', async (t) => {
  const lines = new PassThrough();
  let text = '';
  lines.on('data', (chunk: Buffer) => (text += chunk.toString()));
  const { scheduler, call } = await setup(t);
  const gateway = await start(readConfig({ port: 0, scheduler: scheduler.address, token: TOKEN, closeGraceMs: 0 }, {}), {
    log: pino({ level: 'trace' }, lines),
  });
  t.teardown(async () => gateway.close());
  await call('POST', '/v2/ep/run', { body: '{"input":{"secret":"input-text"}}' });
  scheduler.stop();
  await scheduler.start();
  await call('GET', '/v2/ep/health');
  await gateway.close();
  t.regex(text, /gateway started/);
  for (const secret of [KEY, TOKEN, 'input-text']) t.false(text.includes(secret), secret);
});

test('close answers what still arrives on an open connection, and ends the connection with it', async (t) => {
  const { scheduler, gateway } = await setup(t, { closeGraceMs: 10_000 });
  const waiting: SubmitAsked[] = [];
  const arrived = new Promise<void>((resolve) => {
    scheduler.onSubmit = (asked) => {
      waiting.push(asked);
      resolve();
    };
  });
  const raw = new RawConnection(t, gateway.url);
  const head = `Host: x\r\nAuthorization: Bearer ${KEY}\r\n`;
  raw.write(`POST /v2/ep/runsync HTTP/1.1\r\n${head}Content-Length: 12\r\n\r\n{"input":{}}`);
  await arrived;
  const closed = gateway.close();
  await t.throwsAsync(fetch(`${gateway.url}/ping`));
  raw.write(`GET /v2/ep/health HTTP/1.1\r\n${head}\r\n`);
  for (const { submit, reply } of waiting) reply(job(submit.jobId, JobState.COMPLETED));
  t.is((await raw.answer())?.status, 200);
  const last = await raw.answer();
  t.is(last?.status, 200);
  t.regex(last?.head ?? '', /^connection: close/im);
  t.is(await raw.answer(), null);
  await closed;
});
