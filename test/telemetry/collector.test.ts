/** A real OpenTelemetry Collector accepts what agents forward, by each protocol. */
import { join } from 'node:path';

import test from 'ava';

import { readConfig } from '../../agent/config.ts';
import { LogForwarder } from '../../agent/logs/forwarding/log-forwarder.ts';
import { noCollector, startCollector } from '../support/collector.ts';
import { recordsIn, type DecodedRecord } from '../support/otlp-logs.ts';
import { Receiver } from '../support/receiver.ts';
import { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const only = noCollector === '' ? test : test.skip;

/** Takes what the Collector passes on until a record is among it. */
async function recordWhere(receiver: Receiver, isIt: (record: DecodedRecord) => boolean): Promise<DecodedRecord> {
  for (;;) {
    const found = recordsIn((await receiver.next()).body).find(isIt);
    if (found !== undefined) return found;
  }
}

for (const protocol of ['http/protobuf', 'http/json', 'grpc']) {
  only(`records arrive by ${protocol}, text that is no valid Unicode included${noCollector}`, async (t) => {
    const receiver = await Receiver.open(t);
    const collector = await startCollector(t, receiver);
    const env = {
      OTEL_EXPORTER_OTLP_ENDPOINT: protocol === 'grpc' ? collector.grpc : collector.http,
      OTEL_LOGS_EXPORTER: 'otlp',
      OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
      OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip',
      OTEL_BLRP_SCHEDULE_DELAY: '10',
    };
    const log = { info: () => undefined, warn: (fields: unknown) => t.log(fields) };
    const forwarder = LogForwarder.open(readConfig({}, env), { version: '1.2.3', instanceId: () => 'node-1', log });
    t.teardown(() => forwarder?.close());
    forwarder?.add({
      line: {
        ...{ endpointId: 'ep1', workerId: 'w1', releaseId: 'r1', jobId: 'j1', attempt: 2, stream: 'stderr', level: 'fatal' },
        ...{ text: 'half a \ud83d and \u0000', fields: '{"gpu":3,"ratio":0.5,"ok":true,"name":"\\udc00"}' },
        ...{ atUs: 1_700_000_000_123_456n, atMs: 1_700_000_000_123n },
      },
      endpointName: 'hello',
      trace: { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331', isSampled: true },
    });
    const { attributes, resource, ...record } = await recordWhere(receiver, () => true);
    t.deepEqual(record, {
      body: 'half a \ufffd and \u0000',
      scope: 'capstan.worker',
      time: 1_700_000_000_123_456_000n,
      severity: 'fatal',
      severityNumber: 21,
      traceId: '0af7651916cd43dd8448eb211c80319c',
      spanId: 'b7ad6b7169203331',
    });
    t.deepEqual(attributes, {
      'capstan.endpoint.id': 'ep1',
      'capstan.endpoint.name': 'hello',
      'capstan.job.id': 'j1',
      'capstan.attempt': 2,
      'capstan.worker.id': 'w1',
      'capstan.release': 'r1',
      'log.iostream': 'stderr',
      gpu: 3,
      ratio: 0.5,
      ok: true,
      name: '\ufffd',
    });
    t.like(resource, { 'service.name': 'capstan-agent', 'service.instance.id': 'node-1' });
  });
}

only(`a service forwards what a job prints, and counts it${noCollector}`, async (t) => {
  const receiver = await Receiver.open(t);
  const collector = await startCollector(t, receiver);
  const stack = await Stack.start({
    OTEL_EXPORTER_OTLP_LOGS_ENDPOINT: `${collector.http}/v1/logs`,
    OTEL_BLRP_SCHEDULE_DELAY: '10',
  });
  t.teardown(() => stack.close());
  const id = (await stack.deploy(join(import.meta.dirname, 'app'))).get('printing') ?? '';
  // Tracing is off here: the lines have the context of the caller.
  const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
  const asked = await stack.call(`/v2/${id}/runsync`, { method: 'POST', headers: { traceparent }, body: '{"input":{}}' });
  const { id: job, output } = (await asked.json()) as { id: string; output: unknown };
  t.deepEqual(output, []);
  const { attributes, severity, traceId, spanId } = await recordWhere(receiver, ({ body }) => body === 'hot');
  t.is(severity, 'warn');
  t.deepEqual([traceId, spanId], ['4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7']);
  t.like(attributes, { 'capstan.endpoint.name': 'printing', 'capstan.job.id': job, 'capstan.attempt': 1, gpu: 3 });
  await until('the metric counts the lines', async () => {
    const text = await (await stack.call('/metrics')).text();
    return /^capstan_forwarded_log_lines_total\{node="node-[0-9a-f]+",outcome="sent"\} [1-9]/m.test(text);
  });
});
