/** Polls for new log lines and returns each one once. */
import { setTimeout as pause } from 'node:timers/promises';

import type { LogRow } from './control.ts';

const ASK_EVERY_MS = 1000;

/**
 * Yields the lines after those given, until the signal is aborted. `read` returns lines after a time, ms since 1970.
 */
export async function* newLines(
  given: readonly LogRow[],
  read: (afterMs: number) => Promise<readonly LogRow[]>,
  signal: AbortSignal,
  everyMs: number = ASK_EVERY_MS,
): AsyncGenerator<LogRow> {
  let last = timeOf(given.at(-1));
  // The lines of the last millisecond that are known: more may follow.
  let known = given.filter((line) => timeOf(line) === last).map(keyOf);
  while (!signal.aborted) {
    for (const line of await read(last - 1)) {
      const at = known.indexOf(keyOf(line));
      if (at !== -1 && timeOf(line) === last) continue;
      if (timeOf(line) > last) known = [];
      last = Math.max(last, timeOf(line));
      known.push(keyOf(line));
      yield line;
    }
    // An abort of the wait ends the command.
    await pause(everyMs, undefined, { signal }).catch(() => undefined);
  }
}

function timeOf(line: LogRow | undefined): number {
  return line === undefined ? 0 : Date.parse(line.at);
}

function keyOf({ at, worker, stream, text }: LogRow): string {
  return `${at} ${worker} ${stream} ${text}`;
}
