/**
 * How often the gateway asks the scheduler for what its directory does not hold. Keys, workers' tokens
 * and endpoints have budgets of their own, in all and for each who asks, so that junk of one kind or from
 * one place leaves the others their look-ups. A token that was good before is renewed from a budget that
 * junk cannot reach.
 */
import { LRUCache } from 'lru-cache';

import { Rate } from '../../lib/rate.ts';

export const lookupKinds = ['key', 'worker', 'renewal', 'endpoint'] as const;
export type LookupKind = (typeof lookupKinds)[number];

/** Who asks is remembered for this many. */
const MAX_ASKERS = 10_000;
/** Part of a budget that one of them may take. */
const SHARE = 1 / 4;
/** Renewals come every few seconds for every worker that calls. */
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

  /** Takes one look-up; false when none is left. */
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
