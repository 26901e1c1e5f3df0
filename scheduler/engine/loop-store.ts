/**
 * The store as the commit loop calls it: with callbacks, whose caller decides their order. In production they are run
 * by the store thread's promises, in the simulator by simulated time.
 */
import type { Acquired, Fence, Op, Outcome, Reads, Store, StoreEngine } from '../core/ports/store.ts';

/** The callbacks of a call. Exactly one of them is called, once, and never within the call itself. */
export interface Completion<T> {
  readonly done: (value: T) => void;
  readonly failed: (error: unknown) => void;
}

export interface Acquisition {
  readonly cell: number;
  readonly owner: string;
  readonly forMs: number;
}

/** Every call behaves like the call of {@link Store} with the same name. */
export interface LoopStore {
  readonly fenceMs: number | null;
  commit(fence: Fence, ops: readonly Op[], completion: Completion<readonly Outcome[]>): void;
  read<K extends keyof Reads>(query: K, args: Parameters<Reads[K]>, completion: Completion<ReturnType<Reads[K]>>): void;
  search<K extends keyof Reads>(query: K, args: Parameters<Reads[K]>, completion: Completion<ReturnType<Reads[K]>>): void;
  acquire(wanted: Acquisition, completion: Completion<Acquired>): void;
  waitForTurn?(cell: number, ms: number, completion: Completion<void>): void;
}

/** Adapts a store with promises to callbacks. */
export function callbackStore(store: Store): LoopStore {
  return {
    fenceMs: store.fenceMs,
    commit: (fence, ops, { done, failed }) => void store.commit(fence, ops).then(done, failed),
    read: (query, args, { done, failed }) => void store.read(query, ...args).then(done, failed),
    search: (query, args, { done, failed }) => void store.search(query, ...args).then(done, failed),
    acquire: ({ cell, owner, forMs }, { done, failed }) => void store.acquire(cell, owner, forMs).then(done, failed),
    waitForTurn: (cell, ms, { done, failed }) => void store.waitForTurn(cell, ms).then(done, failed),
  };
}

/** Adapts a synchronous engine that no other process can take over. It runs in the caller's thread. */
export function localStore(engine: StoreEngine): LoopStore {
  const run = <T>(call: () => T, { done, failed }: Completion<T>): void => {
    let value: T;
    try {
      value = call();
    } catch (error) {
      queueMicrotask(() => failed(error));
      return;
    }
    queueMicrotask(() => done(value));
  };
  return {
    fenceMs: null,
    commit: (fence, ops, completion) => run(() => engine.commit(fence, ops), completion),
    read: (query, args, completion) => run(() => engine.read(query, ...args), completion),
    search: (query, args, completion) => run(() => engine.read(query, ...args), completion),
    acquire: ({ cell, owner, forMs }, completion) => run(() => engine.acquire(cell, owner, forMs), completion),
  };
}
