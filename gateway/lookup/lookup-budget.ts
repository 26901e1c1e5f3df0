/**
 * Rate limits for look-ups at the scheduler of what the directory does not hold. Keys, worker tokens, endpoints and
 * their names have separate budgets, in total and per caller, so that invalid requests of one kind or one caller do not use up the
 * look-ups of others. Renewing a token that was valid before uses its own budget.
 */
import { LRUCache } from 'lru-cache';

import { Rate } from '../../lib/rate.ts';

export const lookupKinds = ['key', 'worker', 'renewal', 'endpoint', 'name'] as const;
export type LookupKind = (typeof lookupKinds)[number];

/** Who asks is remembered for this many. */
const MAX_ASKERS = 10_000;
/** Share of a budget that one caller may use. */
const SHARE = 1 / 4;
/** Every worker that calls causes a renewal every few seconds. */
const RENEWALS = 20;

interface KindBudget {
  readonly all: Rate;
  readonly share: number;
  readonly callers: LRUCache<string, Rate>;
}

export class LookupBudget {
  readonly #kinds: ReadonlyMap<LookupKind, KindBudget>;

  constructor(perSecond: number) {
    this.#kinds = new Map(
      lookupKinds.map((kind) => {
        const rate = kind === 'renewal' ? perSecond * RENEWALS : perSecond;
        const share = kind === 'renewal' ? rate : Math.max(1, rate * SHARE);
        return [kind, { all: new Rate(rate), share, callers: new LRUCache<string, Rate>({ max: MAX_ASKERS }) }];
      }),
    );
  }

  /** Takes one look-up from the budgets; returns false when none is left. */
  take(kind: LookupKind, caller: string, now: number): boolean {
    const budget = this.#kinds.get(kind);
    if (budget === undefined) return false;
    let rate = budget.callers.get(caller);
    if (rate === undefined) {
      rate = new Rate(budget.share);
      budget.callers.set(caller, rate);
    }
    return rate.take(now) && budget.all.take(now);
  }
}
