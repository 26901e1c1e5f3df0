/** A store whose shard is acquired only by a scheduler that may own it. */
import type { CapstanError } from '../../lib/errors.ts';
import type { LoopStore } from './loop-store.ts';

/** How long a refusal takes, ms: who is refused asks again at once. */
const REFUSED_MS = 500;

/** @param refusal returns why this scheduler may not own a shard; null if it may. */
export function guardedStore(store: LoopStore, refusal: () => Promise<CapstanError | null>): LoopStore {
  return {
    ...store,
    acquire(wanted, completion) {
      refusal().then((refused) => {
        if (refused === null) store.acquire(wanted, completion);
        else setTimeout(() => completion.failed(refused), REFUSED_MS);
      }, completion.failed);
    },
  };
}
