/** Incidents of accounts: quotas that are nearly used, keys that expire. */
import { buildUseOf } from '../core/control/builds.ts';
import { keyId } from '../../lib/key-id.ts';
import { CREATE_ANOTHER_KEY, raiseQuotaOf } from '../../lib/incident-actions.ts';
import { keysOf } from '../core/control/keys.ts';
import { bodyQuotaOf, buildQuotaOf, quotaOf } from '../core/endpoints/quotas.ts';
import { bodyBytesOf } from '../core/jobs/body-use.ts';
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

interface Quota {
  readonly noun: 'workers' | 'builds' | 'bodies';
  readonly used: number;
  readonly limit: number;
  readonly flag: string;
  readonly show: (amount: number) => string;
}

function quotaIncidents(state: State, account: string): Incident[] {
  const workers = liveEndpoints(state, account).reduce((sum, { config }) => sum + config.workersMax, 0);
  const quotas: Quota[] = [
    { noun: 'workers', used: workers, limit: quotaOf(state, account), flag: 'workers', show: String },
    { noun: 'builds', used: buildUseOf(state, account).bytes, limit: buildQuotaOf(state, account), flag: 'build-bytes', show: sizeText },
    { noun: 'bodies', used: bodyBytesOf(state, account), limit: bodyQuotaOf(state, account), flag: 'body-bytes', show: sizeText },
  ];
  return quotas
    .filter(({ used, limit }) => used > 0 && used >= limit * NEARLY_USED)
    .map(({ noun, used, limit, flag, show }) => {
      const command = `capstan account set ${quoted(account)} --${flag} ${Math.ceil(Math.max(limit, used) * 2)}`;
      const amounts =
        noun === 'workers' ? `${used} of the ${limit} workers of its quota` : `${show(used)} of ${show(limit)} of its quota of ${noun}`;
      const details = { kind: 'QUOTA_NEARLY_USED', severity: 'WARNING', sinceMs: undefined, account } as const;
      return ofSubject(`account ${account}`, ` uses ${amounts}`, {
        ...details,
        actions: [{ label: raiseQuotaOf(noun), command }],
      });
    });
}

/** `95.2 GB`. */
function sizeText(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  const unit = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, bytes)) / 3)));
  return `${Number((bytes / 1000 ** unit).toFixed(1))} ${units[unit] ?? 'B'}`;
}

function keyIncidents(state: State, account: string, { wall }: Now): Incident[] {
  return keysOf(state, account).flatMap(({ name, hash, createdAt, expiresAt }) => {
    if (expiresAt === null || expiresAt - wall > EXPIRES_SOON_MS || expiresAt <= wall || expiresAt - createdAt < LASTING_MS) return [];
    const subject = `key ${name === '' ? keyId(hash) : name}`;
    const actions = [{ label: CREATE_ANOTHER_KEY, command: `capstan keys create ${quoted(name === '' ? 'new' : name)}` }];
    const text = ` ends on ${new Date(expiresAt).toISOString().slice(0, 10)}`;
    return [ofSubject(subject, text, { kind: 'KEY_EXPIRES', severity: 'WARNING', sinceMs: undefined, account, actions })];
  });
}
