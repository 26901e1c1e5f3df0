/**
 * Reads a host's facts with systeminformation in a thread that ends afterwards. The library calls programs one by one and
 * waits for some of them (several for each network interface), which would hold up the agent, and has no time limit.
 */
import { Worker } from 'node:worker_threads';

import { messageOf } from '../../lib/to-error.ts';
import type { HardwareReading } from './hardware-facts.ts';

/** Most time of a reading, ms. A host with a hundred interfaces takes seconds. */
const READING_MS = 30_000;

/** @throws Error when the library fails or takes too long. */
export async function readHardware(limitMs = READING_MS): Promise<HardwareReading> {
  const thread = new Worker(new URL('./hardware-thread.ts', import.meta.url), { name: 'capstan-hardware' });
  const result = Promise.withResolvers<HardwareReading>();
  const timer = setTimeout(() => result.reject(new Error(`systeminformation did not respond within ${limitMs} ms`)), limitMs);
  thread.once('message', (reading: HardwareReading) => result.resolve(reading));
  thread.once('error', (error) => result.reject(new Error(`systeminformation failed: ${messageOf(error)}`, { cause: error })));
  thread.once('exit', () => result.reject(new Error('the thread of systeminformation ended without a result')));
  try {
    return await result.promise;
  } finally {
    clearTimeout(timer);
    await thread.terminate();
  }
}
