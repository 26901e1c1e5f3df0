/** One trace from the caller through all parts, handlers, calls between endpoints and webhooks; and none when tracing is off. */
import { createServer, type IncomingHttpHeaders } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';

import type { ExecutionContext } from 'ava';
import test from 'ava';

import { OtlpReceiver, type ReceivedSpan } from '../support/otlp-receiver.ts';
import { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const APP = join(import.meta.dirname, '../integration/apps/traced');
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const PARENT = '00f067aa0ba902b7';
const CALLER = { traceparent: `00-${TRACE}-${PARENT}-01`, tracestate: 'vendor=1' };

interface Outer {
  readonly traceparent: string | null;
  readonly inner: { readonly traceparent: string | null };
}

async function webhookReceiver(t: ExecutionContext): Promise<{ readonly url: string; readonly seen: IncomingHttpHeaders[] }> {
  const seen: IncomingHttpHeaders[] = [];
  const server = createServer((request, response) => {
    seen.push(request.headers);
    request.resume();
    response.end();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`, seen };
}

function named(spans: readonly ReceivedSpan[], name: string): ReceivedSpan {
  const found = spans.filter((span) => span.name === name);
  if (found[0] === undefined) throw new Error(`no span ${name} among ${spans.map((span) => span.name).join(', ')}`);
  return found[0];
}

test('one trace leads from the caller to the worker, the endpoints that it calls, and the webhook', async (t) => {
  const receiver = await OtlpReceiver.start(t);
  const deliveries = await webhookReceiver(t);
  const stack = await Stack.start({ ...receiver.variables, CAPSTAN_WEBHOOK_ALLOW: '127.0.0.1/32', CAPSTAN_METRICS: 'open' });
  t.teardown(() => stack.close());
  const ids = await stack.deploy(APP);
  const outer = ids.get('outer') ?? '';
  const response = await stack.call(`/v2/${outer}/runsync`, {
    method: 'POST',
    headers: CALLER,
    body: JSON.stringify({ input: { name: 'Ada' }, webhook: deliveries.url }),
  });
  const { id, output } = (await response.json()) as { id: string; output: Outer };
  // Each part exports its spans by itself; the caller's request ends last.
  await until('the spans of all parts', () => {
    const count = (name: string): number => receiver.of(TRACE).filter((span) => span.name === name).length;
    const hasRequest = receiver.of(TRACE).some((span) => span.parentId === PARENT);
    return hasRequest && count('execute job') === 2 && count('wait in queue') === 2 && count('deliver webhook') === 1;
  });
  const spans = receiver.of(TRACE);
  const request = spans.find((span) => span.parentId === PARENT);
  t.like(request, {
    service: 'capstan-gateway',
    name: 'POST /v2/:endpointId/runsync',
    attributes: { 'http.response.status_code': 200, 'capstan.endpoint.id': outer, 'capstan.job.id': id },
  });
  const ofOuter = spans.filter((span) => span.attributes['capstan.job.id'] === id);
  const waiting = named(ofOuter, 'wait in queue');
  t.like(waiting, { service: 'capstan-scheduler', parentId: request?.spanId ?? '' });
  const start = spans.filter((span) => span.name === 'start worker');
  t.true(
    start.some((span) => span.parentId === waiting.spanId),
    'the job waited for the first worker',
  );
  t.true(spans.some((span) => span.name === 'load module' && start.some((parent) => parent.spanId === span.parentId)));
  const execution = named(ofOuter, 'execute job');
  t.like(execution, { service: 'capstan-agent', parentId: request?.spanId ?? '', failure: undefined });
  t.is(output.traceparent, `00-${TRACE}-${execution.spanId}-01`);
  // The call of the other endpoint, by the SDK in the worker.
  const call = spans.find((span) => span.parentId === execution.spanId && span.service === 'capstan-gateway');
  t.is(call?.name, 'POST /v2/:endpointId/runsync');
  const innerExecution = spans.find((span) => span.name === 'execute job' && span.parentId === call?.spanId);
  t.is(output.inner.traceparent, `00-${TRACE}-${innerExecution?.spanId ?? ''}-01`);
  const asked = await stack.call('/graphql', {
    method: 'POST',
    body: JSON.stringify({ query: `{ job(endpoint: "${outer}", id: "${id}") { traceId } }` }),
  });
  t.deepEqual(await asked.json(), { data: { job: { traceId: TRACE } } });
  const delivery = named(spans, 'deliver webhook');
  t.is(delivery.parentId, request?.spanId ?? '');
  t.is(deliveries.seen[0]?.['traceparent'], `00-${TRACE}-${delivery.spanId}-01`);
  t.is(deliveries.seen[0]?.['tracestate'], 'vendor=1');
  for (const span of spans) t.true(span.endNs >= span.startNs, span.name);
  // Nothing of the request but what is listed.
  t.notRegex(JSON.stringify(receiver.spans.map(({ attributes }) => attributes)), /Ada|cap_|Bearer|\/hook/);

  const page = ids.get('page') ?? '';
  const seen = (await (await stack.call(`/lb/${page}/seen`, { headers: CALLER })).json()) as { traceparent: string };
  await until('the spans of the request to the page', () =>
    ['GET seen', 'handle request'].every((name) => receiver.spans.some((span) => span.name === name)),
  );
  const served = receiver.of(TRACE).find((span) => `00-${TRACE}-${span.spanId}-01` === seen.traceparent);
  t.like(served, { service: 'capstan-agent', name: 'handle request' });
  t.is(named(receiver.spans, 'GET seen').spanId, served?.parentId ?? '');

  const metrics = await fetch(`${stack.url}/metrics`, { headers: { accept: 'application/openmetrics-text;version=1.0.0' } });
  t.regex(metrics.headers.get('content-type') ?? '', /^application\/openmetrics-text/);
  const text = await metrics.text();
  t.regex(text, new RegExp(`capstan_http_request_duration_seconds_bucket\\{[^}]*\\} \\d+ # \\{trace_id="${TRACE}"\\}`));
  t.regex(text, new RegExp(`capstan_job_execution_seconds_bucket\\{[^}]*\\} \\d+ # \\{trace_id="${TRACE}"\\}`));
  t.regex(text, /\n# EOF\n$/);
  t.is(text.match(/# EOF/g)?.length, 1);
  t.notRegex(text, /\n\n/, 'Prometheus refuses empty lines');
  const plain = await (await fetch(`${stack.url}/metrics`)).text();
  t.notRegex(plain, /# EOF|trace_id/);
});

test('without an endpoint for traces nothing is exported, and handlers see the trace of their caller', async (t) => {
  const stack = await Stack.start();
  t.teardown(() => stack.close());
  const outer = (await stack.deploy(APP)).get('outer') ?? '';
  const ask = async (headers: Record<string, string>): Promise<Outer> => {
    const response = await stack.call(`/v2/${outer}/runsync`, {
      method: 'POST',
      headers,
      body: JSON.stringify({ input: { name: 'Ada' } }),
    });
    return ((await response.json()) as { output: Outer }).output;
  };
  t.deepEqual(await ask(CALLER), {
    traceparent: CALLER.traceparent,
    inner: { name: 'Ada', traceparent: CALLER.traceparent },
  } as Outer);
  t.is((await ask({})).inner.traceparent, null);
  t.is((await ask({ traceparent: '00-short' })).inner.traceparent, null);
});

test('unsampled traces are passed on and not exported', async (t) => {
  const receiver = await OtlpReceiver.start(t);
  const stack = await Stack.start({ ...receiver.variables, OTEL_TRACES_SAMPLER: 'parentbased_traceidratio', OTEL_TRACES_SAMPLER_ARG: '0' });
  t.teardown(() => stack.close());
  const inner = (await stack.deploy(APP)).get('inner') ?? '';
  const ask = async (headers: Record<string, string>): Promise<string | null> => {
    const response = await stack.call(`/v2/${inner}/runsync`, {
      method: 'POST',
      headers,
      body: JSON.stringify({ input: { name: 'Ada' } }),
    });
    return ((await response.json()) as { output: { traceparent: string | null } }).output.traceparent;
  };
  t.is(await ask({}), null, 'a trace that is not recorded ends where it begins');
  const unsampled = CALLER.traceparent.replace(/01$/, '00');
  t.is(await ask({ traceparent: unsampled }), unsampled);
  t.regex((await ask(CALLER)) ?? '', new RegExp(`^00-${TRACE}-[\\da-f]{16}-01$`));
  await until('the caller’s trace is exported', () => receiver.of(TRACE).some((span) => span.name === 'execute job'));
  t.true(receiver.spans.every((span) => span.traceId === TRACE));
});
