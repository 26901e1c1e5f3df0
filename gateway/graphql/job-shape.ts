/** Jobs in GraphQL. */
import { CapstanError } from '../../lib/errors.ts';
import { fromPayloadMessage, payloadBytes } from '../../lib/payload.ts';
import { JobKind, jobStateToJSON, type JobState, type Payload } from '../../proto/gen/capstan/v1/common.ts';
import type { JobDetail } from '../../proto/gen/capstan/v1/control.ts';
import { time } from './shapes.ts';

/** Arguments of the field `jobs`. */
export interface JobSearch {
  readonly endpoint: string;
  readonly filter?: {
    readonly status?: readonly Exclude<keyof typeof JobState, 'UNSPECIFIED' | 'UNRECOGNIZED'>[] | null;
    readonly sinceMs?: number | null;
    readonly untilMs?: number | null;
    readonly text?: string | null;
  } | null;
  readonly limit?: number | null;
  readonly cursor?: string | null;
}

/** A time of a filter. @throws CapstanError INVALID_ARGUMENT */
export function milliseconds(field: string, value: number): bigint {
  if (value < 0 || value > Number.MAX_SAFE_INTEGER)
    throw new CapstanError('INVALID_ARGUMENT', `${field}: must be a time in ms since 1970`, { field });
  return BigInt(Math.trunc(value));
}

export function jobShape(detail: JobDetail): object {
  const { job } = detail;
  if (job === undefined) throw new Error('the scheduler sent a job without its state');
  return {
    id: job.id,
    endpoint: job.endpointId,
    status: jobStateToJSON(job.state).replace(/^JOB_STATE_/, ''),
    isSync: detail.kind === JobKind.RUNSYNC,
    lowPriority: detail.lowPriority,
    submittedAt: time(job.submittedAtMs),
    startedAt: time(detail.startedAtMs),
    endedAt: time(detail.endedAtMs),
    deleteAt: time(detail.deleteAtMs),
    delayTime: job.delayMs ?? null,
    executionTime: job.executionMs ?? null,
    attempts: detail.attempts,
    executionTimeout: Number(detail.executionTimeoutMs),
    ttl: Number(detail.ttlMs),
    worker: orNull(job.workerId),
    node: orNull(detail.nodeId),
    queueReason: orNull(job.queueReason),
    error: job.error ?? null,
    webhook: orNull(job.webhook),
    ...document('input', detail.input),
    ...document('output', job.output),
  };
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
