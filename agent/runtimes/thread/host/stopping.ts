/**
 * Gives code in a worker the stop signal of its current job or request. The SDK's stubs, of which a bundle has its own
 * copy, find it by its symbol and then cancel their calls to other endpoints.
 */
import { AsyncLocalStorage } from 'node:async_hooks';

const work = new AsyncLocalStorage<AbortSignal>();
Object.defineProperty(globalThis, Symbol.for('capstan.stopSignal'), { value: () => work.getStore() });

/** Runs `inside` so that its code and everything it starts see this signal. */
export function withStopSignal<T>(signal: AbortSignal, inside: () => T): T {
  return work.run(signal, inside);
}
