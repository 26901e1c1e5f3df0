/** Polls for new log lines and returns each one once. */
import { setTimeout as pause } from 'node:timers/promises';

import type { LogPage, LogRow } from './logs.ts';

const ASK_EVERY_MS = 1000;

/**
 * Yields the lines after a cursor, until the signal is aborted. `read` returns the oldest lines after a cursor, or from the start of
 * the command while there is none.
 */
export async function* newLines(
  cursor: string | null,
  read: (cursor: string | null) => Promise<LogPage>,
  signal: AbortSignal,
  everyMs: number = ASK_EVERY_MS,
): AsyncGenerator<LogRow> {
  let at = cursor;
  while (!signal.aborted) {
    const page = await read(at);
    yield* page.lines;
    at = page.cursor ?? at;
    // An abort of the wait ends the command.
    await pause(everyMs, undefined, { signal }).catch(() => undefined);
  }
}
