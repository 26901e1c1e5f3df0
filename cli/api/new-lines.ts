/** Follows log lines and returns each one once. */
import { setTimeout as pause } from 'node:timers/promises';

import type { LogPage, LogRow } from './logs.ts';

/** How long the service waits for a line, ms. */
export const WAIT_MS = 5_000;
/** Pause after lines, ms. */
const PAUSE_MS = 250;
/** Interval of requests to a service that does not wait, ms. */
const ASK_EVERY_MS = 1_000;

/**
 * Yields the lines after a cursor, until the signal is aborted. `read` returns the oldest lines after a cursor, or from the start of
 * the command while there is none, and waits for a first one where the service can.
 */
export async function* newLines(
  cursor: string | null,
  read: (cursor: string | null) => Promise<LogPage>,
  signal: AbortSignal,
  { pauseMs, everyMs }: { readonly pauseMs: number; readonly everyMs: number } = { pauseMs: PAUSE_MS, everyMs: ASK_EVERY_MS },
): AsyncGenerator<LogRow> {
  let at = cursor;
  const aborted = new Promise<undefined>((resolve) => signal.addEventListener('abort', () => resolve(undefined), { once: true }));
  while (!signal.aborted) {
    const askedAt = performance.now();
    const page = await Promise.race([read(at), aborted]);
    if (page === undefined) return;
    yield* page.lines;
    at = page.cursor ?? at;
    const wait = page.lines.length > 0 || page.incomplete ? pauseMs : Math.max(0, everyMs - (performance.now() - askedAt));
    // An abort of the wait ends the command.
    await pause(wait, undefined, { signal }).catch(() => undefined);
  }
}
