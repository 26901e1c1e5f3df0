/**
 * The columns of jobs and of webhook deliveries, each named once: the column lists of both databases, the types of their rows and
 * copying derive from these tables. The order is that of the tuples which the drivers read.
 */
import type { HookState, JobKind, StoredState } from './store.ts';

export type ColumnKind = 'integer' | 'text' | 'bytes' | 'boolean';

export interface Column {
  /** In both databases. */
  readonly name: string;
  readonly kind: ColumnKind;
}

/** A column of a row's field. */
export interface FieldColumn<F extends string = string, T = unknown> extends Column {
  readonly field: F;
  /** Never set: carries the type of the values. */
  readonly value?: T;
}

/** Names the column as its field. */
const column =
  <T>(kind: ColumnKind) =>
  <const F extends string>(field: F): FieldColumn<F, T> => ({
    field,
    name: field.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
    kind,
  });

const integer = column<number>('integer');
const integerOrNull = column<number | null>('integer');
const text = column<string>('text');
const textOrNull = column<string | null>('text');
const bytesOrNull = column<Uint8Array | null>('bytes');

/** A job without its bodies. */
export const jobRow = [
  integer('seq'),
  text('id'),
  text('endpoint'),
  column<JobKind>('text')('kind'),
  column<StoredState>('text')('state'),
  column<0 | 1>('integer')('priority'),
  integer('queuePosition'),
  integer('token'),
  integer('attempts'),
  textOrNull('node'),
  textOrNull('incarnation'),
  textOrNull('worker'),
  integer('submittedAt'),
  integerOrNull('startedAt'),
  integerOrNull('endedAt'),
  integer('deleteAt'),
  integer('executionTimeoutMs'),
  integer('ttlMs'),
  integer('retentionMs'),
  textOrNull('webhook'),
  integerOrNull('delayMs'),
  integerOrNull('executionMs'),
  textOrNull('error'),
  // SQLite has no booleans.
  column<0 | 1 | boolean>('boolean')('hasS3'),
  textOrNull('trace'),
  textOrNull('tags'),
  textOrNull('pastAttempts'),
] as const;

const output = [bytesOrNull('output'), textOrNull('outputBlob'), integerOrNull('outputSize')] as const;

/** What an ended job's row has besides. */
export const jobResult = [integer('chunks'), ...output] as const;

/** A delivery without its payload. */
export const hookHead = [
  text('id'),
  text('account'),
  text('endpoint'),
  text('url'),
  text('host'),
  column<HookState>('text')('state'),
  integer('dueAt'),
  integer('tries'),
  textOrNull('error'),
] as const;

/** A JSON object; of type json in PostgreSQL. */
export const hookEnvelope = text('envelope');

/** The payload of a delivery but its envelope. */
export const hookBodies = [bytesOrNull('input'), textOrNull('inputBlob'), integerOrNull('inputSize'), ...output] as const;

type ValueOf<C> = C extends FieldColumn<string, infer T> ? T : never;

/** A row as it is read: raw tuples are read twice as fast as objects. */
export type TupleOf<C extends readonly FieldColumn[]> = { -readonly [I in keyof C]: ValueOf<C[I]> };

/** The columns in SQL. */
export function columnList(columns: readonly Column[], nameOf: (column: Column) => string): string {
  return columns.map(nameOf).join(', ');
}
