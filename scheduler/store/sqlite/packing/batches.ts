import { assertNever } from '../../../../lib/errors.ts';
import type { ControlKind, Fence, Op, Outcome, StoredState } from '../../../core/ports/store.ts';
import { Packer, Unpacker } from './packer.ts';
import {
  packPayloads,
  packPayload,
  packNewDelivery,
  packJob,
  packState,
  unpackPayloads,
  unpackPayload,
  unpackNewDelivery,
  unpackJob,
  unpackState,
  unpackWholePayload,
} from './rows.ts';

const SUBMIT = 0;
const LEASE = 1;
const STARTED = 2;
const FINISH = 3;
const REQUEUE = 4;
const RETRY = 5;
const DELETE = 6;
const DRAIN = 7;
const DELIVERY = 8;
const PUT = 9;
const RESEAL = 10;

/** Packs a batch and its fence into one buffer. `sizeHint`: bytes of the previous batches. */
export function packBatch(fence: Fence, ops: readonly Op[], sizeHint: number): { readonly buffer: ArrayBuffer; readonly size: number } {
  const out = new Packer(sizeHint);
  out.count(fence.cell);
  out.bigint(fence.term);
  out.count(ops.length);
  for (const op of ops) packOp(out, op);
  return { buffer: out.finish(), size: out.size };
}

export function unpackBatch(buffer: ArrayBuffer): { readonly fence: Fence; readonly ops: Op[] } {
  const from = new Unpacker(buffer);
  const fence = { cell: from.count(), term: from.bigint() };
  return { fence, ops: from.list(() => unpackOp(from)) };
}

function packOp(out: Packer, op: Op): void {
  switch (op.kind) {
    case 'submit':
      out.byte(SUBMIT);
      packJob(out, op.job);
      packPayload(out, op.input);
      out.bytes(op.s3);
      out.text(op.idempotency === null ? null : op.idempotency.key);
      if (op.idempotency !== null) {
        out.bytes(op.idempotency.bodyHash);
        out.number(op.idempotency.expiresAt);
      }
      return;
    case 'lease':
      out.byte(LEASE);
      out.number(op.seq);
      out.number(op.token);
      out.text(op.lease.node);
      out.text(op.lease.incarnation);
      out.text(op.lease.worker);
      return;
    case 'started':
      out.byte(STARTED);
      out.number(op.seq);
      out.number(op.token);
      out.number(op.startedAt);
      out.number(op.attempts);
      out.number(op.delayMs);
      return;
    case 'finish':
      out.byte(FINISH);
      out.number(op.seq);
      packState(out, op.from);
      out.number(op.token);
      packState(out, op.state);
      out.number(op.endedAt);
      out.number(op.deleteAt);
      out.number(op.attempts);
      out.number(op.delayMs);
      out.number(op.executionMs);
      out.text(op.error);
      packPayload(out, op.output);
      packPayloads(out, op.chunks);
      out.number(op.firstChunk);
      out.byte(op.delivery === null ? 0 : 1);
      if (op.delivery !== null) packNewDelivery(out, op.delivery);
      return;
    case 'requeue':
      out.byte(REQUEUE);
      out.number(op.seq);
      out.number(op.token);
      out.number(op.attempts);
      out.text(op.pastAttempts);
      return;
    case 'retry':
      out.byte(RETRY);
      out.number(op.seq);
      out.number(op.queuePosition);
      out.number(op.submittedAt);
      out.number(op.deleteAt);
      out.text(op.pastAttempts);
      return;
    case 'delete':
      out.byte(DELETE);
      out.number(op.seq);
      out.number(op.dueBy);
      return;
    case 'drain':
      out.byte(DRAIN);
      out.number(op.seq);
      out.number(op.below);
      return;
    case 'reencrypt':
      out.byte(RESEAL);
      out.number(op.seq);
      out.bytes(op.from);
      out.bytes(op.to);
      return;
    case 'delivery':
      out.byte(DELIVERY);
      out.text(op.id);
      out.number(op.after);
      out.byte(op.to === null ? 0 : op.to.state === 'PENDING' ? 1 : 2);
      if (op.to === null) return;
      out.number(op.to.dueAt);
      out.number(op.to.tries);
      out.text(op.to.error);
      return;
    case 'put':
      out.byte(PUT);
      out.text(op.rowKind);
      out.text(op.key);
      out.number(op.version);
      out.text(op.value);
      return;
    default:
      assertNever(op);
  }
}

function unpackOp(from: Unpacker): Op {
  const tag = from.byte();
  switch (tag) {
    case SUBMIT: {
      const job = unpackJob(from);
      const input = unpackWholePayload(from);
      const s3 = from.bytesOrNull();
      const key = from.textOrNull();
      const idempotency = key === null ? null : { key, bodyHash: from.bytes(), expiresAt: from.number() };
      return { kind: 'submit', job, input, s3, idempotency };
    }
    case LEASE:
      return {
        kind: 'lease',
        seq: from.number(),
        token: from.number(),
        lease: { node: from.text(), incarnation: from.text(), worker: from.text() },
      };
    case STARTED:
      return {
        kind: 'started',
        seq: from.number(),
        token: from.number(),
        startedAt: from.number(),
        attempts: from.number(),
        delayMs: from.number(),
      };
    case FINISH:
      return {
        kind: 'finish',
        seq: from.number(),
        from: unpackState(from) as 'LEASED' | 'IN_QUEUE',
        token: from.number(),
        state: unpackState(from) as Exclude<StoredState, 'LEASED' | 'IN_QUEUE'>,
        endedAt: from.number(),
        deleteAt: from.number(),
        attempts: from.number(),
        delayMs: from.numberOrNull(),
        executionMs: from.numberOrNull(),
        error: from.textOrNull(),
        output: unpackPayload(from),
        chunks: unpackPayloads(from),
        firstChunk: from.number(),
        delivery: from.byte() === 0 ? null : unpackNewDelivery(from),
      };
    case REQUEUE:
      return { kind: 'requeue', seq: from.number(), token: from.number(), attempts: from.number(), pastAttempts: from.textOrNull() };
    case RETRY:
      return {
        kind: 'retry',
        seq: from.number(),
        queuePosition: from.number(),
        submittedAt: from.number(),
        deleteAt: from.number(),
        pastAttempts: from.textOrNull(),
      };
    case DELETE:
      return { kind: 'delete', seq: from.number(), dueBy: from.numberOrNull() };
    case DRAIN:
      return { kind: 'drain', seq: from.number(), below: from.number() };
    case RESEAL:
      return { kind: 'reencrypt', seq: from.number(), from: from.bytes(), to: from.bytes() };
    case DELIVERY:
      return { kind: 'delivery', id: from.text(), after: from.numberOrNull(), to: unpackDeliveryChange(from) };
    case PUT:
      return {
        kind: 'put',
        rowKind: from.text() as ControlKind,
        key: from.text(),
        version: from.number(),
        value: from.textOrNull(),
      };
    default:
      throw new Error(`unknown operation ${tag} in an encoded batch`);
  }
}

function unpackDeliveryChange(from: Unpacker): Extract<Op, { kind: 'delivery' }>['to'] {
  const tag = from.byte();
  if (tag === 0) return null;
  return { state: tag === 1 ? 'PENDING' : 'FAILED', dueAt: from.number(), tries: from.number(), error: from.textOrNull() };
}

const outcomes: readonly Outcome['kind'][] = ['ok', 'exists', 'idempotent-same', 'idempotent-other-body', 'stale', 'gone', 'conflict'];
const ok: Outcome = Object.freeze({ kind: 'ok' });

/** Marks an `ok` that names dropped blobs. */
const OK_DROPPING = 255;

/** Null for a batch whose outcomes are all a plain `ok`, as for nearly every batch. */
export function packOutcomes(list: readonly Outcome[]): ArrayBuffer | null {
  if (list.every((outcome) => outcome.kind === 'ok' && outcome.dropped === undefined)) return null;
  const out = new Packer(list.length + 64);
  for (const outcome of list) {
    if (outcome.kind === 'ok' && outcome.dropped !== undefined) {
      out.byte(OK_DROPPING);
      out.count(outcome.dropped.length);
      for (const blob of outcome.dropped) out.text(blob);
      continue;
    }
    out.byte(outcomes.indexOf(outcome.kind));
    if (outcome.kind === 'idempotent-same') out.text(outcome.jobId);
  }
  return out.finish();
}

export function unpackOutcomes(buffer: ArrayBuffer | null, count: number): Outcome[] {
  if (buffer === null) return Array.from({ length: count }, () => ok);
  const from = new Unpacker(buffer);
  const list: Outcome[] = [];
  for (let i = 0; i < count; i++) {
    const tag = from.byte();
    if (tag === OK_DROPPING) {
      list.push({ kind: 'ok', dropped: from.list(() => from.text()) });
      continue;
    }
    const outcome = outcomes[tag];
    if (outcome === undefined) throw new Error('unknown outcome in an encoded reply');
    list.push(outcome === 'idempotent-same' ? { kind: outcome, jobId: from.text() } : { kind: outcome });
  }
  return list;
}
