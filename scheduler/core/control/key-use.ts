/** When keys and sessions of the console were last used. */
import type { StepContext } from '../context.ts';
import { putRow } from '../rows.ts';
import type { KeyRow } from '../state/control-rows.ts';

/** Minimum interval between two writes of a key's last use, ms. */
const NOTE_USE_EVERY_MS = 60_000;
/** The same for a session, ms. */
const NOTE_SESSION_EVERY_MS = 600_000;
/** A session ends this long after its last use, ms. */
export const SESSION_IDLE_MS = 12 * 3_600_000;

/** Stores when keys were last used, to within a minute. The use of a session prolongs it, and is one of its key. */
export function noteKeys(ctx: StepContext, call: number, hashes: readonly string[]): void {
  for (const hash of hashes) {
    const key = ctx.state.keys.get(hash);
    if (key?.sessionOf === undefined) noteUse(ctx, key);
    else {
      noteSession(ctx, key);
      noteUse(ctx, ctx.state.keys.get(key.sessionOf));
    }
  }
  ctx.reply(call, { kind: 'done' });
}

export function lastUse({ createdAt, usedAt }: KeyRow): number {
  return usedAt ?? createdAt;
}

function noteUse(ctx: StepContext, key: KeyRow | undefined): void {
  if (key === undefined || (key.usedAt !== null && ctx.now.wall - key.usedAt < NOTE_USE_EVERY_MS)) return;
  put(ctx, { ...key, usedAt: ctx.now.wall });
}

/** Its deadline stays: it is set again when it passes. */
function noteSession(ctx: StepContext, session: KeyRow): void {
  const { wall } = ctx.now;
  if (wall - lastUse(session) < NOTE_SESSION_EVERY_MS) return;
  put(ctx, { ...session, usedAt: wall, expiresAt: wall + SESSION_IDLE_MS });
}

function put(ctx: StepContext, row: KeyRow): void {
  ctx.state.keys.set(row.hash, row);
  putRow(ctx, 'key', row.hash, row);
}
