/** Converts between rows of a database, as tuples in the order of the drivers' columns, and the store's values. */
import type { Payload } from '../../lib/payload.ts';
import type { PayloadCodec } from './payload-codec.ts';
import type { StoredPayload } from '../core/ports/stored-payload.ts';
import {
  deliveryHead,
  jobRow,
  submittedColumns,
  type FieldColumn,
  type deliveryBodies,
  type deliveryEnvelope,
  type jobResult,
  type TupleOf,
} from '../core/ports/columns.ts';
import type { DeliveryHead, DeliveryRow, JobRow } from '../core/ports/store.ts';

/** A job as read from the database. */
export type JobTuple = TupleOf<typeof jobRow>;

/** A job with its output, and the number of its chunks. */
export type WholeJobTuple = TupleOf<readonly [...typeof jobRow, ...typeof jobResult]>;

/** Columns of a payload: inline bytes, or a blob's id and size. */
export type PayloadTuple = [inline: Uint8Array | null, blob: string | null, size: number | null];

const placed = (columns: readonly FieldColumn[]) => columns.map(({ field }, place) => ({ field, place }));
const jobFields = placed(jobRow);
const placeOf = (of: (typeof jobRow)[number]['field']): number => jobFields.findIndex(({ field }) => field === of);
const [NODE, INCARNATION, WORKER] = [placeOf('node'), placeOf('incarnation'), placeOf('worker')];
const plainFields = jobFields.filter(({ place }) => place !== NODE && place !== INCARNATION);

/** An object that is copied and filled has one shape and fast fields: filled from nothing, a row takes three times as long. */
const blankOf = (fields: readonly string[]): Readonly<Record<string, unknown>> => Object.fromEntries(fields.map((field) => [field, null]));
const blankJob = blankOf([...plainFields.map(({ field }) => field), 'lease']);

/** A job's fields but its lease, for whoever fills them by the table of columns. */
export function newJob(): Record<string, unknown> {
  return { ...blankJob };
}

export function toJob(row: readonly [...JobTuple, ...unknown[]]): JobRow {
  const job = newJob();
  for (const { field, place } of plainFields) job[field] = row[place];
  // SQLite has no booleans.
  job['hasS3'] = Boolean(job['hasS3']);
  const node = row[NODE];
  if (node !== null) job['lease'] = { node, incarnation: row[INCARNATION], worker: row[WORKER] };
  return job as unknown as JobRow;
}

/** Values of {@link submittedColumns}, in their order. Times are whole ms. */
export function submissionOf(job: JobRow): (string | number | null)[] {
  const { lease } = job;
  return submittedColumns.map(({ field, kind }) => {
    if (field === 'node' || field === 'incarnation') return lease === null ? null : lease[field];
    if (field === 'worker' && lease !== null) return lease.worker;
    const value = job[field] as string | number | null;
    return kind === 'integer' && value !== null ? Math.trunc(value as number) : value;
  });
}

/** Returns the number of chunks and the output of a row that was read whole. */
export function resultOf(row: WholeJobTuple): { readonly chunks: number; readonly output: PayloadTuple } {
  const [chunks, ...output] = row.slice(jobRow.length) as TupleOf<typeof jobResult>;
  return { chunks, output };
}

/** Returns the value that was read beside a job. */
export function besideJob<T>(row: readonly [...JobTuple, T]): T {
  return row[jobRow.length];
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

export type DeliveryTuple = TupleOf<typeof deliveryHead>;

const deliveryFields = placed(deliveryHead);
const blankDelivery = blankOf(deliveryFields.map(({ field }) => field));

export function toDeliveryHead(row: readonly [...DeliveryTuple, ...unknown[]]): DeliveryHead {
  const head: Record<string, unknown> = { ...blankDelivery };
  for (const { field, place } of deliveryFields) head[field] = row[place];
  return head as unknown as DeliveryHead;
}

export type WholeDeliveryTuple = TupleOf<readonly [...typeof deliveryHead, typeof deliveryEnvelope, ...typeof deliveryBodies]>;

export function toDelivery(row: WholeDeliveryTuple, codec: PayloadCodec): DeliveryRow {
  const head = toDeliveryHead(row);
  const [stored, input, inputBlob, inputSize, ...output] = row.slice(deliveryHead.length) as WholeDeliveryTuple extends [
    ...DeliveryTuple,
    ...infer Payloads,
  ]
    ? Payloads
    : never;
  const envelope = codec.decodeText(stored);
  if (typeof envelope !== 'string') return { ...head, envelope: '', input: envelope, output: null };
  return {
    ...head,
    envelope,
    input: fromWholePayloadColumns([input, inputBlob, inputSize], codec),
    output: fromPayloadColumns(output, codec),
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
