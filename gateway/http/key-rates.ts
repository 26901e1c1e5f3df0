/** The rate of each key at the control plane: /graphql and the logs of endpoints share it. */
import { hash } from 'node:crypto';

import { LRUCache } from 'lru-cache';

import { CapstanError } from '../../lib/errors.ts';
import { Rate } from '../../lib/rate.ts';
import { keyText } from '../auth/authenticate.ts';
import type { Key } from '../directory/directory.ts';

/** Keys whose rate is remembered. */
const MAX_KEYS = 10_000;

/** The rates of keys by name. */
export class RateTable {
  readonly #perSecond: number;
  readonly #rates = new LRUCache<string, Rate>({ max: MAX_KEYS });

  constructor(perSecond: number) {
    this.#perSecond = perSecond;
  }

  /** Counts an event; returns false when the rate is used up. `now`: monotonic, ms. */
  take(name: string, now: number): boolean {
    let rate = this.#rates.get(name);
    if (rate === undefined) {
      rate = new Rate(this.#perSecond);
      this.#rates.set(name, rate);
    }
    return rate.take(now);
  }
}

/** Counts an event of a key, by its name, for all processes of a gateway; returns whether it is allowed. */
export type TakeRate = (name: string) => Promise<boolean>;

export class KeyRates {
  readonly #perSecond: number;
  readonly #table: RateTable;
  readonly #takeRate: TakeRate | undefined;

  /** `takeRate`: undefined where this process is the only one. */
  constructor(perSecond: number, takeRate?: TakeRate) {
    this.#perSecond = perSecond;
    this.#table = new RateTable(perSecond);
    this.#takeRate = takeRate;
  }

  /**
   * Counts a request.
   * @param authorization - the header, which tells keys apart that have no hash
   * @param now - monotonic, ms
   * @throws CapstanError RATE_LIMITED
   */
  async take(key: Key, authorization: string | undefined, now: number): Promise<void> {
    const name = nameOfKey(key, authorization);
    const isAllowed = this.#takeRate === undefined ? this.#table.take(name, now) : await this.#takeRate(digestOf(name));
    if (isAllowed) return;
    const why = `a key may make at most ${this.#perSecond} requests per second to the control plane (GraphQL and logs)`;
    throw new CapstanError('RATE_LIMITED', why, { retryAfterMs: 1_000 });
  }
}

/** The name of a key that has no hash is its text, which leaves no process. */
function digestOf(name: string): string {
  return hash('sha256', name, 'base64url');
}

/** Tells keys apart, also those that have no hash. */
export function nameOfKey({ hash }: Key, authorization: string | undefined): string {
  return hash.length > 0 ? hash.toString('hex') : keyText(authorization);
}
