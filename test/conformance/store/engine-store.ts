import { CapstanError } from '../../../lib/errors.ts';
import type { Fence, Op, Outcome, Reads, Store, StoreEngine } from '../../../scheduler/core/ports/store.ts';

/** A synchronous engine behind the store's promises. */
export function engineStore(engine: StoreEngine): Store {
  let closed = false;
  const open = (): StoreEngine => {
    if (closed) throw new CapstanError('UNAVAILABLE', 'the store is closed');
    return engine;
  };
  return {
    fenceMs: null,
    async commit(fence: Fence, ops: readonly Op[]): Promise<Outcome[]> {
      return open().commit(fence, ops);
    },
    async read<K extends keyof Reads>(query: K, ...args: Parameters<Reads[K]>): Promise<ReturnType<Reads[K]>> {
      return open().read(query, ...args);
    },
    async search<K extends keyof Reads>(query: K, ...args: Parameters<Reads[K]>): Promise<ReturnType<Reads[K]>> {
      return open().read(query, ...args);
    },
    async acquire(cell: number, owner: string, forMs: number) {
      return open().acquire(cell, owner, forMs);
    },
    async waitForTurn() {
      open();
    },
    async release(cell: number) {
      open().acquire(cell, 'nobody', 0);
    },
    now: Date.now,
    onHint: () => () => undefined,
    async close() {
      if (!closed) engine.close();
      closed = true;
    },
  };
}
