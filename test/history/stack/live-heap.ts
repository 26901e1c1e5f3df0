/**
 * Loaded into a part before its own program during a soak: collects garbage once a minute and writes what is left of the main thread's heap,
 * in bytes, to the file that LIVE_HEAP_FILE names. Only a heap after a collection tells a leak from garbage that waits.
 */
import { writeFileSync } from 'node:fs';

const INTERVAL_MS = 60_000;
const file = process.env['LIVE_HEAP_FILE'];
const { gc } = globalThis;

if (file !== undefined && gc !== undefined) {
  const write = (): void => {
    gc();
    writeFileSync(file, String(process.memoryUsage().heapUsed));
  };
  setInterval(write, INTERVAL_MS).unref();
}
