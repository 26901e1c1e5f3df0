/** How the rules of the store's conformance suite open the store under test. */
import type { ExecutionContext } from 'ava';

import type { Fence, Store } from '../../../scheduler/core/ports/store.ts';

/** A store under test. */
export interface Subject {
  readonly store: Store;
  /** Ends the store as a process end would and opens it again on the same data. */
  reopen(): Promise<Store>;
  /** Ends it and removes its data. */
  close(): Promise<void>;
}

export type Open = () => Promise<Subject>;

/** A store whose cell 0 is taken. */
export interface Owned {
  readonly store: Store;
  readonly fence: Fence;
  reopen(): Promise<Store>;
}

/** Gives a test its own empty store, gone after it. */
export type Use = (t: ExecutionContext) => Promise<Owned>;
