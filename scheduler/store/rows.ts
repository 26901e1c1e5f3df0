/** Converts between rows of a database, as tuples in the order of the drivers' columns, and the store's values. */
import type { Payload } from '../../lib/payload.ts';
import type { PayloadCodec } from './payload-codec.ts';
import type { StoredPayload } from './stored-payload.ts';
import type { HookHead, HookRow, HookState, JobKind, JobRow, StoredState } from './store.ts';

/** A job as read from the database; raw tuples are read twice as fast as objects. */
export type JobTuple = [
  seq: number,
  id: string,
  endpoint: string,
  kind: JobKind,
  state: StoredState,
  priority: 0 | 1,
  queuePosition: number,
  token: number,
  attempts: number,
  node: string | null,
  incarnation: string | null,
  worker: string | null,
  submittedAt: number,
  startedAt: number | null,
  endedAt: number | null,
  deleteAt: number,
  executionTimeoutMs: number,
  ttlMs: number,
  retentionMs: number,
  webhook: string | null,
  delayMs: number | null,
  executionMs: number | null,
  error: string | null,
  /** SQLite has no booleans. */
  hasS3: 0 | 1 | boolean,
  trace: string | null,
  tags: string | null,
  pastAttempts: string | null,
];

/** Columns of a payload: inline bytes, or a blob's id and size. */
export type PayloadTuple = [inline: Uint8Array | null, blob: string | null, size: number | null];

export function toJob(row: readonly [...JobTuple, ...unknown[]]): JobRow {
  const node = row[9];
  const incarnation = row[10];
  const worker = row[11];
  return {
    seq: row[0],
    id: row[1],
    endpoint: row[2],
    kind: row[3],
    state: row[4],
    priority: row[5],
    queuePosition: row[6],
    token: row[7],
    attempts: row[8],
    lease: node === null || incarnation === null || worker === null ? null : { node, incarnation, worker },
    submittedAt: row[12],
    startedAt: row[13],
    endedAt: row[14],
    deleteAt: row[15],
    executionTimeoutMs: row[16],
    ttlMs: row[17],
    retentionMs: row[18],
    webhook: row[19],
    worker,
    delayMs: row[20],
    executionMs: row[21],
    error: row[22],
    hasS3: Boolean(row[23]),
    trace: row[24],
    tags: row[25],
    pastAttempts: row[26],
  };
}

/** Returns the columns of a payload; all null without a payload. */
export function payloadColumns(payload: Payload | null, codec: PayloadCodec): PayloadTuple {
  if (payload === null) return [null, null, null];
  return 'inline' in payload ? [codec.encode(payload.inline), null, null] : [null, payload.blob.id, payload.blob.size];
}

/** Null if the columns hold no payload. */
export function fromPayloadColumns([inline, blob, size]: PayloadTuple, codec: PayloadCodec): StoredPayload | null {
  if (inline !== null) {
    const document = codec.decode(inline);
    return 'damaged' in document ? document : { inline: document };
  }
  return blob === null ? null : { blob: { id: blob, size: size ?? 0 } };
}

/** Returns a payload whose columns the schema requires. */
export function fromWholePayloadColumns(columns: PayloadTuple, codec: PayloadCodec): StoredPayload {
  const payload = fromPayloadColumns(columns, codec);
  if (payload === null) throw new Error('a row without a payload passed the CHECK');
  return payload;
}

export type HookTuple = [
  id: string,
  account: string,
  endpoint: string,
  url: string,
  host: string,
  state: HookState,
  dueAt: number,
  tries: number,
  error: string | null,
];

export function toHookHead(row: readonly [...HookTuple, ...unknown[]]): HookHead {
  const [id, account, endpoint, url, host, state, dueAt, tries, error] = row;
  return { id, account, endpoint, url, host, state, dueAt, tries, error };
}

export type WholeHookTuple = [...HookTuple, envelope: string, ...input: PayloadTuple, ...output: PayloadTuple];

export function toHook(row: WholeHookTuple, codec: PayloadCodec): HookRow {
  const envelope = codec.decodeText(row[9]);
  if (typeof envelope !== 'string') return { ...toHookHead(row), envelope: '', input: envelope, output: null };
  return {
    ...toHookHead(row),
    envelope,
    input: fromWholePayloadColumns([row[10], row[11], row[12]], codec),
    output: fromPayloadColumns([row[13], row[14], row[15]], codec),
  };
}

/**
 * The input of a head window, if it has at most `limit` bytes: the database compares the stored size. A damaged one is left to
 * its dispatch, which reads it again.
 */
export function toQueuedInput(inline: Uint8Array | null, codec: PayloadCodec, limit: number): Payload | null {
  const input = fromPayloadColumns([inline, null, null], codec);
  if (input === null || 'damaged' in input) return null;
  return 'inline' in input && input.inline.length > limit ? null : input;
}

/** Times are whole ms in the database; fractions are dropped. */
export function ms(time: number): number {
  return Math.trunc(time);
}

export function msOrNull(time: number | null): number | null {
  return time === null ? null : Math.trunc(time);
}

/** Returns the limit of a list; SQLite would interpret a negative one as no limit. */
export function bound(limit: number): number {
  if (!Number.isSafeInteger(limit) || limit < 0) throw new RangeError(`limit ${limit} is not an integer of 0 or more`);
  return limit;
}
