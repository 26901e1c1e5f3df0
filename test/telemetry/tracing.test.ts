/** Spans as a receiver gets them, and settings that are refused. */
import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';

import test from 'ava';
import { z } from 'zod';

import { readSettings } from '../../lib/settings.ts';
import { telemetrySettings } from '../../lib/telemetry/settings.ts';
import { NO_SPAN, openTracing, TRACING_OFF, type Tracing } from '../../lib/telemetry/tracing.ts';
import { traceParent } from '../../lib/trace-context.ts';
import { freePort } from '../support/free-port.ts';
import { OtlpReceiver } from '../support/otlp-receiver.ts';

const CALLER = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
const UNSAMPLED = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00';

const settingsOf = (env: Readonly<Record<string, string>>) => readSettings(z.object(telemetrySettings), {}, env);

function open(env: Readonly<Record<string, string>>, warn: (message: string) => void = () => undefined): Promise<Tracing> {
  return openTracing(settingsOf(env), { name: 'test', version: '1.2.3', warn: (_fields, message) => warn(message) });
}

for (const [what, env] of [
  ['no endpoint', {}],
  ['OTEL_SDK_DISABLED', { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9', OTEL_SDK_DISABLED: 'true' }],
  ['OTEL_TRACES_EXPORTER=none', { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9', OTEL_TRACES_EXPORTER: 'none' }],
] as const)
  test(`with ${what} tracing is off`, async (t) => {
    t.is(await open(env), TRACING_OFF);
  });

for (const [name, value] of [
  ['OTEL_EXPORTER_OTLP_ENDPOINT', 'collector:4317'],
  ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'ftp://collector'],
  ['OTEL_EXPORTER_OTLP_PROTOCOL', 'thrift'],
  ['OTEL_TRACES_EXPORTER', 'zipkin'],
  ['OTEL_TRACES_SAMPLER', 'sometimes'],
  ['OTEL_TRACES_SAMPLER_ARG', '1.5'],
  ['OTEL_RESOURCE_ATTRIBUTES', 'no value'],
] as const)
  test(`${name}=${value} is refused by name`, async (t) => {
    const env = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9', [name]: value };
    await t.throwsAsync(async () => open(env), { code: 'CONFIG', message: new RegExp(`^${name}: must be `) });
  });

test('off, a span passes its parent on', (t) => {
  t.is(TRACING_OFF.start('s', { kind: 'server', parent: CALLER }).trace, CALLER);
  t.is(TRACING_OFF.start('s', { kind: 'server', parent: '' }).trace, '');
});

test('a span has its parent, times, attributes and failure; the resource says which part it is', async (t) => {
  const receiver = await OtlpReceiver.start(t);
  const tracing = await open({ ...receiver.variables });
  const span = tracing.start('first', { kind: 'server', parent: CALLER, startMs: 1_700_000_000_000, attributes: { a: 1 } });
  t.true(span.isRecorded);
  t.regex(span.trace, /^00-4bf92f3577b34da6a3ce929d0e0e4736-(?!00f067aa0ba902b7)[\da-f]{16}-01$/);
  span.set({ b: 'x'.repeat(5_000), c: `half a pair \ud800` });
  span.fail('it broke \ud800');
  span.end(1_700_000_000_250);
  span.end();
  await tracing.close();
  const [received] = receiver.spans;
  t.like(received, {
    service: 'capstan-test',
    name: 'first',
    parentId: '00f067aa0ba902b7',
    startNs: 1_700_000_000_000_000_000n,
    endNs: 1_700_000_000_250_000_000n,
    failure: 'it broke \ufffd',
  });
  t.is(received?.attributes['a'], 1);
  t.is(String(received?.attributes['b']).length, 1_024, 'long texts are cut');
  t.is(received?.attributes['c'], 'half a pair \ufffd', 'a receiver would refuse the whole batch');
  t.is(receiver.spans.length, 1);
});

test('samplers follow the caller or not', async (t) => {
  const receiver = await OtlpReceiver.start(t);
  const recorded = async (sampler: string, parent: string): Promise<boolean> => {
    const tracing = await open({ ...receiver.variables, OTEL_TRACES_SAMPLER: sampler, OTEL_TRACES_SAMPLER_ARG: '0' });
    const span = tracing.start('s', { kind: 'server', parent });
    span.end();
    await tracing.close();
    t.is(span.trace.endsWith('-01'), span.isRecorded);
    if (!span.isRecorded && parent === '') t.is(span.trace, '', 'it ends where it begins');
    return span.isRecorded;
  };
  t.true(await recorded('parentbased_always_on', ''));
  t.false(await recorded('parentbased_always_on', UNSAMPLED));
  t.true(await recorded('always_on', UNSAMPLED));
  t.false(await recorded('always_off', CALLER));
  t.false(await recorded('traceidratio', CALLER));
  t.true(await recorded('parentbased_traceidratio', CALLER));
  t.false(await recorded('parentbased_traceidratio', ''));
});

test('of the traces that begin here the stated share is recorded, each with an id of its own', async (t) => {
  const receiver = await OtlpReceiver.start(t);
  const ROOTS = 2_000;
  for (const [sampler, share] of [
    ['parentbased_traceidratio', 0.25],
    ['traceidratio', 0.25],
    ['parentbased_always_on', 1],
    ['always_off', 0],
  ] as const) {
    const tracing = await open({ ...receiver.variables, OTEL_TRACES_SAMPLER: sampler, OTEL_TRACES_SAMPLER_ARG: String(share) });
    const spans = Array.from({ length: ROOTS }, () => tracing.start('s', { kind: 'server', parent: '' }));
    const recorded = spans.filter(({ isRecorded }) => isRecorded);
    // Ten standard deviations of a quarter.
    t.true(Math.abs(recorded.length / ROOTS - share) < 0.1, `${sampler}: ${recorded.length}`);
    t.is(new Set(recorded.map(({ trace }) => traceParent(trace).traceId)).size, recorded.length, sampler);
    t.true(recorded.every(({ trace }) => trace.endsWith('-01')));
    t.true(spans.every((span) => span.isRecorded || span === NO_SPAN));
    // Every part that decides by the id decides the same.
    const below = recorded.map(({ trace }) => tracing.start('below', { kind: 'internal', parent: trace }));
    t.true(below.every(({ isRecorded }) => isRecorded));
    await tracing.close();
  }
});

test('gRPC needs no scheme, and an exporter of it is made', async (t) => {
  const tracing = await open({ OTEL_EXPORTER_OTLP_ENDPOINT: '127.0.0.1:9', OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' });
  t.true(tracing.isOn);
  await tracing.close();
});

test('a receiver that is away is warned of once, and closing does not wait for it', async (t) => {
  const port = await freePort();
  const warnings: string[] = [];
  const tracing = await open({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `http://127.0.0.1:${port}/v1/traces` }, (message) =>
    warnings.push(message),
  );
  for (let n = 0; n < 5_000; n += 1) tracing.start('s', { kind: 'internal', parent: '' }).end();
  await tracing.close();
  t.true(warnings.length <= 1);
  t.true(warnings.every((message) => message === 'spans were not exported'));
});

/** Exports a span to this address; returns the reason of the warning. */
async function reasonOfFailure(env: Readonly<Record<string, string>>): Promise<unknown> {
  const warned = Promise.withResolvers<unknown>();
  const part = { name: 'test', version: '1.2.3', warn: (fields: { readonly reason?: unknown }) => warned.resolve(fields.reason) };
  const tracing = await openTracing(settingsOf(env), part);
  tracing.start('s', { kind: 'internal', parent: '' }).end();
  await tracing.close();
  return warned.promise;
}

for (const protocol of ['http/protobuf', 'http/json', 'grpc'])
  test.serial(`the warning says why a receiver did not take spans by ${protocol}: code and address`, async (t) => {
    t.timeout(60_000);
    const port = await freePort();
    const path = protocol === 'grpc' ? '' : '/v1/traces';
    const address = { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `http://127.0.0.1:${port}${path}`, OTEL_EXPORTER_OTLP_PROTOCOL: protocol };
    t.is(await reasonOfFailure(address), `ECONNREFUSED 127.0.0.1:${port}`);
  });

test.serial('the warning has the status of a receiver that refuses, and nothing that it wrote', async (t) => {
  const server = createServer((request, response) => {
    request.resume().on('end', () => response.writeHead(403, 'your token is abc').end('{"message":"your token is abc"}'));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  t.is(await reasonOfFailure({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `http://127.0.0.1:${port}/v1/traces` }), 'HTTP status 403');
});
