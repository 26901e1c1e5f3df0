/** Waiting for what only shows when it is looked at: files, /proc, answers over HTTP. */
import { setTimeout as pause } from 'node:timers/promises';

/**
 * A look may cost as much as what is waited for, and takes the processor from it: so the pauses grow with the wait, by an eighth of it,
 * to a tenth of a second. Nothing is noticed later than that, or than an eighth of the time it took.
 */
const FIRST_PAUSE_MS = 20;
const LAST_PAUSE_MS = 100;
const SHARE = 1 / 8;

/** Looks until there is an answer (anything but null, undefined and false); rejects after `limitMs`, saying what was waited for. */
export async function until<T>(what: string, look: () => T | Promise<T>, limitMs = 60_000): Promise<Exclude<T, null | undefined | false>> {
  const begun = performance.now();
  for (;;) {
    const seen = await look();
    if (seen !== null && seen !== undefined && seen !== false) return seen as Exclude<T, null | undefined | false>;
    const waited = performance.now() - begun;
    if (waited > limitMs) throw new Error(`waited ${limitMs} ms in vain until ${what}`);
    await pause(Math.min(Math.max(FIRST_PAUSE_MS, waited * SHARE), LAST_PAUSE_MS));
  }
}
