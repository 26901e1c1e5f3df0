/** Spans of jobs are parts of traces that began elsewhere: no part decides anew about a job without a trace. */
import test from 'ava';
import { z } from 'zod';

import { AttemptSpans } from '../../agent/telemetry/attempt-spans.ts';
import { readSettings } from '../../lib/settings.ts';
import { telemetrySettings } from '../../lib/telemetry/settings.ts';
import { NO_SPAN, openTracing } from '../../lib/telemetry/tracing.ts';
import type { Dispatch } from '../../proto/gen/capstan/v1/nodes.ts';
import type { DispatchEffect } from '../../scheduler/engine/ports.ts';
import type { DeliveryRow } from '../../scheduler/core/ports/store.ts';
import { recordWait, webhookSpan } from '../../scheduler/telemetry/job-spans.ts';
import { OtlpReceiver } from '../support/otlp-receiver.ts';

test('a job without a trace has no spans, whatever the sampler', async (t) => {
  const receiver = await OtlpReceiver.start(t);
  const settings = readSettings(z.object(telemetrySettings), {}, { ...receiver.variables, OTEL_TRACES_SAMPLER: 'always_on' });
  const tracing = await openTracing(settings, { name: 'test', version: '1.2.3', warn: () => undefined });
  const job = { job: 'j', endpoint: 'e', worker: 'w', node: 'n', attempt: 1, queuedAt: 0, start: null };
  recordWait(tracing, { ...job, trace: '' } as unknown as DispatchEffect, 1);
  const delivery = { id: 'h', endpoint: 'e', host: 'receiver.test', tries: 0, envelope: '{"id":"j","status":"COMPLETED"}' };
  t.is(webhookSpan(tracing, delivery as DeliveryRow), NO_SPAN);
  t.is(new AttemptSpans(tracing).started('k', { jobId: 'j', workerId: 'w', attempt: 1 } as Dispatch, 'e'), '');
  await tracing.close();
  t.deepEqual(receiver.spans, []);
});
