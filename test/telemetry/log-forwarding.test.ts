/** Lines of workers reach a receiver of OTLP, and a receiver that misbehaves harms nobody. */
import { createRequire } from 'node:module';

import test, { type ExecutionContext } from 'ava';

import { readConfig } from '../../agent/config.ts';
import { LogForwarder } from '../../agent/logs/forwarding/log-forwarder.ts';
import { startWorker } from '../agent/fixtures.ts';
import { recordsIn, type DecodedRecord } from '../support/otlp-logs.ts';
import { Receiver, type Answer } from '../support/receiver.ts';
import { until } from '../support/until.ts';

const SECRET = 'Bearer very-secret-token';

function variables(receiver: Receiver): Record<string, string> {
  return {
    OTEL_EXPORTER_OTLP_LOGS_ENDPOINT: receiver.url('/custom/logs'),
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
    OTEL_EXPORTER_OTLP_HEADERS: `authorization=${encodeURIComponent(SECRET)},x-tenant=ours`,
    OTEL_BLRP_SCHEDULE_DELAY: '10',
  };
}

interface World {
  readonly receiver: Receiver;
  readonly forwarder: LogForwarder;
  /** What the agent logs, as text. */
  readonly logged: string[];
  readonly add: (text: string, fields?: string) => void;
}

async function worldOf(t: ExecutionContext, answers: Answer[], env: Readonly<Record<string, string>> = {}): Promise<World> {
  const receiver = await Receiver.open(t, answers);
  const logged: string[] = [];
  const note = (fields: unknown, message?: unknown): void => void logged.push(JSON.stringify([fields, message]));
  const config = readConfig({}, { ...variables(receiver), ...env });
  const forwarder = LogForwarder.open(config, { version: '1.2.3', instanceId: () => 'node-1', log: { info: note, warn: note } });
  if (forwarder === undefined) throw new Error('forwarding is off');
  t.teardown(() => forwarder.close());
  const add = (text: string, fields = ''): void =>
    forwarder.add({
      line: {
        ...{ endpointId: 'ep1', workerId: 'w1', releaseId: 'r1', jobId: 'j1', attempt: 1, stream: 'stdout', level: 'error', text, fields },
        ...{ atUs: 1_700_000_000_123_456n, atMs: 1_700_000_000_123n },
      },
      endpointName: 'hello',
      trace: { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331', isSampled: true },
    });
  return { receiver, forwarder, logged, add };
}

test('a receiver gets records with headers, resource, time and trace', async (t) => {
  const { receiver, forwarder, add, logged } = await worldOf(t, [200], { OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=prod' });
  add('out of memory', '{"gpu":3}');
  const { url, headers, body } = await receiver.next();
  t.is(url, '/custom/logs');
  t.is(headers.authorization, SECRET);
  t.is(headers['x-tenant'], 'ours');
  const [record, ...others] = recordsIn(body);
  t.is(others.length, 0);
  t.like(record, {
    body: 'out of memory',
    scope: 'capstan.worker',
    time: 1_700_000_000_123_456_000n,
    severity: 'error',
    severityNumber: 17,
    traceId: '0af7651916cd43dd8448eb211c80319c',
    spanId: 'b7ad6b7169203331',
  });
  t.like(record?.attributes, { 'capstan.endpoint.name': 'hello', 'capstan.job.id': 'j1', gpu: 3 });
  t.like(record?.resource, {
    'service.name': 'capstan-agent',
    'service.version': '1.2.3',
    'service.instance.id': 'node-1',
    'deployment.environment.name': 'prod',
    'telemetry.sdk.name': 'opentelemetry',
  });
  await until('the batch is counted', () => forwarder.counts.sent === 1n);
  t.deepEqual(logged, [
    JSON.stringify([{ receiver: `127.0.0.1:${receiver.port}`, protocol: 'http/json' }, 'log lines of workers are forwarded']),
  ]);
});

test('a receiver that refuses and repeats the credentials: they are in no log line', async (t) => {
  const echo: Answer = (response, { headers }) => response.writeHead(400, headers.authorization).end(headers.authorization);
  const { forwarder, add, logged } = await worldOf(t, [echo]);
  add('a');
  await until('the batch is counted', () => forwarder.counts.dropped === 1n);
  t.regex(logged.join('\n'), /HTTP status 400/);
  t.notRegex(logged.join('\n'), /very-secret/);
});

test('headers that cannot be sent are told by a code, not by their value', async (t) => {
  const { forwarder, add, logged } = await worldOf(t, [200], { OTEL_EXPORTER_OTLP_HEADERS: 'authorization=very-secret%0Avalue' });
  add('a');
  await until('the batch is counted', () => forwarder.counts.dropped === 1n);
  t.notRegex(logged.join('\n'), /very-secret/);
});

test('a receiver that never answers, or answers without end: the batch is given up, and the next one arrives', async (t) => {
  const trickle: Answer = (response) => {
    response.writeHead(200);
    const timer = setInterval(() => response.write('x'), 5);
    response.once('close', () => clearInterval(timer));
  };
  const { receiver, forwarder, add, logged } = await worldOf(t, [trickle, 'never', 200], { OTEL_BLRP_EXPORT_TIMEOUT: '1000' });
  add('lost');
  await until('the first batch is given up', () => forwarder.counts.dropped === 1n);
  add('lost as well');
  await until('the second batch is given up', () => forwarder.counts.dropped === 2n);
  add('arrives');
  await until('the third batch is sent', () => forwarder.counts.sent === 1n);
  t.deepEqual(
    recordsIn(receiver.received.at(-1)?.body ?? Buffer.alloc(0)).map(({ body }) => body),
    ['arrives'],
  );
  t.regex(logged.join('\n'), /time-out/);
});

test('while a receiver holds a batch the queue is bounded, and what finds no room is counted', async (t) => {
  const { receiver, forwarder, add } = await worldOf(t, ['never'], {
    OTEL_BLRP_MAX_QUEUE_SIZE: '10',
    OTEL_BLRP_MAX_EXPORT_BATCH_SIZE: '5',
  });
  for (let at = 0; at < 5; at += 1) add('held');
  await receiver.next();
  for (let at = 0; at < 1_000; at += 1) add('more');
  t.deepEqual(forwarder.counts, { sent: 0n, dropped: 990n });
});

test('close sends what waits', async (t) => {
  const { receiver, forwarder, add } = await worldOf(t, [200], {
    OTEL_BLRP_SCHEDULE_DELAY: '3600000',
    OTEL_BLRP_MAX_EXPORT_BATCH_SIZE: '2',
  });
  add('a full');
  add('batch');
  await until('the thread has started and sent it', () => forwarder.counts.sent === 2n);
  add('last words');
  await forwarder.close();
  t.deepEqual(
    recordsIn(receiver.received[1]?.body ?? Buffer.from('{}')).map(({ body }) => body),
    ['last words'],
  );
  t.deepEqual(forwarder.counts, { sent: 3n, dropped: 0n });
});

test('no address, or a disabled SDK: nothing is forwarded', (t) => {
  const deps = { version: '1', instanceId: () => 'x', log: { info: () => t.fail(), warn: () => t.fail() } };
  const open = (env: Record<string, string>): unknown => LogForwarder.open(readConfig({}, env), deps);
  t.is(open({}), undefined);
  t.is(open({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1' }), undefined);
  t.is(open({ OTEL_EXPORTER_OTLP_LOGS_ENDPOINT: 'http://127.0.0.1:1', OTEL_SDK_DISABLED: 'true' }), undefined);
});

test('a variable that is not supported is refused by its name before the agent starts', (t) => {
  const env = { OTEL_EXPORTER_OTLP_LOGS_ENDPOINT: 'http://127.0.0.1:1', OTEL_EXPORTER_OTLP_LOGS_PROTOCOL: 'fax' };
  t.throws(() => readConfig({}, env), { code: 'CONFIG', message: /^OTEL_EXPORTER_OTLP_LOGS_PROTOCOL: / });
  t.throws(() => readConfig({}, { OTEL_BLRP_MAX_QUEUE_SIZE: 'many' }), { code: 'CONFIG', message: /^OTEL_BLRP_MAX_QUEUE_SIZE: / });
});

test('an agent forwards what its workers print, masked, and workers see none of its variables', async (t) => {
  const receiver = await Receiver.open(t);
  const { otelEnv } = readConfig({}, variables(receiver));
  const source = `export function hello() {
    console.log(JSON.stringify({ message: 'to ' + process.env.API_TOKEN, level: 'warn', gpu: 3 }));
    return Object.keys(process.env).filter((name) => name.startsWith('OTEL_'));
  }`;
  const { scheduler, agent } = await startWorker(
    t,
    source,
    'hello',
    { endpointName: 'greeter', env: { API_TOKEN: 'a-token-of-the-endpoint' } },
    { otelEnv },
  );
  scheduler.dispatch({ jobId: 'j1', attempt: 1 });
  t.deepEqual(scheduler.valueOf((await scheduler.ended('j1')).output), []);
  let printed: DecodedRecord | undefined;
  while (printed === undefined) printed = recordsIn((await receiver.next()).body).find(({ body }) => String(body).startsWith('to '));
  t.is(printed.body, 'to [masked]');
  t.is(printed.severity, 'warn');
  t.like(printed.attributes, {
    'capstan.endpoint.id': 'ep1',
    'capstan.endpoint.name': 'greeter',
    'capstan.job.id': 'j1',
    'capstan.attempt': 1,
    'capstan.worker.id': 'w1',
    'log.iostream': 'stdout',
    gpu: 3,
  });
  t.is(printed.resource['service.instance.id'], agent.nodeId);
  // The libraries are in the forwarding thread alone.
  const loaded = Object.keys(createRequire(import.meta.url).cache);
  t.deepEqual(
    loaded.filter((path) => path.includes('@opentelemetry')),
    [],
  );
});
