/**
 * The job or request that code in a worker belongs to. Code gets its stop signal: the SDK's stubs, of which a bundle has
 * its own copy, find it by its symbol and then cancel their calls to other endpoints.
 */
import { AsyncLocalStorage } from 'node:async_hooks';

interface Work {
  /** Of the task or request. */
  readonly key: string;
  readonly signal: AbortSignal;
}

const work = new AsyncLocalStorage<Work>();
Object.defineProperty(globalThis, Symbol.for('capstan.stopSignal'), { value: () => work.getStore()?.signal });

/** Runs `inside` so that its code and everything it starts belong to this work. */
export function withWork<T>(of: Work, inside: () => T): T {
  return work.run(of, inside);
}

/**
 * Calls `report` with the key of the task or request whose code ends this thread: by process.exit(), or by an error that
 * nothing catches.
 */
export function onCulprit(report: (key: string) => void): void {
  process.on('exit', () => {
    const ending = work.getStore();
    if (ending !== undefined) report(ending.key);
  });
}
