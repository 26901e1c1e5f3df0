/**
 * The columns of jobs and of webhook deliveries, each named once: the rows' types, the tuples that the drivers read, what crosses to the
 * store thread, the column lists of both databases, the submissions of both, and copying derive from these tables. A column that is
 * added here and in a migration of each database is read, submitted, packed and copied.
 */

/** How a job was submitted. */
export type JobKind = 'RUN' | 'RUNSYNC';

/** States in the store. `LEASED` covers dispatched and started; callers see IN_QUEUE or IN_PROGRESS. */
export type StoredState = 'IN_QUEUE' | 'LEASED' | 'COMPLETED' | 'FAILED' | 'CANCELLED' | 'TIMED_OUT';

/** PENDING is still tried. FAILED has used up its tries and is kept for redelivery on request. */
export type DeliveryState = 'PENDING' | 'FAILED';

export type ColumnKind = 'integer' | 'text' | 'bytes' | 'boolean';

export interface Column {
  /** In both databases. */
  readonly name: string;
  readonly kind: ColumnKind;
}

/** A column of a row's field. */
export interface FieldColumn<F extends string = string, T = unknown> extends Column {
  readonly field: F;
  /** The only values that it has, where they are few. */
  readonly values?: readonly T[] | undefined;
  /** An integer that PostgreSQL's operations carry in 4 bytes. */
  readonly isSmall: boolean;
  /** Never set: carries the type of the values. */
  readonly value?: T;
}

/** Names the column as its field. */
const column =
  <T>(kind: ColumnKind, { values, isSmall = false }: { readonly values?: readonly T[]; readonly isSmall?: boolean } = {}) =>
  <const F extends string>(field: F): FieldColumn<F, T> => ({
    field,
    name: field.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
    kind,
    values,
    isSmall,
  });

const integer = column<number>('integer');
const smallInteger = column<number>('integer', { isSmall: true });
const integerOrNull = column<number | null>('integer');
const text = column<string>('text');
const textOrNull = column<string | null>('text');
const bytesOrNull = column<Uint8Array | null>('bytes');
const jobKind = column<JobKind>('text', { values: ['RUN', 'RUNSYNC'] });
const jobState = column<StoredState>('text', { values: ['IN_QUEUE', 'LEASED', 'COMPLETED', 'FAILED', 'CANCELLED', 'TIMED_OUT'] });
const deliveryState = column<DeliveryState>('text', { values: ['PENDING', 'FAILED'] });
const zeroOrOne = column<0 | 1>('integer', { values: [0, 1], isSmall: true });
/** SQLite reads 0 or 1. */
const flag = column<boolean>('boolean');

/** A job without its bodies. Times are wall clock, ms since 1970; durations ms. */
export const jobRow = [
  integer('seq'),
  text('id'),
  text('endpoint'),
  jobKind('kind'),
  jobState('state'),
  // 0 normal, 1 lowPriority: normal jobs first.
  zeroOrOne('priority'),
  // Place in the queue within its endpoint and priority; a retried job gets a new one at the tail.
  integer('queuePosition'),
  // Fencing token of the latest lease; 0 before the first. Increases over the job's whole life.
  integer('token'),
  // Attempts that were reported started since submission or /retry.
  smallInteger('attempts'),
  // With the incarnation and the worker, the lease of a LEASED job; null otherwise.
  textOrNull('node'),
  textOrNull('incarnation'),
  // Worker of the present or last attempt.
  textOrNull('worker'),
  integer('submittedAt'),
  // Start of the present or last attempt, once recorded.
  integerOrNull('startedAt'),
  integerOrNull('endedAt'),
  // When the row is deleted: submission + ttl before the end, end + retention after it.
  integer('deleteAt'),
  integer('executionTimeoutMs'),
  integer('ttlMs'),
  integer('retentionMs'),
  textOrNull('webhook'),
  integerOrNull('delayMs'),
  integerOrNull('executionMs'),
  textOrNull('error'),
  // Whether the job has storage credentials (kept encrypted beside the input).
  flag('hasS3'),
  // Trace context of the submission (lib/trace-context.ts).
  textOrNull('trace'),
  // Words to find it by, separated by spaces (lib/job-tags.ts).
  textOrNull('tags'),
  // Id of the API key that submitted it; null for a worker's submission, and for those of versions before the column.
  textOrNull('submittedBy'),
  // Attempts that ended before the present one, JSON text (scheduler/core/jobs/past-attempts.ts); null without any.
  textOrNull('pastAttempts'),
] as const;

/** What a submission leaves empty, or the database derives from its credentials. */
const setLater = new Set<string>(['startedAt', 'endedAt', 'delayMs', 'executionMs', 'error', 'hasS3', 'pastAttempts']);

/** The columns of a job that its submission sets. */
export const submittedColumns: readonly FieldColumn<JobField>[] = jobRow.filter(({ field }) => !setLater.has(field));

type JobField = (typeof jobRow)[number]['field'];

/** What steps change after the submission, or what a job in memory has no use for. */
const changed = [
  ...(['state', 'queuePosition', 'token', 'attempts', 'node', 'incarnation', 'worker', 'submittedAt', 'startedAt', 'endedAt'] as const),
  ...(['deleteAt', 'delayMs', 'executionMs', 'error', 'pastAttempts'] as const),
];
const derivedAtSubmission = ['seq', 'id', 'endpoint', 'kind', 'priority', 'executionTimeoutMs', 'ttlMs', 'retentionMs', 'hasS3'] as const;

type KeptField = Exclude<JobField, (typeof changed)[number]>;
type RequestedField = Exclude<KeptField, (typeof derivedAtSubmission)[number]>;

const isKept = (field: JobField): field is KeptField => !(changed as readonly string[]).includes(field);

/** Fields that a job in memory has as its row has them, from its submission on: those of a column that is added, too. */
export const keptFields: readonly KeptField[] = jobRow.map(({ field }) => field).filter(isKept);

export type KeptFields = Pick<RowOf<typeof jobRow>, KeptField>;

/** Kept fields that are as the submission says. */
export const requestedFields: readonly RequestedField[] = keptFields.filter(
  (field): field is RequestedField => !(derivedAtSubmission as readonly string[]).includes(field),
);

/** Absent and null are the same. */
export type RequestedFields = { readonly [F in RequestedField]?: KeptFields[F] | undefined };

const output = [bytesOrNull('output'), textOrNull('outputBlob'), integerOrNull('outputSize')] as const;

/** What an ended job's row has besides. */
export const jobResult = [integer('chunks'), ...output] as const;

/** A delivery without its payload. */
export const deliveryHead = [
  text('id'),
  text('account'),
  text('endpoint'),
  text('url'),
  // Host and port of the url: deliveries to one host share a limit.
  text('host'),
  deliveryState('state'),
  // Wall clock ms: the next try of a PENDING one, the removal of a FAILED one.
  integer('dueAt'),
  integer('tries'),
  // Why the last try failed; null before the first failure.
  textOrNull('error'),
] as const;

/** A JSON object; of type json in PostgreSQL. */
export const deliveryEnvelope = text('envelope');

/** The payload of a delivery but its envelope. */
export const deliveryBodies = [bytesOrNull('input'), textOrNull('inputBlob'), integerOrNull('inputSize'), ...output] as const;

type ValueOf<C> = C extends FieldColumn<string, infer T> ? T : never;
type StoredValueOf<C> = ValueOf<C> extends boolean ? boolean | 0 | 1 : ValueOf<C>;

/** A row as it is read: raw tuples are read twice as fast as objects. */
export type TupleOf<C extends readonly FieldColumn[]> = { -readonly [I in keyof C]: StoredValueOf<C[I]> };

/** A row with a field for each column. */
export type RowOf<C extends readonly FieldColumn[]> = { readonly [X in C[number] as X['field']]: ValueOf<X> };

/** The columns in SQL. */
export function columnList(columns: readonly Column[], nameOf: (column: Column) => string): string {
  return columns.map(nameOf).join(', ');
}
