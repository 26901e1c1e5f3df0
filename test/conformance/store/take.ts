import type { Fence, Store } from '../../../scheduler/store/store.ts';

/** Takes shard 0 for `owner`, waiting out an earlier owner whose time still runs. */
export async function take(store: Store, owner = 'owner-a', shard = 0): Promise<Fence> {
  for (;;) {
    const taken = await store.acquire(shard, owner, 1);
    if ('term' in taken) return { shard, term: taken.term };
  }
}
