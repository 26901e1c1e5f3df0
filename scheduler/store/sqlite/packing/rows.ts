import type { Payload } from '../../../../lib/payload.ts';
import { isDamaged, type StoredPayload } from '../../stored-payload.ts';
import type { HookRow, JobKind, JobRow, NewHook, StoredState } from '../../store.ts';
import type { Packer, Unpacker } from './packer.ts';

const states: readonly StoredState[] = ['IN_QUEUE', 'LEASED', 'COMPLETED', 'FAILED', 'CANCELLED', 'TIMED_OUT'];
const kinds: readonly JobKind[] = ['RUN', 'RUNSYNC'];

const stateCodes = Object.fromEntries(states.map((state, code) => [state, code])) as Record<StoredState, number>;

const valueOf = <T>(values: readonly T[], code: number): T => {
  const value = values[code];
  if (value === undefined) throw new Error(`unknown code ${code} in an encoded row`);
  return value;
};

export function packState(out: Packer, state: StoredState): void {
  out.byte(stateCodes[state]);
}

export function unpackState(from: Unpacker): StoredState {
  return valueOf(states, from.byte());
}

/** Set in the byte of the priority if the job has past attempts: a submission, which has none, is not a byte longer. */
const HAS_PAST = 2;

export function packJob(out: Packer, job: JobRow): void {
  out.number(job.seq);
  out.text(job.id);
  out.text(job.endpoint);
  out.byte(job.kind === 'RUN' ? 0 : 1);
  packState(out, job.state);
  out.byte(job.pastAttempts === null ? job.priority : job.priority | HAS_PAST);
  out.number(job.queuePosition);
  out.number(job.token);
  out.number(job.attempts);
  const lease = job.lease;
  out.text(lease === null ? null : lease.node);
  if (lease !== null) {
    out.text(lease.incarnation);
    out.text(lease.worker);
  }
  out.number(job.submittedAt);
  out.number(job.startedAt);
  out.number(job.endedAt);
  out.number(job.deleteAt);
  out.number(job.executionTimeoutMs);
  out.number(job.ttlMs);
  out.number(job.retentionMs);
  out.text(job.webhook);
  out.text(job.worker);
  out.number(job.delayMs);
  out.number(job.executionMs);
  out.text(job.error);
  out.byte(job.hasS3 ? 1 : 0);
  out.text(job.trace);
  out.text(job.tags);
  if (job.pastAttempts !== null) out.text(job.pastAttempts);
}

export function unpackJob(from: Unpacker): JobRow {
  const seq = from.number();
  const id = from.text();
  const endpoint = from.text();
  const kind = valueOf(kinds, from.byte());
  const state = unpackState(from);
  const marks = from.byte();
  const priority = (marks & 1) === 0 ? 0 : 1;
  const queuePosition = from.number();
  const token = from.number();
  const attempts = from.number();
  const node = from.textOrNull();
  const lease = node === null ? null : { node, incarnation: from.text(), worker: from.text() };
  return {
    seq,
    id,
    endpoint,
    kind,
    state,
    priority,
    queuePosition,
    token,
    attempts,
    lease,
    submittedAt: from.number(),
    startedAt: from.numberOrNull(),
    endedAt: from.numberOrNull(),
    deleteAt: from.number(),
    executionTimeoutMs: from.number(),
    ttlMs: from.number(),
    retentionMs: from.number(),
    webhook: from.textOrNull(),
    worker: from.textOrNull(),
    delayMs: from.numberOrNull(),
    executionMs: from.numberOrNull(),
    error: from.textOrNull(),
    hasS3: from.byte() === 1,
    trace: from.textOrNull(),
    tags: from.textOrNull(),
    pastAttempts: (marks & HAS_PAST) === 0 ? null : from.text(),
  };
}

/** 0 none, 1 inline, 2 in the blob store, 3 damaged. */
export function packPayload(out: Packer, payload: StoredPayload | null): void {
  if (payload === null) {
    out.byte(0);
  } else if ('damaged' in payload) {
    out.byte(3);
    out.text(payload.damaged);
  } else if ('inline' in payload) {
    out.byte(1);
    out.bytes(payload.inline);
  } else {
    out.byte(2);
    out.text(payload.blob.id);
    out.number(payload.blob.size);
  }
}

export function unpackPayload(from: Unpacker): Payload | null {
  const payload = unpackStored(from);
  if (isDamaged(payload)) throw new Error('a damaged payload is to be written');
  return payload;
}

export function unpackWholePayload(from: Unpacker): Payload {
  return present(unpackPayload(from));
}

/** Unpacks a payload that was read. */
export function unpackStored(from: Unpacker): StoredPayload | null {
  const tag = from.byte();
  if (tag === 0) return null;
  if (tag === 1) return { inline: from.bytes() };
  if (tag === 3) return { damaged: from.text() };
  return { blob: { id: from.text(), size: from.number() } };
}

export function unpackWholeStored(from: Unpacker): StoredPayload {
  return present(unpackStored(from));
}

function present<T>(payload: T | null): T {
  if (payload === null) throw new Error('an encoded payload is missing');
  return payload;
}

export function packPayloads(out: Packer, payloads: readonly StoredPayload[]): void {
  out.count(payloads.length);
  for (const payload of payloads) packPayload(out, payload);
}

export function unpackPayloads(from: Unpacker): Payload[] {
  return from.list(() => unpackWholePayload(from));
}

export function packNewHook(out: Packer, hook: NewHook): void {
  out.text(hook.id);
  out.text(hook.account);
  out.text(hook.endpoint);
  out.text(hook.url);
  out.text(hook.host);
  out.text(hook.envelope);
  out.number(hook.dueAt);
}

export function unpackNewHook(from: Unpacker): NewHook {
  return {
    id: from.text(),
    account: from.text(),
    endpoint: from.text(),
    url: from.text(),
    host: from.text(),
    envelope: from.text(),
    dueAt: from.number(),
  };
}

export function packHook(out: Packer, hook: HookRow): void {
  packNewHook(out, hook);
  out.byte(hook.state === 'PENDING' ? 0 : 1);
  out.number(hook.tries);
  out.text(hook.error);
  packPayload(out, hook.input);
  packPayload(out, hook.output);
}

export function unpackHook(from: Unpacker): HookRow {
  return {
    ...unpackNewHook(from),
    state: from.byte() === 0 ? 'PENDING' : 'FAILED',
    tries: from.number(),
    error: from.textOrNull(),
    input: unpackWholeStored(from),
    output: unpackStored(from),
  };
}
