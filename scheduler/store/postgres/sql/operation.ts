/**
 * An operation of a batch in SQL: the composite type that carries its rows, and the statements that apply those of one wave.
 *
 * Every row begins with `at`, the operation's place in the batch, and `wave`. A batch is applied in waves: wave k holds
 * the k-th operation of each job, because one UPDATE applies only one of two changes of a row. The statements may read
 * `p_cell`, `p_now`, the parameter that is named after the type (`p_<type>`), `w` (the wave), and may use the variables
 * that the assembled function declares (`applied`, `refused`, `dropped_blobs`, `usage`). What is not applied they return as
 * `(at, outcome, job_id, dropped)`; an operation without such a row is `ok`.
 */
import type { Columns } from './binary.ts';

export interface Operation {
  /** Name of the composite type, without its schema and version. */
  readonly type: string;
  /** Of the composite type; 1 without it. Another layout gets another one. */
  readonly version?: number;
  readonly columns: Columns;
  /** PL/pgSQL. Empty for a type whose rows belong to another operation. */
  readonly apply: string;
}

/** Columns with which every row begins. */
export const PLACE: Columns = [
  ['at', 'int4'],
  ['wave', 'int4'],
];

/** Rows of the wave under way. */
export const inWave = (type: string, alias: string): string => `unnest(p_${type}) ${alias} WHERE ${alias}.wave = w`;

/**
 * The rows of a table that have a key of the row before: looked up for each of these, whatever the planner takes the table's size
 * for. It does not look through OFFSET 0; without it, it may begin with a table that it believes to be empty.
 *
 * @param key condition on the table's row `t`.
 * @param columns of it; by default its place, by which it is then changed: `WHERE j.ctid = f.place`.
 */
export const lookUp = (table: string, key: string, columns = 't.ctid AS place'): string =>
  `LATERAL (SELECT ${columns} FROM capstan.${table} t WHERE t.cell = p_cell AND ${key} OFFSET 0) f`;

/** Whether a row has the key: as a value, which is looked up for each row; EXISTS may read the whole table instead. */
export const rowExists = (table: string, key: string): string =>
  `coalesce((SELECT true FROM capstan.${table} t WHERE t.cell = p_cell AND ${key}), false)`;

/** The rows of the wave, counted into `expected`. The batch of one wave, the usual one, need not go through its rows for that. */
export const countWave = (type: string): string => `
  IF cardinality(p_waves) = 1 THEN
    expected := cardinality(p_${type});
  ELSE
    SELECT count(*) INTO expected FROM ${inWave(type, 'g')};
  END IF;`;

/**
 * Returns `stale` or `gone` for each operation of the wave whose place is not in `applied`, by whether the job's row is there, and leaves
 * their places in `refused`. Usually there is none, and nothing more is read.
 */
export const returnRefused = (type: string): string => `${countWave(type)}
  refused := '{}';
  IF cardinality(applied) <> expected THEN
    SELECT array_agg(g.at) INTO refused FROM ${inWave(type, 'g')} AND NOT g.at = ANY (applied);
    RETURN QUERY SELECT g.at,
      CASE WHEN ${rowExists('jobs', 't.seq = g.seq')} THEN 'stale' ELSE 'gone' END, NULL::text, NULL::text[]
      FROM unnest(p_${type}) g WHERE g.at = ANY (refused);
  END IF;`;

/**
 * What the rows of a query change in the bytes of their endpoints, an element for each endpoint; null without rows. It is appended to
 * `usage`, which the function writes at its end.
 *
 * @param rows a query of `endpoint` and `bytes`, which may be null.
 */
export const usageOf = (rows: string): string => `(SELECT array_agg(ROW (s.endpoint, s.bytes)::capstan.usage_change)
    FROM (SELECT u.endpoint, sum(u.bytes) AS bytes FROM (${rows}) u GROUP BY u.endpoint) s WHERE s.bytes <> 0)`;
