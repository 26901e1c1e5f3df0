/** Jobs in GraphQL. */
import { CapstanError } from '../../lib/errors.ts';
import { fromPayloadMessage, payloadBytes } from '../../lib/payload.ts';
import { JobKind, JobState, type Payload } from '../../proto/gen/capstan/v1/common.ts';
import {
  BulkAction,
  BulkState,
  type BulkOperation,
  type JobDetail,
  type JobFilter,
  type PastAttempt,
  type QueueReasonSpan,
  type SummarizeJobsResponse,
} from '../../proto/gen/capstan/v1/control.ts';
import type * as Schema from './gen/schema.ts';
import { nameOf, orNull, present, time, timeOrNull } from './message-values.ts';

/** @throws CapstanError INVALID_ARGUMENT */
export function filterMessage(filter: Schema.JobFilter | null | undefined): JobFilter {
  return {
    states: (filter?.status ?? []).map((status) => JobState[status]),
    sinceMs: milliseconds('filter.sinceMs', filter?.sinceMs ?? 0),
    untilMs: milliseconds('filter.untilMs', filter?.untilMs ?? 0),
    text: filter?.text ?? '',
    ...(filter?.tag == null ? {} : { tag: filter.tag }),
    ...(filter?.submittedBy == null ? {} : { submittedBy: filter.submittedBy }),
  };
}

export function bulkMessage({ endpoint, action, filter }: Schema.CountJobsArguments): {
  endpointId: string;
  action: BulkAction;
  filter: JobFilter;
} {
  return { endpointId: endpoint, action: BulkAction[action], filter: filterMessage(filter) };
}

export function summaryShape({ states, errors }: SummarizeJobsResponse): Schema.JobSummary {
  return {
    states: states.map(({ state, count, incomplete }) => ({ status: nameOf(JobState, state), count: Number(count), incomplete })),
    errors: errors.map(({ count, ...group }) => ({ ...group, count: Number(count) })),
  };
}

export function bulkShape(operation: BulkOperation): Schema.BulkOperation {
  return {
    id: operation.id,
    endpoint: operation.endpointId,
    action: nameOf(BulkAction, operation.action),
    state: nameOf(BulkState, operation.state),
    examined: Number(operation.examined),
    lookedAt: Number(operation.examined),
    changed: Number(operation.changed),
    skipped: Number(operation.skipped),
    startedAt: timeOrNull(operation.startedAtMs),
    endedAt: timeOrNull(operation.endedAtMs),
    error: orNull(operation.error),
  };
}

/** A time of a filter. @throws CapstanError INVALID_ARGUMENT */
export function milliseconds(field: string, value: number): bigint {
  if (value < 0 || value > Number.MAX_SAFE_INTEGER)
    throw new CapstanError('INVALID_ARGUMENT', `${field}: must be a time in ms since the Unix epoch`, { field });
  return BigInt(Math.trunc(value));
}

export function jobShape(detail: JobDetail): Schema.Job {
  const job = present(detail.job, 'job');
  const input = document(detail.input);
  const output = document(job.output);
  return {
    id: job.id,
    endpoint: job.endpointId,
    status: nameOf(JobState, job.state),
    isSync: detail.kind === JobKind.RUNSYNC,
    lowPriority: detail.lowPriority,
    submittedAt: time(job.submittedAtMs),
    startedAt: timeOrNull(detail.startedAtMs),
    endedAt: timeOrNull(detail.endedAtMs),
    deleteAt: time(detail.deleteAtMs),
    delayTime: job.delayMs ?? null,
    executionTime: job.executionMs ?? null,
    attempts: detail.attempts,
    chunks: detail.chunks,
    executionTimeout: Number(detail.executionTimeoutMs),
    ttl: Number(detail.ttlMs),
    worker: orNull(job.workerId),
    node: orNull(detail.nodeId),
    queueReason: orNull(job.queueReason),
    error: job.error ?? null,
    webhook: orNull(job.webhook),
    traceId: detail.traceId ?? null,
    tags: detail.tags,
    submittedBy: detail.submittedBy ?? null,
    pastAttempts: detail.pastAttempts.map(attemptShape),
    queueReasons: detail.queueReasons.map(reasonShape),
    input: input.text,
    inputBytes: input.bytes,
    output: output.text,
    outputBytes: output.bytes,
  };
}

function attemptShape(past: PastAttempt): Schema.PastAttempt {
  return {
    submittedAt: time(past.submittedAtMs),
    attempt: past.attempt,
    worker: orNull(past.workerId),
    node: orNull(past.nodeId),
    leasedAt: timeOrNull(past.leasedAtMs),
    startedAt: timeOrNull(past.startedAtMs),
    endedAt: time(past.endedAtMs),
    reason: past.reason,
    error: orNull(past.error),
    count: past.count,
  };
}

function reasonShape({ atMs, untilMs, reason, detail }: QueueReasonSpan): Schema.QueueReason {
  return { at: time(atMs), until: timeOrNull(untilMs), reason, detail: orNull(detail) };
}

function document(message: Payload | undefined): { readonly text: string | null; readonly bytes: number | null } {
  const payload = fromPayloadMessage(message);
  if (payload === undefined) return { text: null, bytes: null };
  return { text: 'inline' in payload ? Buffer.from(payload.inline).toString('utf8') : null, bytes: payloadBytes(payload) };
}
