/** Waiting for what only shows when it is looked at: files, /proc, answers over HTTP. */
import { setTimeout as pause } from 'node:timers/promises';

const LOOK_EVERY_MS = 20;

/** Looks until there is an answer (anything but null, undefined and false); rejects after `limitMs`, saying what was waited for. */
export async function until<T>(what: string, look: () => T | Promise<T>, limitMs = 60_000): Promise<Exclude<T, null | undefined | false>> {
  const deadline = performance.now() + limitMs;
  for (;;) {
    const seen = await look();
    if (seen !== null && seen !== undefined && seen !== false) return seen as Exclude<T, null | undefined | false>;
    if (performance.now() > deadline) throw new Error(`waited ${limitMs} ms in vain until ${what}`);
    await pause(LOOK_EVERY_MS);
  }
}
