/** A batch's operations as the parameters of the database's function for batches, and its answer as outcomes. */
import { assertNever } from '../../../lib/errors.ts';
import type { PayloadCodec } from '../payload-codec.ts';
import { payloadColumns, submissionOf } from '../rows.ts';
import type { Op, Outcome } from '../../core/ports/store.ts';
import { CompositeArray } from './sql/binary.ts';
import { bitOf, OPERATIONS, OPERATION_TYPES, type OperationType } from './sql/batch.ts';

type OpOf<K extends Op['kind']> = Extract<Op, { kind: K }>;

/** A batch, ready to send. */
export interface Batch {
  readonly size: number;
  readonly arrays: Readonly<Record<OperationType, CompositeArray>>;
  /** For each wave the types that it holds, as bits. */
  readonly waves: readonly number[];
  readonly hasIdempotencyKeys: boolean;
  /** Highest numbers that its submissions and retries give out; 0 without any. */
  readonly highest: { readonly seq: number; readonly queuePosition: number };
}

/** A row of the function's answer: an operation that was not applied as it stands, or that dropped blobs. */
export type AnswerRow = readonly [at: number, outcome: string, jobId: string | null, dropped: readonly string[] | null];

export function batchOf(ops: readonly Op[], codec: PayloadCodec): Batch {
  const builder = new BatchBuilder(codec);
  for (const [at, op] of ops.entries()) builder.add(at, op);
  return builder.batch(ops.length);
}

/**
 * Puts each operation into the first wave after those of earlier operations on the same row. Rows are told apart by
 * keys: a job by its number; a submission also by its id and its idempotency key; a delivery by its id, which its job's end names,
 * too; a control row by its key. A delete names no id, so submissions come after every delete before them.
 */
class BatchBuilder {
  readonly #arrays = Object.fromEntries(OPERATION_TYPES.map((type) => [type, new CompositeArray(OPERATIONS[type].columns)])) as Record<
    OperationType,
    CompositeArray
  >;
  readonly #waves: number[] = [];
  readonly #lastWave = new Map<string | number, number>();
  #lastDelete = 0;
  #hasIdempotencyKeys = false;
  #seq = 0;
  #queuePosition = 0;
  readonly #codec: PayloadCodec;

  constructor(codec: PayloadCodec) {
    this.#codec = codec;
  }

  add(at: number, op: Op): void {
    switch (op.kind) {
      case 'submit':
        return this.#submit(at, op);
      case 'lease': {
        const { node, incarnation, worker } = op.lease;
        return this.#row('lease', [at, this.#wave('lease', op.seq), op.seq, op.token, node, incarnation, worker]);
      }
      case 'started':
        return this.#row('started', [at, this.#wave('started', op.seq), op.seq, op.token, op.startedAt, op.attempts, op.delayMs]);
      case 'finish':
        return this.#finish(at, op);
      case 'requeue':
        return this.#row('requeue', [at, this.#wave('requeue', op.seq), op.seq, op.token, op.attempts, op.pastAttempts]);
      case 'retry':
        this.#queuePosition = Math.max(this.#queuePosition, op.queuePosition);
        return this.#row('retry', [
          at,
          this.#wave('retry', op.seq),
          op.seq,
          op.queuePosition,
          op.submittedAt,
          op.deleteAt,
          op.pastAttempts,
        ]);
      case 'delete': {
        const wave = this.#wave('delete', op.seq);
        this.#lastDelete = Math.max(this.#lastDelete, wave);
        return this.#row('delete', [at, wave, op.seq, op.dueBy]);
      }
      case 'drain':
        return this.#row('drain', [at, this.#wave('drain', op.seq), op.seq, op.below]);
      case 'reencrypt':
        return this.#row('reencrypt', [at, this.#wave('reencrypt', op.seq), op.seq, op.from, op.to]);
      case 'delivery': {
        const wave = this.#wave('hook', `delivery ${op.id}`);
        const { state, dueAt, tries, error } = op.to ?? { state: null, dueAt: null, tries: null, error: null };
        return this.#row('hook', [at, wave, op.id, op.after, state, dueAt, tries, error]);
      }
      case 'put': {
        // A row that goes may say whose the bodies of earlier operations are.
        const wave = this.#waveAfter('put', op.value === null ? this.#waves.length : 0, [`${op.rowKind} ${op.key}`]);
        return this.#row('put', [at, wave, op.rowKind, op.key, op.version, accountOf(op), op.value]);
      }
      default:
        return assertNever(op);
    }
  }

  batch(size: number): Batch {
    return {
      size,
      arrays: this.#arrays,
      waves: this.#waves,
      hasIdempotencyKeys: this.#hasIdempotencyKeys,
      highest: { seq: this.#seq, queuePosition: this.#queuePosition },
    };
  }

  #submit(at: number, { job, input, s3, idempotency }: OpOf<'submit'>): void {
    this.#seq = Math.max(this.#seq, job.seq);
    this.#queuePosition = Math.max(this.#queuePosition, job.queuePosition);
    const keys: (string | number)[] = [job.seq, `id ${job.id}`];
    if (idempotency !== null) {
      this.#hasIdempotencyKeys = true;
      keys.push(`key ${idempotency.key}`);
    }
    const wave = this.#waveAfter('submit', this.#lastDelete, keys);
    const { key, bodyHash, expiresAt } = idempotency ?? { key: null, bodyHash: null, expiresAt: null };
    this.#row('submit', [at, wave, ...submissionOf(job), ...payloadColumns(input, this.#codec), s3, key, bodyHash, expiresAt]);
  }

  #finish(at: number, op: OpOf<'finish'>): void {
    const wave = this.#waveAfter('finish', 0, op.delivery === null ? [op.seq] : [op.seq, `delivery ${op.delivery.id}`]);
    const output = payloadColumns(op.output, this.#codec);
    this.#row('finish', [
      at,
      wave,
      op.seq,
      op.token,
      op.from,
      op.state,
      op.endedAt,
      op.deleteAt,
      op.attempts,
      op.delayMs,
      op.executionMs,
      op.error,
      ...output,
      op.chunks.length,
    ]);
    for (const [i, chunk] of op.chunks.entries())
      this.#row('chunk', [at, wave, op.seq, op.firstChunk + i, ...payloadColumns(chunk, this.#codec)]);
    if (op.delivery === null) return;
    const { id, account, endpoint, url, host, envelope, dueAt } = op.delivery;
    this.#row('new_hook', [at, wave, op.seq, id, account, endpoint, url, host, this.#codec.encodeText(envelope), dueAt, ...output]);
  }

  #row(type: OperationType, values: Parameters<CompositeArray['add']>[0]): void {
    this.#arrays[type].add(values);
  }

  #wave(type: OperationType, key: string | number): number {
    return this.#waveAfter(type, 0, [key]);
  }

  #waveAfter(type: OperationType, floor: number, keys: readonly (string | number)[]): number {
    let wave = floor;
    for (const key of keys) wave = Math.max(wave, this.#lastWave.get(key) ?? 0);
    wave++;
    for (const key of keys) this.#lastWave.set(key, wave);
    this.#waves[wave - 1] = (this.#waves[wave - 1] ?? 0) | bitOf(type);
    return wave;
  }
}

/** The account of an endpoint, which its jobs' bodies count for. */
function accountOf({ rowKind, value }: OpOf<'put'>): string | null {
  if (rowKind !== 'endpoint' || value === null) return null;
  const { account } = JSON.parse(value) as { readonly account?: unknown };
  return typeof account === 'string' ? account : null;
}

const OK: Outcome = Object.freeze({ kind: 'ok' });
const PLAIN: Readonly<Record<string, Outcome>> = {
  exists: Object.freeze({ kind: 'exists' }),
  stale: Object.freeze({ kind: 'stale' }),
  gone: Object.freeze({ kind: 'gone' }),
  conflict: Object.freeze({ kind: 'conflict' }),
  'idempotent-other-body': Object.freeze({ kind: 'idempotent-other-body' }),
};

/** Outcomes of `size` operations, in their order, and how many expired rows of each kind were removed. */
export function outcomesOf(size: number, rows: readonly AnswerRow[]): { readonly outcomes: Outcome[]; readonly swept: readonly number[] } {
  const outcomes = Array<Outcome>(size).fill(OK);
  const swept: number[] = [];
  for (const [at, outcome, jobId, dropped] of rows) {
    if (at < 0) swept.push(Number(outcome));
    else outcomes[at] = outcomeOf(outcome, jobId, dropped);
  }
  return { outcomes, swept };
}

function outcomeOf(outcome: string, jobId: string | null, dropped: readonly string[] | null): Outcome {
  if (outcome === 'ok') return dropped === null ? OK : { kind: 'ok', dropped };
  if (outcome === 'idempotent-same' && jobId !== null) return { kind: 'idempotent-same', jobId };
  const plain = PLAIN[outcome];
  if (plain === undefined) throw new Error(`the database returned the unknown outcome ${outcome}`);
  return plain;
}
