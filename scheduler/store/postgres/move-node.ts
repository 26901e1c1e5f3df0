/**
 * Moves the row of an idle node, its identity, to another cell: one statement, under new terms of both cells, so that both
 * owners read their states anew (see move-account.ts).
 *
 * The row that stays behind names the other cell. By it the owner of the old cell tells the node where it belongs, to
 * nobody but the holder of its secret.
 */
import { CapstanError } from '../../../lib/errors.ts';
import type { NodeMove } from '../cells.ts';
import { NEXT_TERM, type Position } from './move-account.ts';
import type { Query } from './reads/query.ts';

/** $1 node, $2 its cell, $3 term, $4 batch, $5 the other cell, $6 its name. */
const MOVE = `WITH node AS MATERIALIZED (
  SELECT value::jsonb AS value FROM capstan.control
    WHERE cell = $2 AND kind = 'node' AND key = $1 AND value->>'removedAt' IS NULL AND value->>'movedTo' IS NULL
), source AS (
  UPDATE capstan.cells SET ${NEXT_TERM} WHERE cell = $2 AND term = $3::bigint AND batch = $4::bigint
    AND EXISTS (SELECT FROM node)
    AND NOT EXISTS (SELECT FROM capstan.jobs j WHERE j.cell = $2 AND j.state = 'LEASED' AND j.node = $1)
    -- A row there may only be what the node left behind when it moved away.
    AND NOT EXISTS (SELECT FROM capstan.control k WHERE k.cell = $5 AND k.kind = 'node' AND k.key = $1 AND k.value->>'movedTo' IS NULL)
  RETURNING cell
), target AS (
  UPDATE capstan.cells SET ${NEXT_TERM} WHERE cell = $5 AND EXISTS (SELECT FROM source) RETURNING cell
), given AS (
  INSERT INTO capstan.control AS k (cell, kind, key, version, value)
    SELECT t.cell, 'node', $1, 1, n.value::json FROM node n, target t
  ON CONFLICT (cell, kind, key) DO UPDATE SET version = k.version + 1, value = excluded.value
), kept AS (
  UPDATE capstan.control c SET version = c.version + 1, value = (n.value || jsonb_build_object('movedTo', $6::text))::json
    FROM node n, target t WHERE c.cell = $2 AND c.kind = 'node' AND c.key = $1
), dropped AS (
  DELETE FROM capstan.control c USING target t WHERE c.cell = $2 AND c.kind = 'desired' AND c.key = $1
)
SELECT cell FROM target`;

const LEASES = `SELECT count(*) FROM capstan.jobs j WHERE j.cell = $2 AND j.state = 'LEASED' AND j.node = $1`;
const CELL = 'SELECT cell FROM capstan.cells WHERE name = $1';

/** @throws CapstanError NOT_FOUND without the cell; CONFLICT with the reason, when nothing was moved. */
export async function moveNode(query: Query, from: number, position: Position, { node, to }: NodeMove): Promise<void> {
  const [there] = await query<[number]>('cell-to-move-to', CELL, [to]);
  if (there === undefined) throw new CapstanError('NOT_FOUND', `cell: ${to} does not exist`, { field: 'cell' });
  const refuse = (why: string): CapstanError => new CapstanError('CONFLICT', `node: ${node} ${why}`, { field: 'node' });
  if (there[0] === from) throw refuse(`belongs to the cell ${to} already`);
  const [leases] = await query<[number]>('leases-of-node', LEASES, [node, from]);
  const count = leases?.[0] ?? 0;
  if (count > 0) throw refuse(`runs ${count} ${count === 1 ? 'job' : 'jobs'}; drain it and wait until they have ended`);
  const moved = await query<[number]>('move-node', MOVE, [node, from, String(position.term), position.batch, there[0], to]);
  if (moved.length === 0) throw refuse('is in use: something changed in its cell meanwhile; try again');
}
