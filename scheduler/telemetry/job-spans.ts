/** Spans of a job's way through the scheduler: its wait, the start of the worker that it waited for, the tries of its webhook. */
import { NO_SPAN, type Span, type Tracing } from '../../lib/telemetry/tracing.ts';
import type { StartPhases } from '../core/state/fleet.ts';
import type { DispatchEffect, WaitEndedEffect } from '../engine/ports.ts';
import type { DeliveryRow } from '../core/ports/store.ts';
import { traceOfDelivery } from '../webhooks/webhook-body.ts';

/** The phases of a worker's start, in order, with the names of their spans. */
const PHASES = [
  ['placedMs', 'place worker'],
  ['artifactMs', 'fetch build'],
  ['startedMs', 'start process'],
  ['loadedMs', 'load module'],
] as const satisfies readonly (readonly [keyof StartPhases, string])[];

/** Records the wait of a job that is sent to its worker now; `wall`: ms since 1970. */
export function recordWait(tracing: Tracing, effect: DispatchEffect, wall: number): void {
  if (!tracing.isOn || effect.trace === '') return;
  const { trace, job, endpoint, worker, node, attempt, queuedAt, start } = effect;
  const span = tracing.start('wait in queue', {
    kind: 'internal',
    parent: trace,
    startMs: queuedAt,
    attributes: {
      'capstan.job.id': job,
      'capstan.endpoint.id': endpoint,
      'capstan.worker.id': worker,
      'capstan.node.id': node,
      'capstan.attempt': attempt,
    },
  });
  if (span.isRecorded && start !== null) recordStart(tracing, span, start);
  span.end(wall);
}

/** Records the wait of a job that ends in the queue now; `wall`: ms since 1970. */
export function recordEndedWait(tracing: Tracing, effect: WaitEndedEffect, wall: number): void {
  if (!tracing.isOn) return;
  const { trace, job, endpoint, attempt, queuedAt, outcome, reason } = effect;
  const span = tracing.start('wait in queue', {
    kind: 'internal',
    parent: trace,
    startMs: queuedAt,
    attributes: { 'capstan.job.id': job, 'capstan.endpoint.id': endpoint, 'capstan.attempt': attempt, 'capstan.outcome': outcome },
  });
  span.fail(reason);
  span.end(wall);
}

/** The phases end when the worker is ready. They may have begun before the job was submitted. */
function recordStart(tracing: Tracing, waiting: Span, start: NonNullable<DispatchEffect['start']>): void {
  let at = start.readyAt - PHASES.reduce((sum, [phase]) => sum + start[phase], 0);
  const whole = tracing.start('start worker', {
    kind: 'internal',
    parent: waiting.trace,
    startMs: at,
    attributes: { 'capstan.runtime': start.runtime },
  });
  for (const [phase, name] of PHASES) {
    const span = tracing.start(name, { kind: 'internal', parent: whole.trace, startMs: at });
    at += start[phase];
    span.end(at);
  }
  whole.end(start.readyAt);
}

/** Starts the span of a try to deliver a webhook; none for a job without a trace, which would begin one here. */
export function webhookSpan(tracing: Tracing, delivery: DeliveryRow): Span {
  const parent = traceOfDelivery(delivery);
  if (parent === '') return NO_SPAN;
  return tracing.start('deliver webhook', {
    kind: 'client',
    parent,
    // Not the URL: it may hold credentials.
    attributes: {
      'capstan.endpoint.id': delivery.endpoint,
      'capstan.webhook.id': delivery.id,
      'capstan.webhook.try': delivery.tries + 1,
      'server.address': delivery.host,
    },
  });
}
