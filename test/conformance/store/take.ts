import type { Fence, Store } from '../../../scheduler/core/ports/store.ts';

/** Takes cell 0 for `owner`, waiting out an earlier owner whose time still runs. */
export async function take(store: Store, owner = 'owner-a', cell = 0): Promise<Fence> {
  for (;;) {
    const taken = await store.acquire(cell, owner, 1);
    if ('term' in taken) return { cell, term: taken.term };
  }
}
