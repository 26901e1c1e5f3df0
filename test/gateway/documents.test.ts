/** The OpenAPI document and the API pages (docs/api*.md) cover what is served: every route, status code and field. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import test from 'ava';

import { TRACING_OFF } from '../../lib/telemetry/tracing.ts';
import { SharedBudget } from '../../lib/shared-budget.ts';
import { readConfig } from '../../gateway/config.ts';
import { createServer } from '../../gateway/assembly/server.ts';
import type { ConsoleServices } from '../../gateway/console/services.ts';
import { GatewayMetrics } from '../../gateway/metrics/metrics.ts';
import { setup } from './harness.ts';

const pages = ['api', 'api-jobs', 'api-load-balanced', 'api-openai', 'api-control-plane'];
const docs = pages.map((page) => readFileSync(join(import.meta.dirname, `../../docs/${page}.md`), 'utf8')).join('\n');

interface Operation {
  readonly summary?: string;
  readonly security?: readonly object[];
  readonly parameters?: readonly { readonly name: string; readonly in: string }[];
  readonly requestBody?: { readonly required?: boolean };
  readonly responses: Readonly<Record<string, { readonly description: string; readonly content?: object }>>;
}

interface OpenApi {
  readonly openapi: string;
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
}

/** Every route of the server itself but the console's, which are no part of the API; only what is needed to build it is there. */
async function served(): Promise<readonly string[]> {
  const levels = {
    pending: () => 0,
    connected: () => [],
    bodyMemory: () => 0,
    lb: { endpoints: () => [], level: () => ({ held: 0, inFlight: 0 }), exists: () => true },
  };
  const config = readConfig({}, {});
  const memory = new SharedBudget(config.maxBodyMemoryBytes);
  const services = { config, memory, version: '0', metrics: new GatewayMetrics(levels), tracing: TRACING_OFF };
  const app = await createServer(services as unknown as ConsoleServices, null);
  await app.ready();
  const routes = app.served.list().filter((route) => !/ \/console(\/|$)/.test(route));
  await app.close();
  return routes;
}

/** Pages for people and their parts, not operations. */
function isPage(route: string): boolean {
  return / \/(docs|openapi\.json)(\/|$)/.test(route);
}

async function document(t: Parameters<typeof setup>[0]): Promise<OpenApi> {
  const { call } = await setup(t);
  return (await call('GET', '/openapi.json', { key: null })).json as unknown as OpenApi;
}

test('every route that is served is in the OpenAPI document, and no other', async (t) => {
  const routes = (await served()).filter((route) => !isPage(route));
  const { paths } = await document(t);
  const documented = Object.entries(paths).flatMap(([path, operations]) =>
    Object.keys(operations).map((method) => `${method.toUpperCase()} ${path}`),
  );
  const expected = routes.map((route) => route.replaceAll(/:(\w+)/g, '{$1}').replace(/\*$/, '{*}'));
  t.deepEqual(documented.toSorted(), expected.toSorted());
});

test('every route that is served is in the API pages', async (t) => {
  for (const route of await served()) {
    if (route.includes('/docs/') || route.startsWith('HEAD /docs') || route.startsWith('HEAD /openapi')) continue;
    const shown = route.replace(':endpointId', '<endpoint>').replace(':jobId', '<job>').replace(/\*$/, '<path>');
    t.true(docs.includes(`\`${shown}\``), `the API pages lack ${shown}`);
  }
});

test('every operation of the queue says its key, its statuses and their shapes', async (t) => {
  const { paths } = await document(t);
  for (const [path, operations] of Object.entries(paths)) {
    if (!path.startsWith('/v2/')) continue;
    for (const [method, operation] of Object.entries(operations)) {
      const name = `${method} ${path}`;
      t.truthy(operation.summary, name);
      t.deepEqual(operation.security, [{ key: [] }], name);
      const wanted = ['200', '400', '401', '404', '429', '500', '503'];
      if (/\/(run|runsync|cancel|retry)(\/|$)/.test(path)) wanted.push('409');
      if (/\/(run|runsync|purge-queue|openai)/.test(path)) wanted.push('413', '415');
      if (path.includes('/openai/')) wanted.push('504');
      for (const status of wanted) {
        const response = operation.responses[status];
        t.truthy(response?.description, `${name} ${status}`);
        t.truthy(response?.content, `${name} ${status} has a shape`);
      }
      for (const parameter of path.matchAll(/\{(\w+)\}/g))
        t.true(
          operation.parameters?.some((each) => each.in === 'path' && each.name === parameter[1]),
          `${name} ${parameter[1] ?? ''}`,
        );
    }
  }
  const submit = paths['/v2/{endpointId}/run']?.['post'];
  t.true(submit?.parameters?.some((each) => each.in === 'header' && each.name === 'idempotency-key'));
});

test('operations beside the queue say how they refuse', async (t) => {
  const { paths } = await document(t);
  for (const [path, method, ...statuses] of [
    ['/healthz', 'get', '503'],
    ['/metrics', 'get', '400', '401'],
    ['/graphql', 'post', '400', '401', '413', '429', '503'],
    ['/builds/{digest}', 'get', '400', '401', '404', '503'],
    ['/builds/{digest}', 'put', '201', '400', '401', '413', '415', '503'],
    ['/builds/{digest}', 'patch', '201', '400', '401', '409', '413', '415', '503'],
  ] as const)
    for (const status of ['200', ...statuses]) t.truthy(paths[path]?.[method]?.responses[status]?.content, `${method} ${path} ${status}`);
});

test('a body is required where there must be one, and numbers of queries are numbers', async (t) => {
  const { paths } = await document(t);
  const required = (path: string): boolean | undefined => paths[`/v2/{endpointId}/${path}`]?.['post']?.requestBody?.required;
  for (const path of ['run', 'runsync', 'openai/{*}']) t.true(required(path), path);
  for (const path of ['cancel', 'cancel/{jobId}', 'retry', 'retry/{jobId}', 'purge-queue', 'stream']) t.false(required(path), path);
  const query = (path: string, name: string): unknown =>
    paths[`/v2/{endpointId}/${path}`]?.['get']?.parameters?.find((each) => each.in === 'query' && each.name === name);
  t.like(query('requests', 'limit'), { required: false, schema: { type: 'integer', minimum: 1, maximum: 100 } });
  t.like(query('status-sync/{jobId}', 'wait'), { required: false, schema: { type: 'number' } });
  t.like(query('stream', 'id'), { required: true });
  t.is(query('stream/{jobId}', 'id'), undefined);
});

test('the API pages name every field of a submission and of the status object', async (t) => {
  const text = JSON.stringify(await document(t));
  for (const field of [
    ...['input', 'webhook', 'executionTimeout', 'ttl', 'lowPriority', 'accessId', 'accessSecret', 'bucketName', 'endpointUrl'],
    ...['output', 'error', 'delayTime', 'executionTime', 'retries', 'workerId', 'queueReason', 'stream', 'removed', 'hasMore'],
    ...['completed', 'failed', 'inProgress', 'inQueue', 'retried', 'idle', 'initializing', 'ready', 'running', 'throttled', 'unhealthy'],
  ]) {
    t.true(text.includes(`"${field}"`), `the document lacks ${field}`);
    t.true(docs.includes(field), `the API pages lack ${field}`);
  }
});

test('the document is as strict as the server: media types, headers, ids', async (t) => {
  const { paths } = await document(t);
  const metrics = paths['/metrics']?.['get']?.responses['200']?.content;
  t.deepEqual(Object.keys(metrics ?? {}), ['text/plain']);
  const text = JSON.stringify(paths['/builds/{digest}']?.['patch']);
  t.regex(text, /"schema":\{"type":"integer","minimum":0\},"in":"header","name":"upload-offset"/);
  t.regex(text, /"schema":\{"type":"integer","minimum":1\},"in":"header","name":"upload-length"/);
  const run = JSON.stringify(paths['/v2/{endpointId}/run']?.['post']);
  t.regex(run, /"pattern":"\^\[!-~\]\{1,255\}\$"[^{}]*\},"in":"header","name":"idempotency-key"/);
  const status = JSON.stringify(paths['/v2/{endpointId}/status/{jobId}']?.['get']);
  t.regex(status, /"pattern":"\^\[!-~\]\{1,128\}\$"[^{}]*\},"in":"path","name":"jobId"/);
});

test('every number that JSON can write is a wait', async (t) => {
  const { call } = await setup(t);
  for (const wait of ['1e3', '1E%2B300', '-2.5e-300', '0', `${'9'.repeat(309)}.0`])
    t.is((await call('POST', `/v2/ep/runsync?wait=${wait}`, { body: '{"input":{}}' })).status, 200, wait);
  for (const wait of ['', 'soon', '1e', 'NaN', '0x10'])
    t.is((await call('POST', `/v2/ep/runsync?wait=${wait}`, { body: '{"input":{}}' })).status, 400, wait);
});
