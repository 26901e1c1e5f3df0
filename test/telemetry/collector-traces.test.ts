/** A real OpenTelemetry Collector accepts spans, by each protocol, and all parts' spans of a job are one trace there. */
import { join } from 'node:path';

import test from 'ava';
import { z } from 'zod';

import { readSettings } from '../../lib/settings.ts';
import { telemetrySettings } from '../../lib/telemetry/settings.ts';
import { openTracing } from '../../lib/telemetry/tracing.ts';
import { noCollector, startCollector } from '../support/collector.ts';
import { OtlpReceiver } from '../support/otlp-receiver.ts';
import { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const withCollector = noCollector === '' ? test : test.skip;
const CALLER = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';

for (const protocol of ['http/protobuf', 'http/json', 'grpc'] as const)
  withCollector(`spans arrive by ${protocol}${noCollector}`, async (t) => {
    const receiver = await OtlpReceiver.start(t);
    const collector = await startCollector(t, receiver);
    const env = {
      OTEL_EXPORTER_OTLP_ENDPOINT: protocol === 'grpc' ? collector.grpc : collector.http,
      OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment=test',
    };
    const warnings: string[] = [];
    const settings = readSettings(z.object(telemetrySettings), {}, env);
    const tracing = await openTracing(settings, { name: 'test', version: '1.0.0', warn: (_fields, message) => warnings.push(message) });
    const span = tracing.start('step', { kind: 'consumer', parent: CALLER, attributes: { text: '\u0000\ud800 ü', count: 3 } });
    span.fail('x'.repeat(5_000));
    span.end();
    await tracing.close();
    await until('the Collector has passed the span on', () => receiver.spans.length > 0);
    t.like(receiver.spans[0], { service: 'capstan-test', name: 'step', parentId: '00f067aa0ba902b7' });
    t.is(receiver.spans[0]?.attributes['count'], 3);
    t.is(receiver.spans[0]?.failure?.length, 1_024);
    t.deepEqual(warnings, []);
  });

withCollector(`a service exports one trace for each job${noCollector}`, async (t) => {
  const receiver = await OtlpReceiver.start(t);
  const collector = await startCollector(t, receiver);
  const stack = await Stack.start({
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.grpc,
    OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc',
    OTEL_BSP_SCHEDULE_DELAY: '100',
  });
  t.teardown(() => stack.close());
  const inner = (await stack.deploy(join(import.meta.dirname, '../integration/apps/traced'))).get('inner') ?? '';
  const id = await stack.run(inner, { name: 'Ada' });
  await until('all parts have exported', () =>
    ['gateway', 'scheduler', 'agent'].every((part) =>
      receiver.spans.some((span) => span.service === `capstan-${part}` && span.attributes['capstan.job.id'] === id),
    ),
  );
  const ofJob = receiver.spans.filter((span) => span.attributes['capstan.job.id'] === id);
  t.is(new Set(ofJob.map((span) => span.traceId)).size, 1);
});
