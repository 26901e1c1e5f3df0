/** What the gateway tells of itself at /metrics. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import test from 'ava';

import { readConfig } from '../../gateway/config.ts';
import { start } from '../../gateway/assembly/start.ts';
import { JobState } from '../../proto/gen/capstan/v1/common.ts';
import { KeyScope } from '../../proto/gen/capstan/v1/control.ts';
import { folderOf } from '../support/folder.ts';
import { job } from './fake-scheduler.ts';
import { KEY, setup, type Setup } from './harness.ts';

const TOKEN_OF_METRICS = 'm'.repeat(40);

/** The samples by `name{labels}`. */
async function scrape(call: Setup['call'], query = '?part=gateway'): Promise<Map<string, number>> {
  const reply = await call('GET', `/metrics${query}`);
  if (reply.status !== 200) throw new Error(reply.text);
  const samples = reply.text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(samples.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))]));
}

test('requests are counted by method, route and status, with their bytes and their time', async (t) => {
  const { scheduler, call } = await setup(t, { metrics: 'open' });
  scheduler.jobs.set('a', job('a', JobState.IN_QUEUE));
  const run = await call('POST', '/v2/ep/run', { body: '{"input":{}}' });
  const status = await call('GET', '/v2/ep/status/a');
  await call('GET', '/v2/ep/status/b');
  await call('POST', '/v2/ep/run', { body: '{"input":1}' });
  const samples = await scrape(call);
  const count = (name: string, labels: string): number | undefined => samples.get(`${name}{${labels}}`);
  t.is(count('capstan_http_requests_total', 'method="POST",route="/v2/:endpointId/run",status="200"'), 1);
  t.is(count('capstan_http_requests_total', 'method="POST",route="/v2/:endpointId/run",status="400"'), 1);
  t.is(count('capstan_http_requests_total', 'method="GET",route="/v2/:endpointId/status/:jobId",status="200"'), 1);
  t.is(count('capstan_http_requests_total', 'method="GET",route="/v2/:endpointId/status/:jobId",status="404"'), 1);
  t.is(count('capstan_http_request_body_bytes_total', 'method="POST",route="/v2/:endpointId/run"'), 12 + 11);
  t.true((count('capstan_http_response_body_bytes_total', 'method="GET",route="/v2/:endpointId/status/:jobId"') ?? 0) > status.text.length);
  t.is(count('capstan_http_request_duration_seconds_count', 'method="POST",route="/v2/:endpointId/run"'), 2);
  t.is(samples.get('capstan_http_requests_in_flight'), 1, 'the scrape itself');
  t.is(samples.get('capstan_gateway_scheduler_connected{cell="default"}'), 1);
  t.is(samples.get('capstan_gateway_pending_requests'), 0);
  t.is(run.status, 200);
});

test('what callers make up adds no series: unknown paths, methods and ids', async (t) => {
  const { call } = await setup(t, { metrics: 'open' });
  await call('GET', '/v2/ep/status/x');
  // A kind of garbage collection has its series once it happened.
  const size = (samples: ReadonlyMap<string, number>): number => [...samples.keys()].filter((name) => !name.includes('_nodejs_')).length;
  const before = size(await scrape(call));
  for (const path of ['/a', '/b', '/v2/ep/nonsense', '/v2/other/x/y']) await call('GET', path);
  for (const id of ['x1', 'x2', 'x3']) await call('GET', `/v2/ep/status/${id}`);
  const samples = await scrape(call);
  t.is(samples.get('capstan_http_requests_total{method="GET",route="none",status="404"}'), 4);
  // One new route, `none`, with its count, bytes, sum and buckets, and the scrape's own.
  t.true(size(samples) <= before + 2 * 22);
  for (const name of samples.keys()) t.false(/x1|nonsense/.test(name));
});

test('a caller that went away is 499, and is in flight no longer', async (t) => {
  const { scheduler, gateway, call } = await setup(t, { metrics: 'open' });
  scheduler.onGet = () => undefined;
  const abort = new AbortController();
  const asked = fetch(`${gateway.url}/v2/ep/status-sync/a`, { headers: { authorization: `Bearer ${KEY}` }, signal: abort.signal });
  while ((await scrape(call)).get('capstan_http_requests_in_flight') !== 2);
  abort.abort();
  await t.throwsAsync(asked);
  while ((await scrape(call)).get('capstan_http_requests_in_flight') !== 1);
  t.is((await scrape(call)).get('capstan_http_requests_total{method="GET",route="/v2/:endpointId/status-sync/:jobId",status="499"}'), 1);
});

test('a scheduler that does not answer is told, and costs no scrape', async (t) => {
  const { call } = await setup(t, { metrics: 'open' });
  const samples = await scrape(call, '');
  t.is(samples.get('capstan_scheduler_up'), 0);
  t.is(samples.get('capstan_gateway_scheduler_connected{cell="default"}'), 1);
});

test('who may read them: nobody without a credential, also on a loopback address, which workers reach', async (t) => {
  for (const [settings, status] of [
    [{}, 401],
    [{ publicUrl: 'http://127.0.0.1:8080' }, 401],
    [{ metrics: 'auto' }, 401],
    [{ metrics: 'open' }, 200],
  ] as const) {
    t.is((await (await setup(t, settings)).call('GET', '/metrics', { key: null })).status, status);
  }
  const tokenFile = join(await folderOf(t), 'metrics-token');
  writeFileSync(tokenFile, 'too-short\n');
  const refusalOf = (metricsTokenFile: string) =>
    t.throwsAsync(start(readConfig({ token: 'of-a-gateway', metricsTokenFile }, {})), { message: /^CAPSTAN_METRICS_TOKEN_FILE: / });
  t.regex((await refusalOf(tokenFile)).message, /must be 32 to 200 characters/);
  t.regex((await refusalOf(`${tokenFile}.none`)).message, /cannot read .* \(ENOENT\)/);
  writeFileSync(tokenFile, `${TOKEN_OF_METRICS}\n`);
  const off = await setup(t, { metrics: 'off' });
  t.is((await off.call('GET', '/metrics')).status, 404);
  const { scheduler, call, gateway } = await setup(t, { metricsTokenFile: tokenFile });
  scheduler.addKey('operator', { account: 'default' });
  scheduler.addKey('reader', { account: 'default', scope: KeyScope.READ_ONLY });
  scheduler.addKey('caller', { account: 'default', scope: KeyScope.ENDPOINTS, endpoints: ['ep'] });
  scheduler.addKey('team', { account: 'team' });
  t.is((await call('GET', '/metrics', { key: null })).status, 401);
  t.is((await call('GET', '/metrics', { key: 'wrong' })).status, 401);
  const worker = `wkr_w1_${'A'.repeat(43)}`;
  const entry = { hash: Buffer.alloc(0), accountId: 'default', scope: KeyScope.ENVIRONMENT, endpointIds: [], environment: 'default' };
  scheduler.workerTokens.set(worker, { ...entry, isOperator: false, isSession: false, keyId: '' });
  t.is((await call('GET', '/metrics', { key: worker })).status, 401);
  t.is((await call('GET', '/metrics', { key: 'caller' })).status, 401);
  t.is((await call('GET', '/metrics', { key: 'team' })).status, 401, 'they name the endpoints of all accounts');
  t.is((await call('GET', '/metrics', { key: 'reader' })).status, 200);
  const reply = await call('GET', '/metrics', { key: 'operator' });
  t.is(reply.status, 200);
  t.is(reply.headers['content-type'], 'text/plain; version=0.0.4; charset=utf-8');
  t.is((await call('GET', '/metrics?part=agent', { key: 'operator' })).status, 400);
  // The token reads the metrics, and nothing else.
  t.is((await call('GET', '/metrics', { key: TOKEN_OF_METRICS })).status, 200);
  t.is((await call('GET', '/metrics', { key: TOKEN_OF_METRICS.slice(1) })).status, 401);
  t.is((await call('GET', '/v2/ep/health', { key: TOKEN_OF_METRICS })).status, 401);
  t.is((await fetch(`${gateway.url}/metrics`, { headers: { authorization: '' } })).status, 401);
});

test('names and units keep to Prometheus’ conventions, and docs/metrics.md has them all', async (t) => {
  const { call } = await setup(t, { metrics: 'open' });
  await call('GET', '/v2/ep/health');
  const { text } = await call('GET', '/metrics?part=gateway');
  const docs = readFileSync(join(import.meta.dirname, '../../docs/metrics.md'), 'utf8');
  const types = new Map([...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name = '', type = '']) => [name, type]));
  t.is(types.size, [...text.matchAll(/^# TYPE /gm)].length, 'each name once');
  for (const [name, type] of types) {
    t.regex(name, /^capstan_(http|gateway|lb)_[a-z0-9_]+$/);
    // Those of the process come from the library as they are.
    if (/^capstan_gateway_(process|nodejs)_/.test(name)) continue;
    t.is(name.endsWith('_total'), type === 'counter', name);
    t.true(docs.includes(`\`${name}\``), `docs/metrics.md lacks ${name}`);
  }
});
