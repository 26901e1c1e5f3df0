/**
 * What code in a worker may ask about the work it is part of, a job or a request: the signal that it is stopped.
 * The SDK's stubs, of which a bundle holds its own copy, find it by its symbol, and stop then what they wait for
 * at other endpoints.
 */
import { AsyncLocalStorage } from 'node:async_hooks';

const work = new AsyncLocalStorage<AbortSignal>();
Object.defineProperty(globalThis, Symbol.for('capstan.stopSignal'), { value: () => work.getStore() });

/** Runs `inside`, whose code and whatever it starts find this signal. */
export function withStopSignal<T>(signal: AbortSignal, inside: () => T): T {
  return work.run(signal, inside);
}
