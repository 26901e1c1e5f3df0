/** Incidents of accounts: quotas that are nearly used, keys that expire. */
import { keyId, keysOf, quotaOf } from '../core/control/keys.ts';
import type { Now } from '../core/now.ts';
import { liveEndpoints, type State } from '../core/state.ts';
import { ofSubject, type Incident } from './incident.ts';
import { quoted } from './titles.ts';

/** Share of a quota above which it is reported. */
const NEARLY_USED = 0.9;
/** How long before its end a key is reported, ms. */
const EXPIRES_SOON_MS = 14 * 86_400_000;
/** How long a key must be valid in all for its end to be a surprise, ms: short ones are made to end. */
const LASTING_MS = 2 * EXPIRES_SOON_MS;

export function accountIncidents(state: State, account: string, now: Now): Incident[] {
  return [...quotaIncidents(state, account), ...keyIncidents(state, account, now)];
}

function quotaIncidents(state: State, account: string): Incident[] {
  const quota = quotaOf(state, account);
  const used = liveEndpoints(state, account).reduce((sum, { config }) => sum + config.workersMax, 0);
  if (used === 0 || used < quota * NEARLY_USED) return [];
  const actions = [{ label: 'Raise the quota', command: `capstan account set ${quoted(account)} --workers ${Math.max(quota, used) * 2}` }];
  const text = ` uses ${used} of the ${quota} workers of its quota`;
  return [ofSubject(`account ${account}`, text, { kind: 'QUOTA_NEARLY_USED', severity: 'WARNING', sinceMs: undefined, account, actions })];
}

function keyIncidents(state: State, account: string, { wall }: Now): Incident[] {
  return keysOf(state, account).flatMap(({ name, hash, createdAt, expiresAt }) => {
    if (expiresAt === null || expiresAt - wall > EXPIRES_SOON_MS || expiresAt <= wall || expiresAt - createdAt < LASTING_MS) return [];
    const subject = `key ${name === '' ? keyId(hash) : name}`;
    const actions = [{ label: 'Create another key', command: `capstan keys create ${quoted(name === '' ? 'new' : name)}` }];
    const text = ` ends on ${new Date(expiresAt).toISOString().slice(0, 10)}`;
    return [ofSubject(subject, text, { kind: 'KEY_EXPIRES', severity: 'WARNING', sinceMs: undefined, account, actions })];
  });
}
