/**
 * Requests for log lines that wait: a request without matching lines is answered once a worker prints one, so that callers follow a
 * log without polling. What is printed only causes another search, in the log thread, since a pattern may take long.
 */
import type { Logger } from 'pino';

import type { LogLine, LogsReply, LogsRequest } from '../../proto/gen/capstan/v1/nodes.ts';
import { answerLogs } from './answer.ts';
import { lineMatcher } from './filter.ts';
import type { LogStore } from './log-store.ts';

/** Longest wait, ms. */
const MAX_WAIT_MS = 30_000;
/** Requests that wait at once, fewer than searches may; a further one is answered immediately. */
const MAX_WAITS = 32;
/** From a line to the search, ms: lines are often printed together. */
const GATHER_MS = 50;
/** The same after a search that a line caused in vain, ms. */
const AGAIN_MS = 250;

interface Wait {
  readonly request: LogsRequest;
  /** Whether the search may find the line; the pattern is not tried. */
  readonly mayMatch: (line: LogLine) => boolean;
  /** Time of the last line that the searches so far have seen, and of the last one that was printed, µs. */
  seenUs: bigint;
  printedUs: bigint;
  /** As in the reply of the last search. */
  searchedUs: bigint | undefined;
  isSearching: boolean;
  /** A line was printed that no search has seen. */
  isDue: boolean;
  timer: NodeJS.Timeout | undefined;
  end: NodeJS.Timeout | undefined;
}

export class LogWaits {
  readonly #logs: LogStore;
  readonly #log: Pick<Logger, 'warn'>;
  readonly #send: (reply: LogsReply) => void;
  readonly #waits = new Map<number, Wait>();

  constructor(logs: LogStore, log: Pick<Logger, 'warn'>, send: (reply: LogsReply) => void) {
    this.#logs = logs;
    this.#log = log;
    this.#send = send;
  }

  /** Answers a request, now or later. Another request with the id of one that waits replaces it. */
  request(request: LogsRequest): void {
    this.#forget(request.requestId);
    const waitMs = Math.min(request.waitMs ?? 0, MAX_WAIT_MS);
    if (waitMs === 0 || this.#waits.size >= MAX_WAITS) {
      void answerLogs(this.#logs, request, this.#log).then((reply) => this.#send(reply));
      return;
    }
    const wait: Wait = {
      request,
      mayMatch: matcherOf(request),
      ...{ seenUs: 0n, printedUs: 0n, searchedUs: undefined, isSearching: false, isDue: true, timer: undefined },
      end: setTimeout(() => this.#answer(wait, { ...EMPTY, requestId: request.requestId, searchedUs: wait.searchedUs }), waitMs).unref(),
    };
    this.#waits.set(request.requestId, wait);
    void this.#search(wait, GATHER_MS);
  }

  lineAdded(line: LogLine): void {
    for (const wait of this.#waits.values()) {
      if (wait.request.endpointId !== line.endpointId) continue;
      // The clock was set back.
      if (line.atUs <= wait.printedUs) wait.seenUs = 0n;
      wait.printedUs = line.atUs;
      if (!wait.mayMatch(line)) continue;
      wait.isDue = true;
      if (!wait.isSearching) wait.timer ??= setTimeout(() => void this.#search(wait, AGAIN_MS), GATHER_MS).unref();
    }
  }

  /** The session has ended: nobody expects the answers. */
  forgetAll(): void {
    for (const id of [...this.#waits.keys()]) this.#forget(id);
  }

  async #search(wait: Wait, pauseMs: number): Promise<void> {
    wait.timer = undefined;
    wait.isDue = false;
    wait.isSearching = true;
    const { printedUs } = wait;
    const reply = await answerLogs(this.#logs, later(wait.request, wait.seenUs), this.#log);
    wait.isSearching = false;
    wait.seenUs = printedUs;
    wait.searchedUs = reply.searchedUs;
    if (reply.lines.length > 0 || reply.failed || reply.error !== '' || reply.stoppedAtUs > 0n) this.#answer(wait, reply);
    else if (wait.isDue && this.#isOpen(wait)) wait.timer = setTimeout(() => void this.#search(wait, AGAIN_MS), pauseMs).unref();
  }

  #answer(wait: Wait, reply: LogsReply): void {
    if (!this.#isOpen(wait)) return;
    this.#forget(wait.request.requestId);
    this.#send(reply);
  }

  #isOpen(wait: Wait): boolean {
    return this.#waits.get(wait.request.requestId) === wait;
  }

  #forget(id: number): void {
    const wait = this.#waits.get(id);
    this.#waits.delete(id);
    clearTimeout(wait?.timer);
    clearTimeout(wait?.end);
  }
}

const EMPTY: Omit<LogsReply, 'requestId'> = { lines: [], stoppedAtUs: 0n, error: '', failed: false, knowsWait: true };

function matcherOf({ workerId, filter }: LogsRequest): (line: LogLine) => boolean {
  const { jobId = '', releaseId = '', stream = '', level = '', contains = '' } = filter ?? {};
  return lineMatcher({ ...{ workerId, jobId, releaseId, stream, level, contains, pattern: '' }, after: undefined, before: undefined });
}

/** After every worker's id. */
const LAST_WORKER = '\u{10FFFF}';

/** The request without the lines that earlier searches have seen. */
function later(request: LogsRequest, seenUs: bigint): LogsRequest {
  if (request.filter === undefined || seenUs <= (request.filter.after?.atUs ?? 0n)) return request;
  return { ...request, filter: { ...request.filter, after: { atUs: seenUs, workerId: LAST_WORKER } } };
}
