/** API keys and accounts. */
import { CapstanError } from '../../../lib/errors.ts';
import { KeyScope } from '../../../proto/gen/capstan/v1/control.ts';

import type { StepContext } from '../context.ts';
import { emptyUpdate, keyEntry } from '../fleet/directory.ts';
import type { Write } from '../effects.ts';
import { accountRow } from '../endpoints/quotas.ts';
import type { Command } from '../events.ts';
import type { State } from '../state.ts';
import type { KeyRow } from '../state/control-rows.ts';
import type { Now } from '../now.ts';
import { accountRuleChanged } from '../fleet/isolation-loss.ts';
import { putRow } from '../rows.ts';

/** Longest interval between two checks whether a key has expired, ms. */
const CHECK_EXPIRY_MS = 3_600_000;

/** Defaults for fields missing in older rows. */
export const keyDefaults = { environment: '', prefix: '', createdAt: 0, expiresAt: null, usedAt: null } as const;

/** Returns the keys of an account, without sessions of the console. */
export function keysOf(state: State, account: string): KeyRow[] {
  return [...state.keys.values()].filter((key) => key.account === account && key.sessionOf === undefined);
}

/** Returns the open sessions of a key; a session has none. */
export function sessionsOf(state: State, key: KeyRow): KeyRow[] {
  return key.sessionOf === undefined ? [...state.keys.values()].filter(({ sessionOf }) => sessionOf === key.hash) : [];
}

/** Whether a scope permits everything in the account of its key. */
export function ownsAccount(scope: KeyScope): boolean {
  return scope === KeyScope.ALL || scope === KeyScope.OPERATOR;
}

/** Whether the account can be used. The first account has no row until a value of it is stored. */
export function accountExists(state: State, account: string): boolean {
  const row = state.accounts.get(account);
  if (row !== undefined) return row.deletedAt === undefined;
  return [...state.keys.values()].some((key) => key.account === account);
}

export function putKey(ctx: StepContext, call: number, key: KeyRow): void {
  ctx.reply(call, { kind: 'done' }, addKey(ctx, key));
}

export function addKey(ctx: StepContext, key: KeyRow): Write {
  ctx.state.keys.set(key.hash, key);
  awaitExpiry(ctx.state, ctx.now, key);
  const write = putRow(ctx, 'key', key.hash, key);
  ctx.emit({ kind: 'directory', update: { ...emptyUpdate(), keys: [keyEntry(key)] } }, write);
  return write;
}

/** Revokes a key. After the commit the key is unknown; gateways are notified at once. */
export function revokeKey(ctx: StepContext, call: number, hash: string): void {
  const key = ctx.state.keys.get(hash);
  if (key === undefined) {
    ctx.reply(call, new CapstanError('NOT_FOUND', 'key: no longer exists', { field: 'id' }));
    return;
  }
  if (isLast(ctx.state, key)) {
    const scope = key.scope === KeyScope.OPERATOR ? 'OPERATOR' : 'ALL';
    const why = `key: is the last one with the scope ${scope} that does not expire; create another one first`;
    ctx.reply(call, new CapstanError('CONFLICT', why, { field: 'id' }));
    return;
  }
  ctx.reply(call, { kind: 'done' }, removeKey(ctx, key));
}

/** Whether without this key no key could create keys of its account, or operate the service. */
function isLast(state: State, key: KeyRow): boolean {
  if (!ownsAccount(key.scope)) return false;
  const replaces = ({ scope }: KeyRow): boolean => scope === KeyScope.OPERATOR || (scope === KeyScope.ALL && key.scope === KeyScope.ALL);
  return ![...state.keys.values()].some(
    (other) => other.hash !== key.hash && other.account === key.account && other.expiresAt === null && replaces(other),
  );
}

/** Handles the expiry deadline of a key. */
export function keyExpiry(ctx: StepContext, hash: string): void {
  const key = ctx.state.keys.get(hash);
  if (key?.expiresAt == null) return;
  if (key.expiresAt <= ctx.now.wall) removeKey(ctx, key);
  else awaitExpiry(ctx.state, ctx.now, key);
}

/**
 * Sets the deadline of a key that expires. A distant deadline is checked at intervals, because the clocks may drift
 * apart.
 */
export function awaitExpiry(state: State, now: Now, key: KeyRow): void {
  if (key.expiresAt === null) return;
  const left = Math.min(Math.max(0, key.expiresAt - now.wall), CHECK_EXPIRY_MS);
  state.deadlines.add(now.mono + left, { kind: 'key-expiry', hash: key.hash });
}

export function putAccount(ctx: StepContext, call: number, command: Extract<Command, { kind: 'put-account' }>): void {
  const { account, quotas, rules = {}, create, firstKey } = command;
  const known = accountExists(ctx.state, account);
  const isDeleted = !known && ctx.state.accounts.has(account);
  if (create && isDeleted) {
    ctx.reply(
      call,
      new CapstanError('ALREADY_EXISTS', `id: account ${account} was deleted, and its id cannot be used again`, { field: 'id' }),
    );
    return;
  }
  if (known === create) {
    const error = create
      ? new CapstanError('ALREADY_EXISTS', `id: account ${account} already exists`, { field: 'id' })
      : accountNotFound(account, 'id');
    ctx.reply(call, error);
    return;
  }
  const { accountIsolation, accountNetwork } = ctx.state.settings;
  const created = create ? { createdAt: ctx.now.wall, leastIsolation: accountIsolation, network: accountNetwork } : {};
  const former = ctx.state.accounts.get(account);
  const row = { ...accountRow(ctx.state, account), ...quotas, ...created, ...rules };
  ctx.state.accounts.set(account, row);
  const write = putRow(ctx, 'account', account, row);
  if (!create) accountRuleChanged(ctx, account, former);
  ctx.reply(call, { kind: 'done' }, firstKey === undefined ? write : addKey(ctx, firstKey));
}

export function accountNotFound(account: string, field: string): CapstanError {
  return new CapstanError('NOT_FOUND', `${field}: account ${account} does not exist`, { field });
}

/** Removes a key and its sessions. */
export function removeKey(ctx: StepContext, key: KeyRow): Write {
  for (const session of sessionsOf(ctx.state, key)) removeKey(ctx, session);
  ctx.state.keys.delete(key.hash);
  const write = putRow(ctx, 'key', key.hash, null);
  ctx.emit({ kind: 'directory', update: { ...emptyUpdate(), removedKeys: [Buffer.from(key.hash, 'hex')] } }, write);
  return write;
}
