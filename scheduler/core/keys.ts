/** API keys and accounts. */
import { CapstanError } from '../../proto/errors.ts';
import { KeyScope } from '../../proto/gen/capstan/v1/control.ts';

import { emptyUpdate, keyEntry } from './directory.ts';
import type { StepResult, Write } from './effects.ts';
import type { Command } from './events.ts';
import type { State } from './image.ts';
import type { AccountRow, KeyRow } from './image/control-rows.ts';
import type { Now } from './now.ts';
import { putRow } from './rows.ts';

/** The time of a key's last use is written at most this often, ms. */
const noteUseEveryMs = 3_600_000;

/** What is not in an older row. */
export const keyDefaults = { environment: '', prefix: '', createdAt: 0, expiresAt: null, usedAt: null } as const;
const noAccount: AccountRow = { webhookSecretSealed: null, workerQuota: null, buildQuota: null, bodyQuota: null, createdAt: 0 };

/** An account's row; the first account has none before something of it is kept. */
export function accountRow(image: State, account: string): AccountRow {
  return { ...noAccount, ...image.accounts.get(account) };
}

/** The most the workersMax of an account's endpoints may come to. */
export function quotaOf(image: State, account: string): number {
  return accountRow(image, account).workerQuota ?? image.settings.workerQuota;
}

/** The most bytes of the account's builds, unfinished uploads included. */
export function buildQuotaOf(image: State, account: string): number {
  return accountRow(image, account).buildQuota ?? image.settings.buildQuotaBytes;
}

/** The most bytes of the account's bodies above the inline size. */
export function bodyQuotaOf(image: State, account: string): number {
  return accountRow(image, account).bodyQuota ?? image.settings.bodyQuotaBytes;
}

export function putKey(image: State, out: StepResult, now: Now, call: number, key: KeyRow): void {
  image.keys.set(key.hash, key);
  awaitExpiry(image, now, key);
  const write = putRow(image, out, 'key', key.hash, key);
  out.do({ kind: 'directory', update: { ...emptyUpdate(), keys: [keyEntry(key)] } }, write);
  out.do({ kind: 'answer', call, result: { kind: 'done' } }, write);
}

/** From the commit on the key is unknown; gateways are told at once. */
export function revokeKey(image: State, out: StepResult, call: number, hash: string): void {
  const key = image.keys.get(hash);
  if (key === undefined) {
    out.do({ kind: 'answer', call, result: new CapstanError('NOT_FOUND', 'key: is not there any more', { field: 'id' }) });
    return;
  }
  const others = [...image.keys.values()].filter((other) => other.hash !== hash && other.account === key.account);
  if (key.scope === KeyScope.ALL && !others.some(({ scope, expiresAt }) => scope === KeyScope.ALL && expiresAt === null)) {
    const why = 'key: it is the last one with the scope ALL that does not expire; create another one first';
    out.do({ kind: 'answer', call, result: new CapstanError('CONFLICT', why, { field: 'id' }) });
    return;
  }
  out.do({ kind: 'answer', call, result: { kind: 'done' } }, removeKey(image, out, key));
}

/** A key's time may be over. */
export function keyExpiry(image: State, out: StepResult, now: Now, hash: string): void {
  const key = image.keys.get(hash);
  if (key?.expiresAt == null) return;
  if (key.expiresAt <= now.wall) removeKey(image, out, key);
  else awaitExpiry(image, now, key);
}

/** Sets the deadline of a key that expires. Far ones are looked at again on the way: the clocks may drift apart. */
export function awaitExpiry(image: State, now: Now, key: KeyRow): void {
  if (key.expiresAt === null) return;
  const left = Math.min(Math.max(0, key.expiresAt - now.wall), noteUseEveryMs);
  image.deadlines.add(now.mono + left, { kind: 'key-expiry', hash: key.hash });
}

/** Keeps when keys were last used, to within an hour. */
export function noteKeys(image: State, out: StepResult, now: Now, call: number, hashes: readonly string[]): void {
  for (const hash of hashes) {
    const key = image.keys.get(hash);
    if (key === undefined || (key.usedAt !== null && now.wall - key.usedAt < noteUseEveryMs)) continue;
    const row = { ...key, usedAt: now.wall };
    image.keys.set(hash, row);
    putRow(image, out, 'key', hash, row);
  }
  out.do({ kind: 'answer', call, result: { kind: 'done' } });
}

export function putAccount(
  image: State,
  out: StepResult,
  now: Now,
  call: number,
  command: Extract<Command, { kind: 'put-account' }>,
): void {
  const { account, quotas, create } = command;
  const known = image.accounts.has(account) || [...image.keys.values()].some((key) => key.account === account);
  if (known === create) {
    const error = create
      ? new CapstanError('ALREADY_EXISTS', `account ${account} is there already`, { field: 'id' })
      : new CapstanError('NOT_FOUND', `account ${account} does not exist`, { field: 'id' });
    out.do({ kind: 'answer', call, result: error });
    return;
  }
  const row = { ...accountRow(image, account), ...quotas, ...(create ? { createdAt: now.wall } : {}) };
  image.accounts.set(account, row);
  out.do({ kind: 'answer', call, result: { kind: 'done' } }, putRow(image, out, 'account', account, row));
}

function removeKey(image: State, out: StepResult, key: KeyRow): Write {
  image.keys.delete(key.hash);
  const write = putRow(image, out, 'key', key.hash, null);
  out.do({ kind: 'directory', update: { ...emptyUpdate(), removedKeys: [Buffer.from(key.hash, 'hex')] } }, write);
  return write;
}
