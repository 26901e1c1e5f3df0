/**
 * What every driver of the store promises (scheduler/store/store.ts), as tests. A driver joins by
 * a file that calls {@link storeConformance} with a way to open an empty store.
 */
import type { ExecutionContext } from 'ava';

import type { Fence, Store } from '../../../scheduler/store/store.ts';
import { controlRules } from './rules-control.ts';
import { endRules } from './rules-ends.ts';
import { fenceRules } from './rules-fences.ts';
import { hookRules } from './rules-hooks.ts';
import { leaseRules } from './rules-leases.ts';
import { orderRules } from './rules-order.ts';
import { removalRules } from './rules-removal.ts';
import { submitRules } from './rules-submit.ts';
import { take } from './take.ts';

/** A store under test. */
export interface Subject {
  readonly store: Store;
  /** Ends the store as a process end would and opens it again on the same data. */
  reopen(): Promise<Store>;
  /** Ends it and removes its data. */
  close(): Promise<void>;
}

export type Open = () => Promise<Subject>;

/** A store whose shard 0 is taken. */
export interface Owned {
  readonly store: Store;
  readonly fence: Fence;
  reopen(): Promise<Store>;
}

/** Gives a test its own empty store, gone after it. */
export type Use = (t: ExecutionContext) => Promise<Owned>;

export function storeConformance(name: string, open: Open): void {
  const use: Use = async (t) => {
    const subject = await open();
    t.teardown(() => subject.close());
    return { store: subject.store, fence: await take(subject.store), reopen: () => subject.reopen() };
  };
  submitRules(name, use);
  leaseRules(name, use);
  endRules(name, use);
  hookRules(name, use);
  removalRules(name, use);
  orderRules(name, use);
  controlRules(name, use);
  fenceRules(name, use);
}
