/**
 * Sessions of the console. A session is a key of its own, stored by the hash of its token, that names the key which opened it: so
 * gateways learn of it and of its end as they do of keys.
 */
import { CapstanError } from '../../../lib/errors.ts';

import type { StepContext } from '../context.ts';
import type { SessionRow } from '../state/control-rows.ts';
import { lastUse } from './key-use.ts';
import { addKey, removeKey, sessionsOf } from './keys.ts';

/** Sessions that one key may have; one more ends the one that was not used for longest. */
export const MAX_SESSIONS = 50;

export function putSession(ctx: StepContext, call: number, session: SessionRow): void {
  const key = ctx.state.keys.get(session.sessionOf);
  if (key === undefined) {
    ctx.reply(call, new CapstanError('UNAUTHENTICATED', 'the key is not valid'));
    return;
  }
  const open = sessionsOf(ctx.state, key).toSorted((a, b) => lastUse(a) - lastUse(b));
  for (const old of open.slice(0, Math.max(0, open.length - MAX_SESSIONS + 1))) removeKey(ctx, old);
  ctx.reply(call, { kind: 'done' }, addKey(ctx, session));
}

/** Ends a session. Nothing is to be done if it has ended. */
export function endSession(ctx: StepContext, call: number, hash: string): void {
  const session = ctx.state.keys.get(hash);
  if (session?.sessionOf === undefined) ctx.reply(call, { kind: 'done' });
  else ctx.reply(call, { kind: 'done' }, removeKey(ctx, session));
}
