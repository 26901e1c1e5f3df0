/** Reads log lines and then waits for more at the gateway, for as long as the page is visible. */
import { SEARCH_LOGS, type LogFilter, type LogPage, type SearchLogsVariables } from '../api/graphql/gen/operations.ts';
import { ApiError, graphql } from '../api/request.ts';
import { runWaiting } from '../api/waiting.ts';
import type { LogLine } from './log-lines.tsx';

export type { LogFilter, LogPage };

/** Lines of the first page. */
const FIRST_LINES = 300;
/** Lines of a page while following. */
const NEW_LINES = 1_000;
/** Longest wait of the gateway, ms. */
const WAIT_MS = 5_000;
/** Pause after lines: they are shown at most four times a second, ms. */
const PAUSE_MS = 250;
/** Interval of a reader for which nobody waits, and pause after a failure, ms. */
const POLL_MS = 3_000;
/** A wait that ended before this was none: nobody holds the search, ms. */
const SHORTEST_WAIT_MS = 1_000;

async function read(
  endpoint: string,
  filter: LogFilter,
  more: Omit<SearchLogsVariables, 'endpoint' | 'filter'>,
  signal: AbortSignal,
): Promise<LogPage> {
  return (await graphql(SEARCH_LOGS, { endpoint, filter, ...more }, signal)).searchLogs;
}

const CONTEXT_LINES = 100;

/** The lines of a worker around a time, oldest first. @throws ApiError for what the gateway refuses. */
export async function linesAround(endpoint: string, worker: string, at: string, signal: AbortSignal): Promise<readonly LogLine[]> {
  const ms = Date.parse(at);
  const [before, after] = await Promise.all([
    read(endpoint, { worker, untilMs: ms + 1 }, { limit: CONTEXT_LINES }, signal),
    read(endpoint, { worker, sinceMs: ms + 1, oldestFirst: true }, { limit: CONTEXT_LINES }, signal),
  ]);
  return [...before.lines, ...after.lines];
}

/** The newest lines since a time; undefined after the signal. @throws ApiError for what the gateway refuses. */
export async function firstLines(sinceMs: number, { endpoint, filter, signal, onFailure }: Reading): Promise<LogPage | undefined> {
  while (!signal.aborted) {
    try {
      return await read(endpoint, { ...filter, sinceMs }, { limit: FIRST_LINES }, signal);
    } catch (thrown) {
      if (signal.aborted) return undefined;
      if (isRefusal(thrown)) throw thrown;
      onFailure(toError(thrown));
      await pause(POLL_MS, signal);
    }
  }
  return undefined;
}

export interface Reading {
  readonly endpoint: string;
  readonly filter: LogFilter;
  /** Ends it. */
  readonly signal: AbortSignal;
  /** What failed is tried again. */
  readonly onFailure: (error: Error) => void;
}

export interface Following extends Reading {
  readonly onPage: (page: LogPage) => void;
}

/** Passes on what is printed behind a cursor, until the signal ends it. @throws ApiError for what the gateway refuses. */
export async function followLines(begin: string, { endpoint, filter, signal, onPage, onFailure }: Following): Promise<void> {
  const later = { ...filter, oldestFirst: true };
  let cursor = begin;
  while (!signal.aborted) {
    let pauseMs = POLL_MS;
    try {
      const begun = performance.now();
      const [page, hasWaited] = await runWaiting(async (mayWait) => {
        const found = await read(endpoint, later, { limit: NEW_LINES, cursor, waitMs: mayWait ? WAIT_MS : 0 }, signal);
        return [found, mayWait] as const;
      });
      if (signal.aborted) return;
      cursor = page.end;
      onPage(page);
      if (page.lines.length > 0 || page.incomplete) pauseMs = PAUSE_MS;
      else if (hasWaited) pauseMs = Math.max(0, SHORTEST_WAIT_MS - (performance.now() - begun));
    } catch (thrown) {
      if (signal.aborted) return;
      if (isRefusal(thrown)) throw thrown;
      onFailure(toError(thrown));
    }
    await pause(pauseMs, signal);
  }
}

/** Whether another try would end alike. */
function isRefusal(thrown: unknown): boolean {
  return thrown instanceof ApiError && thrown.status >= 400 && thrown.status < 500 && thrown.status !== 429;
}

export function toError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((wake) => {
    const timer = setTimeout(wake, ms);
    signal.addEventListener(
      'abort',
      () => {
        clearTimeout(timer);
        wake();
      },
      { once: true },
    );
  });
}
