/**
 * Moves the row of an idle node, its identity, to another cell (see moving.ts).
 *
 * The row that stays behind names the other cell. By it the owner of the old cell tells the node where it belongs, to
 * nobody but the holder of its secret.
 */
import { CapstanError } from '../../../lib/errors.ts';
import type { NodeMove } from '../cells.ts';
import { BOTH_LOCKED, LOCKED, NEXT_TERM, NOTED, type MoveDeps, type Position } from './moving.ts';
import type { Query } from './reads/query.ts';

/** $1 node, $2 its cell, $3 term, $4 batch, $5 the other cell, $6 and $7 the entry of the audit log, $8 its name. */
const MOVE = `WITH ${LOCKED}, node AS MATERIALIZED (
  SELECT value::jsonb AS value FROM capstan.control
    WHERE cell = $2 AND kind = 'node' AND key = $1 AND value->>'removedAt' IS NULL AND value->>'movedTo' IS NULL
), source AS (
  UPDATE capstan.cells SET ${NEXT_TERM} WHERE cell = $2 AND term = $3::bigint AND batch = $4::bigint AND ${BOTH_LOCKED}
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
  UPDATE capstan.control c SET version = c.version + 1, value = (n.value || jsonb_build_object('movedTo', $8::text))::json
    FROM node n, target t WHERE c.cell = $2 AND c.kind = 'node' AND c.key = $1
), dropped AS (
  DELETE FROM capstan.control c USING target t WHERE c.cell = $2 AND c.kind = 'desired' AND c.key = $1
), ${NOTED}
SELECT cell FROM target`;

const LEASES = `SELECT count(*) FROM capstan.jobs j WHERE j.cell = $2 AND j.state = 'LEASED' AND j.node = $1`;
const CELL = 'SELECT cell FROM capstan.cells WHERE name = $1';

/**
 * Refuses what would be refused in any case, while the cell still works.
 * @throws CapstanError NOT_FOUND without the cell; CONFLICT with the reason.
 */
export async function checkNodeMove(query: Query, from: number, { node, to }: NodeMove): Promise<void> {
  const [there] = await query<[number]>('cell-to-move-to', CELL, [to]);
  if (there === undefined) throw new CapstanError('NOT_FOUND', `cell: ${to} does not exist`, { field: 'cell' });
  if (there[0] === from) throw refusal(node, `already belongs to the cell ${to}`);
  const [leases] = await query<[number]>('leases-of-node', LEASES, [node, from]);
  const count = leases?.[0] ?? 0;
  if (count > 0) throw refusal(node, `runs ${count} ${count === 1 ? 'job' : 'jobs'}; drain it and wait until they have ended`);
}

/** @throws CapstanError as above, when nothing was moved; UNAVAILABLE when that is not known. */
export async function moveNode(
  { query, move, audit }: MoveDeps,
  from: number,
  { term, batch }: Position,
  { node, to }: NodeMove,
): Promise<void> {
  const [there] = await query<[number]>('cell-to-move-to', CELL, [to]);
  const moved = await move(MOVE, [node, from, String(term), batch, there?.[0] ?? null, audit.key, audit.value, to]);
  if (moved.length > 0) return;
  await checkNodeMove(query, from, { node, to });
  throw refusal(node, 'is in use: its cell changed in the meantime; try again');
}

function refusal(node: string, why: string): CapstanError {
  return new CapstanError('CONFLICT', `node: ${node} ${why}`, { field: 'node' });
}
