/**
 * How fast the audit log grows. Its entries stay for 90 days, and a key that changes settings in a loop would fill the disk of all accounts.
 * A key that has used up its own share leaves the rest of the account's to others. Kept in memory: it begins anew with each owner.
 */
import { LRUCache } from 'lru-cache';

import { CapstanError } from '../../lib/errors.ts';
import { Rate } from '../../lib/rate.ts';

/** Bytes of entries: at once, and a second. */
const OF_KEY = { burst: 8 << 20, perSecond: 100 };
const OF_ACCOUNT = { burst: 32 << 20, perSecond: 400 };
/** Of an entry's key, times and index, bytes. */
const OVERHEAD = 200;
const MAX_RATES = 10_000;

export class AuditBudget {
  readonly #rates = new LRUCache<string, Rate>({ max: MAX_RATES });

  /** @param now monotonic, ms. @throws CapstanError RATE_LIMITED where the key or the account has written too much. */
  charge({ key, account }: { readonly key: string; readonly account: string }, bytes: number, now: number): void {
    const ofKey = this.#rateOf(`${account}/${key}`, OF_KEY);
    const ofAccount = this.#rateOf(account, OF_ACCOUNT);
    if (!ofKey.has(now)) throw tooMany('this key');
    if (!ofAccount.has(now)) throw tooMany('the account');
    for (const rate of [ofKey, ofAccount]) rate.charge(OVERHEAD + bytes, now);
  }

  #rateOf(name: string, { perSecond, burst }: { readonly perSecond: number; readonly burst: number }): Rate {
    const rate = this.#rates.get(name) ?? new Rate(perSecond, burst);
    this.#rates.set(name, rate);
    return rate;
  }
}

function tooMany(whose: string): CapstanError {
  return new CapstanError('RATE_LIMITED', `${whose} has made too many changes, more than the audit log takes of it`, {
    retryAfterMs: 10_000,
  });
}
