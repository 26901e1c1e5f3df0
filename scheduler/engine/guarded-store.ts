/** A store whose shard is acquired only by a scheduler that may own it. */
import type { CapstanError } from '../../lib/errors.ts';
import type { LoopStore } from './loop-store.ts';

/** How long a refusal takes, ms: who is refused asks again at once. */
const REFUSED_MS = 500;

export interface Guard {
  /** Returns why this scheduler may not own a shard; null if it may. */
  refusal(): Promise<CapstanError | null>;
  /** Gives up its turn: a scheduler that waits behind this one may own the shard. */
  giveWay(shard: number): Promise<void>;
}

export function guardedStore(store: LoopStore, { refusal, giveWay }: Guard): LoopStore {
  const refused = async (shard: number): Promise<CapstanError | null> => {
    const reason = await refusal();
    if (reason !== null) await giveWay(shard);
    return reason;
  };
  return {
    ...store,
    acquire(wanted, completion) {
      refused(wanted.shard).then((reason) => {
        if (reason === null) store.acquire(wanted, completion);
        else setTimeout(() => completion.failed(reason), REFUSED_MS);
      }, completion.failed);
    },
  };
}
