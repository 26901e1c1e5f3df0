/** A store whose cell is acquired only by a scheduler that may own it. */
import type { CapstanError } from '../../lib/errors.ts';
import type { LoopStore } from './loop-store.ts';

/** How long a refusal takes, ms: who is refused asks again at once. */
const REFUSED_MS = 500;

export interface Guard {
  /** Returns why this scheduler may not own a cell; null if it may. */
  refusal(): Promise<CapstanError | null>;
  /** Gives up its turn: a scheduler that waits behind this one may own the cell. */
  giveWay(cell: number): Promise<void>;
}

export function guardedStore(store: LoopStore, { refusal, giveWay }: Guard): LoopStore {
  const refused = async (cell: number): Promise<CapstanError | null> => {
    const reason = await refusal();
    if (reason !== null) await giveWay(cell);
    return reason;
  };
  return {
    ...store,
    acquire(wanted, completion) {
      refused(wanted.cell).then((reason) => {
        if (reason === null) store.acquire(wanted, completion);
        else setTimeout(() => completion.failed(reason), REFUSED_MS);
      }, completion.failed);
    },
  };
}
