/** The rate of each key at the control plane: /graphql and the logs of endpoints share it. */
import { LRUCache } from 'lru-cache';

import { CapstanError } from '../../lib/errors.ts';
import { Rate } from '../../lib/rate.ts';
import { keyText } from '../auth/authenticate.ts';
import type { Key } from '../directory/directory.ts';

/** Keys whose rate is remembered. */
const MAX_KEYS = 10_000;

export class KeyRates {
  readonly #perSecond: number;
  readonly #rates = new LRUCache<string, Rate>({ max: MAX_KEYS });

  constructor(perSecond: number) {
    this.#perSecond = perSecond;
  }

  /**
   * Counts a request.
   * @param authorization - the header, which tells keys apart that have no hash
   * @param now - monotonic, ms
   * @throws CapstanError RATE_LIMITED
   */
  take(key: Key, authorization: string | undefined, now: number): void {
    const name = nameOfKey(key, authorization);
    let rate = this.#rates.get(name);
    if (rate === undefined) {
      rate = new Rate(this.#perSecond);
      this.#rates.set(name, rate);
    }
    if (rate.take(now)) return;
    const why = `a key may make at most ${this.#perSecond} requests per second to the control plane (GraphQL and logs)`;
    throw new CapstanError('RATE_LIMITED', why, { retryAfterMs: 1_000 });
  }
}

/** Tells keys apart, also those that have no hash. */
export function nameOfKey({ hash }: Key, authorization: string | undefined): string {
  return hash.length > 0 ? hash.toString('hex') : keyText(authorization);
}
