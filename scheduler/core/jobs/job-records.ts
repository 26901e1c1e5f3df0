/** Jobs in the state. Only this module creates a job or changes its phase, its endpoint's counters and its queue. */
import { invariant } from '../../../lib/invariant.ts';
import { keptFields, requestedFields, type KeptFields, type RequestedFields } from '../ports/columns.ts';
import type { JobRow } from '../ports/store.ts';

import type { CoreEvent } from '../events.ts';
import type { State } from '../state.ts';
import type { EndpointRecord } from '../state/endpoints.ts';
import type { JobRecord } from '../state/jobs.ts';
import type { Now } from '../now.ts';
import { enqueue, leave, putBack, take } from './lanes.ts';
import { transition, type Cell, type JobEvent, type Phase, type Transition } from '../state/transitions.ts';

/** A job in this phase. */
type JobIn<P extends Phase> = JobRecord & { readonly phase: P };

/**
 * Applies an event: moves the job to the phase in the table and updates the queue and counters of its endpoint
 * (invariant 9). Returns null and changes nothing if the table forbids the event.
 */
export function applyEvent<P extends Phase, E extends JobEvent>(state: State, job: JobIn<P>, event: E): Cell<P, E> {
  const cell = transition<P, E>(job.phase, event);
  const next: Transition | null = cell;
  if (next === null) return cell;
  (job as { phase: Phase }).phase = next.to;
  // Undefined only where a database that was restored in part lacks the endpoint's row. Then nothing counts its jobs.
  const endpoint = state.endpoints.get(job.endpoint);
  if (next.queue !== null) moveInQueue(state, endpoint, job, next.queue);
  if (next.counts === 'attempt') job.attempts++;
  if (endpoint !== undefined) count(endpoint, job, next);
  return cell;
}

/** The window of a lane is the part of its queue that the state holds. */
function moveInQueue(state: State, endpoint: EndpointRecord | undefined, job: JobRecord, move: NonNullable<Transition['queue']>): void {
  const lane = endpoint?.lanes[job.priority];
  switch (move) {
    case 'enter':
      if (lane !== undefined && enqueue(lane, job, state.settings.windowSize)) state.jobs.set(job.id, job);
      return;
    case 'return':
      if (lane === undefined || !putBack(lane, job)) state.jobs.delete(job.id);
      return;
    case 'take':
      if (lane !== undefined) take(lane, job);
      return;
    case 'leave':
      if (lane !== undefined) leave(lane, job);
  }
}

function count({ counts }: EndpointRecord, job: JobRecord, next: Transition): void {
  counts.inProgress += next.running;
  if (job.priority === 1) counts.inProgressLow += next.running;
  invariant(
    counts.inProgressLow >= 0 && counts.inProgress >= counts.inProgressLow,
    'a job that ends was counted as running (invariant 9)',
    {
      job: job.id,
      endpoint: job.endpoint,
    },
  );
  switch (next.counts) {
    case null:
      return;
    case 'attempt':
      if (job.attempts > 1) counts.retried++;
      return;
    case 'retry':
      counts.retried++;
      return;
    case 'completed':
      counts.completed++;
      return;
    case 'failed':
      counts.failed++;
  }
}

/** An object that is copied and filled has one shape and fast fields. */
const BLANK = Object.fromEntries(keptFields.map((field) => [field, null]));

function keptOf(from: KeptFields): KeptFields {
  const kept: Record<string, unknown> = { ...BLANK };
  for (const field of keptFields) kept[field] = from[field];
  return kept as unknown as KeptFields;
}

/** What a submission says of its job; the rest is blank. */
function requestedBy(event: RequestedFields): KeptFields {
  const kept: Record<string, unknown> = { ...BLANK };
  for (const field of requestedFields) kept[field] = event[field] ?? null;
  return kept as unknown as KeptFields;
}

/** Creates the job of an admitted submission. */
export function newJob(state: State, now: Now, endpoint: EndpointRecord, event: Extract<CoreEvent, { kind: 'submit' }>): JobIn<'NEW'> {
  const { settings } = state;
  const { policy } = event;
  const ttlMs = policy.ttlMs ?? settings.ttlMs;
  return {
    ...requestedBy(event),
    seq: state.nextSeq++,
    id: event.job,
    endpoint: event.endpoint,
    kind: event.jobKind,
    priority: policy.lowPriority ? 1 : 0,
    executionTimeoutMs: policy.executionTimeoutMs ?? (endpoint.config.executionTimeoutMs || settings.executionTimeoutMs),
    ttlMs,
    retentionMs: event.jobKind === 'RUN' ? settings.runRetentionMs : settings.runsyncRetentionMs,
    hasS3: event.s3 !== null,
    pastAttempts: null,
    phase: 'NEW',
    queuePosition: state.nextQueuePosition++,
    token: 0,
    attempts: 0,
    submittedAt: now.wall,
    queuedAt: now.wall,
    deleteAt: now.wall + ttlMs,
    lease: null,
    leasedAt: null,
    startedAt: null,
    startRecorded: false,
    recordStart: null,
    worker: null,
    progress: null,
    stream: null,
  };
}

/** Returns the job of a stored row. */
export function fromRow(row: JobRow): JobRecord {
  return {
    ...keptOf(row),
    pastAttempts: row.pastAttempts,
    phase: phaseOf(row),
    queuePosition: row.queuePosition,
    token: row.token,
    attempts: row.attempts,
    submittedAt: row.submittedAt,
    queuedAt: row.submittedAt,
    deleteAt: row.deleteAt,
    lease: row.lease,
    leasedAt: null,
    startedAt: row.startedAt,
    startRecorded: row.startedAt !== null,
    recordStart: null,
    worker: row.worker,
    progress: null,
    stream: null,
  };
}

/** Returns the phase of a stored row. */
export function phaseOf({ state, startedAt }: JobRow): Phase {
  if (state === 'IN_QUEUE') return 'QUEUED';
  if (state === 'LEASED') return startedAt === null ? 'LEASED' : 'STARTED';
  return state;
}

/** Returns the row of a job that is submitted now. */
export function toRow(job: JobRecord): JobRow {
  invariant(job.phase === (job.lease === null ? 'QUEUED' : 'LEASED'), 'a job that is submitted is queued, or leased with a lease', {
    job: job.id,
    phase: job.phase,
  });
  invariant(job.attempts === 0 && job.startedAt === null, 'a job that is submitted has not started', { job: job.id });
  return {
    ...keptOf(job),
    state: job.lease === null ? 'IN_QUEUE' : 'LEASED',
    queuePosition: job.queuePosition,
    token: job.token,
    attempts: job.attempts,
    lease: job.lease,
    submittedAt: job.submittedAt,
    startedAt: null,
    endedAt: null,
    deleteAt: job.deleteAt,
    worker: job.worker,
    delayMs: null,
    executionMs: null,
    error: null,
    pastAttempts: null,
  };
}
