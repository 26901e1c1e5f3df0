/**
 * Moves the rows of an idle account to another cell (see moving.ts). It writes nothing unless the cell that the account leaves
 * still has the term and batch with which its owner gave it up, and no job and no delivery of the account is stored.
 */
import { CapstanError } from '../../../lib/errors.ts';
import { MASTER_KEY_SETTING } from '../../core/control/encryption.ts';
import type { AccountMove } from '../cells.ts';
import { BOTH_LOCKED, LOCKED, NEXT_TERM, NOTED, type MoveDeps, type Position } from './moving.ts';
import type { Query } from './reads/query.ts';

/** The cell that is left. */
interface Cell {
  readonly name: string;
  readonly number: number;
}

/** $1 account, $2 its cell, $3 term, $4 batch, $5 the other cell, $6 and $7 the entry of the audit log. */
const MOVE = `WITH ${LOCKED}, endpoints AS MATERIALIZED (
  SELECT key FROM capstan.control WHERE cell = $2 AND kind = 'endpoint' AND value->>'account' = $1
), source AS (
  UPDATE capstan.cells SET ${NEXT_TERM} WHERE cell = $2 AND term = $3::bigint AND batch = $4::bigint AND ${BOTH_LOCKED}
    AND NOT EXISTS (SELECT FROM capstan.jobs j JOIN endpoints e ON j.endpoint = e.key WHERE j.cell = $2)
    AND NOT EXISTS (SELECT FROM capstan.hooks h WHERE h.cell = $2 AND h.account = $1 AND h.tries >= 0)
  RETURNING cell
), target AS (
  UPDATE capstan.cells SET ${NEXT_TERM} WHERE cell = $5 AND EXISTS (SELECT FROM source) RETURNING cell
), claimed AS (
  UPDATE capstan.accounts a SET cell = t.cell FROM target t WHERE a.id = $1
), moved AS (
  UPDATE capstan.control c SET cell = t.cell FROM target t WHERE c.cell = $2 AND (
    (c.kind = 'account' AND c.key = $1)
    OR (c.kind IN ('key', 'environment', 'secret', 'alert-channel', 'endpoint', 'deployment') AND c.value->>'account' = $1)
    OR (c.kind = 'release' AND c.value->>'endpoint' IN (SELECT key FROM endpoints))
  )
), keyed AS (
  -- Their keys begin with the endpoint and a slash; '0' is the next character.
  UPDATE capstan.idempotency i SET cell = t.cell FROM target t, endpoints e
    WHERE i.cell = $2 AND i.key >= e.key || '/' AND i.key < e.key || '0'
), builds AS MATERIALIZED (
  SELECT b.key, b.value::jsonb AS value,
    (SELECT jsonb_agg(o) FROM jsonb_array_elements(b.value::jsonb->'owners') o WHERE o->>'account' = $1) AS own,
    (SELECT jsonb_agg(o) FROM jsonb_array_elements(b.value::jsonb->'owners') o WHERE o->>'account' <> $1) AS others
  FROM capstan.control b, target WHERE b.cell = $2 AND b.kind = 'build'
), given AS (
  INSERT INTO capstan.control AS k (cell, kind, key, version, value)
    SELECT t.cell, 'build', b.key, 1, jsonb_set(b.value, '{owners}', b.own)::json FROM builds b, target t WHERE b.own IS NOT NULL
  ON CONFLICT (cell, kind, key) DO UPDATE SET version = k.version + 1,
    value = jsonb_set(k.value::jsonb, '{owners}', (k.value::jsonb->'owners') || (excluded.value::jsonb->'owners'))::json
), kept AS (
  UPDATE capstan.control c SET version = c.version + 1, value = jsonb_set(b.value, '{owners}', b.others)::json
    FROM builds b WHERE c.cell = $2 AND c.kind = 'build' AND c.key = b.key AND b.own IS NOT NULL AND b.others IS NOT NULL
), dropped AS (
  DELETE FROM capstan.control c USING builds b
    WHERE c.cell = $2 AND c.kind = 'build' AND c.key = b.key AND b.own IS NOT NULL AND b.others IS NULL
), ${NOTED}
SELECT cell FROM target`;

/** What keeps an account where it is. */
const STORED = `SELECT (SELECT count(*) FROM capstan.jobs j WHERE j.cell = $2 AND j.endpoint IN (
    SELECT key FROM capstan.control WHERE cell = $2 AND kind = 'endpoint' AND value->>'account' = $1)),
  (SELECT count(*) FROM capstan.hooks h WHERE h.cell = $2 AND h.account = $1 AND h.tries >= 0)`;
const CELL = `SELECT c.cell, k.value->>'id' FROM capstan.cells c
LEFT JOIN capstan.control k ON k.cell = c.cell AND k.kind = 'setting' AND k.key = $2 WHERE c.name = $1`;

/**
 * Refuses what would be refused in any case, while the cell still works.
 * @throws CapstanError NOT_FOUND without the cell; CONFLICT with the reason.
 */
export async function checkAccountMove(query: Query, from: Cell, { account, to }: AccountMove): Promise<void> {
  const cellOf = async (name: string) => (await query<[number, string | null]>('cell-and-key', CELL, [name, MASTER_KEY_SETTING]))[0];
  const [here, there] = [await cellOf(from.name), await cellOf(to)];
  if (there === undefined) throw new CapstanError('NOT_FOUND', `cell: ${to} does not exist`, { field: 'cell' });
  if (there[1] !== null && there[1] !== here?.[1])
    throw new CapstanError('CONFLICT', `cell: ${to} encrypts with another master key, so the account's secrets could not be read there`, {
      field: 'cell',
    });
  const [stored] = await query<[number, number]>('stored-of-account', STORED, [account, from.number]);
  const [jobs, deliveries] = stored ?? [0, 0];
  if (jobs > 0) throw refusal(account, `has ${jobs} stored jobs; it can be moved once they have ended and their retention has expired`);
  if (deliveries > 0)
    throw refusal(
      account,
      `has ${deliveries} undelivered webhooks; it can be moved once they are delivered, or their last attempt has failed`,
    );
}

/** @throws CapstanError as above, when nothing was moved; UNAVAILABLE when that is not known. */
export async function moveAccount(
  { query, move, audit }: MoveDeps,
  from: Cell,
  { term, batch }: Position,
  { account, to }: AccountMove,
): Promise<void> {
  const [there] = await query<[number, string | null]>('cell-and-key', CELL, [to, MASTER_KEY_SETTING]);
  const moved = await move(MOVE, [account, from.number, String(term), batch, there?.[0] ?? null, audit.key, audit.value]);
  if (moved.length > 0) return;
  await checkAccountMove(query, from, { account, to });
  throw refusal(account, 'is in use: its cell changed in the meantime; try again');
}

function refusal(account: string, why: string): CapstanError {
  return new CapstanError('CONFLICT', `account: ${account} ${why}`, { field: 'id' });
}
