/** Jobs in GraphQL. */
import { CapstanError } from '../../lib/errors.ts';
import { fromPayloadMessage, payloadBytes } from '../../lib/payload.ts';
import { JobKind, JobState, type Payload } from '../../proto/gen/capstan/v1/common.ts';
import {
  BulkAction,
  type BulkOperation,
  type JobDetail,
  type JobFilter,
  type PastAttempt,
  type QueueReasonSpan,
  type SummarizeJobsResponse,
} from '../../proto/gen/capstan/v1/control.ts';
import { time } from './shapes.ts';

/** The input JobFilter. */
export interface Filter {
  readonly status?: readonly Exclude<keyof typeof JobState, 'UNSPECIFIED' | 'UNRECOGNIZED'>[] | null;
  readonly sinceMs?: number | null;
  readonly untilMs?: number | null;
  readonly text?: string | null;
  readonly tag?: string | null;
}

/** Arguments of the field `jobs`. */
export interface JobSearch {
  readonly endpoint: string;
  readonly filter?: Filter | null;
  readonly limit?: number | null;
  readonly cursor?: string | null;
}

/** Arguments of the fields about many jobs. */
export interface BulkArguments {
  readonly endpoint: string;
  readonly action: 'RETRY' | 'CANCEL' | 'PURGE';
  readonly filter?: Filter | null;
}

/** @throws CapstanError INVALID_ARGUMENT */
export function filterMessage(filter: Filter | null | undefined): JobFilter {
  return {
    states: (filter?.status ?? []).map((status) => JobState[status]),
    sinceMs: milliseconds('filter.sinceMs', filter?.sinceMs ?? 0),
    untilMs: milliseconds('filter.untilMs', filter?.untilMs ?? 0),
    text: filter?.text ?? '',
    ...(filter?.tag == null ? {} : { tag: filter.tag }),
  };
}

export function bulkMessage({ endpoint, action, filter }: BulkArguments): { endpointId: string; action: BulkAction; filter: JobFilter } {
  return { endpointId: endpoint, action: BulkAction[action], filter: filterMessage(filter) };
}

export function summaryShape({ states, errors }: SummarizeJobsResponse): object {
  return {
    states: states.map(({ state, count, incomplete }) => ({ status: state.replace(/^JOB_STATE_/, ''), count: Number(count), incomplete })),
    errors: errors.map(({ count, ...group }) => ({ ...group, count: Number(count) })),
  };
}

export function bulkShape(operation: BulkOperation): object {
  return {
    id: operation.id,
    endpoint: operation.endpointId,
    action: operation.action.replace(/^BULK_ACTION_/, ''),
    state: operation.state.replace(/^BULK_STATE_/, ''),
    examined: Number(operation.examined),
    lookedAt: Number(operation.examined),
    changed: Number(operation.changed),
    skipped: Number(operation.skipped),
    startedAt: time(operation.startedAtMs),
    endedAt: operation.endedAtMs === 0n ? null : time(operation.endedAtMs),
    error: orNull(operation.error),
  };
}

/** A time of a filter. @throws CapstanError INVALID_ARGUMENT */
export function milliseconds(field: string, value: number): bigint {
  if (value < 0 || value > Number.MAX_SAFE_INTEGER)
    throw new CapstanError('INVALID_ARGUMENT', `${field}: must be a time in ms since the Unix epoch`, { field });
  return BigInt(Math.trunc(value));
}

export function jobShape(detail: JobDetail): object {
  const { job } = detail;
  if (job === undefined) throw new Error('the scheduler sent a job without its state');
  return {
    id: job.id,
    endpoint: job.endpointId,
    status: job.state.replace(/^JOB_STATE_/, ''),
    isSync: detail.kind === JobKind.RUNSYNC,
    lowPriority: detail.lowPriority,
    submittedAt: time(job.submittedAtMs),
    startedAt: time(detail.startedAtMs),
    endedAt: time(detail.endedAtMs),
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
    pastAttempts: detail.pastAttempts.map(attemptShape),
    queueReasons: detail.queueReasons.map(reasonShape),
    ...document('input', detail.input),
    ...document('output', job.output),
  };
}

function attemptShape(past: PastAttempt): object {
  return {
    submittedAt: time(past.submittedAtMs),
    attempt: past.attempt,
    worker: orNull(past.workerId),
    node: orNull(past.nodeId),
    leasedAt: time(past.leasedAtMs),
    startedAt: time(past.startedAtMs),
    endedAt: time(past.endedAtMs),
    reason: past.reason,
    error: orNull(past.error),
    count: past.count,
  };
}

function reasonShape({ atMs, untilMs, reason, detail }: QueueReasonSpan): object {
  return { at: time(atMs), until: time(untilMs), reason, detail: orNull(detail) };
}

function document(name: 'input' | 'output', message: Payload | undefined): object {
  const payload = fromPayloadMessage(message);
  if (payload === undefined) return { [name]: null, [`${name}Bytes`]: null };
  const text = 'inline' in payload ? Buffer.from(payload.inline).toString('utf8') : null;
  return { [name]: text, [`${name}Bytes`]: payloadBytes(payload) };
}

function orNull(text: string): string | null {
  return text === '' ? null : text;
}
