/**
 * Worker output on disk, searchable: a folder of segments for each endpoint. Three bounds: bytes and age for each endpoint, and bytes
 * for all endpoints of an account, so that one account's output takes no space from another's. The oldest segments are removed
 * first. The file `account` in a folder stores whose endpoint it is, also of endpoints that no longer run here.
 */
import { readdir, readFile, rm, rmdir, stat } from 'node:fs/promises';
import { join } from 'node:path';

import type { Logger } from 'pino';

import { makeFolder, replaceDurably } from '../../lib/durable.ts';
import { isErrno, messageOf } from '../../lib/to-error.ts';
import type { LogLine } from '../../proto/gen/capstan/v1/nodes.ts';
import type { TraceContext } from './forwarding/log-record.ts';
import { encodeLine, parseText } from './line.ts';
import type { LogFilter } from './filter.ts';
import { LogTasks } from './log-tasks.ts';
import type { SearchResult } from './search.ts';
import { Segments, unlessMissing } from './segments.ts';

const ACCOUNT = 'account';
/** Smaller segments would be sealed with nearly every line, bytes. */
const LEAST_SEGMENT_BYTES = 1_000;
/** Text of an endpoint that waits for the disk, characters; beyond it lines are dropped, and a line counts them. */
const MAX_WAITING = 8_000_000;
/** The same of all endpoints. */
const MAX_WAITING_IN_ALL = 64_000_000;
/** A clock set back by less than this does not start a new segment: the lines are numbered on, µs. */
const CLOCK_TOLERANCE_US = 1_000_000;
const RETENTION_EVERY_MS = 3_600_000;
const RETRY_MS = 1_000;
/** Most time and bytes of one search. */
const SEARCH_BUDGET = { ms: 2_000, bytes: 256 * 1024 * 1024 };

export interface LogStoreOptions {
  readonly folder: string;
  /** Size at which a segment is closed, bytes. */
  readonly segmentBytes: number;
  /** Disk space for the lines of an endpoint, bytes. */
  readonly endpointBytes: number;
  /** Disk space for the lines of all endpoints of an account, bytes. */
  readonly accountBytes: number;
  /** How long lines are kept, ms. */
  readonly keptMs: number;
  /** The account of an endpoint; empty when unknown. */
  readonly accountOf: (endpointId: string) => string;
  readonly log: Pick<Logger, 'warn'>;
  /** Receives every line with the trace context that it was printed in, if there is one; for forwarding. */
  readonly onLine?: ((line: LogLine, trace: TraceContext | undefined) => void) | undefined;
  /** Wall clock, ms. */
  readonly now?: () => number;
}

/** A line as a worker printed it. */
export interface PrintedLine {
  readonly endpointId: string;
  readonly workerId: string;
  readonly releaseId: string;
  readonly jobId: string;
  readonly attempt: number;
  readonly stream: 'stdout' | 'stderr' | 'system';
  readonly text: string;
  readonly trace?: TraceContext;
}

interface EndpointLog {
  readonly id: string;
  readonly folder: string;
  readonly segments: Segments;
  account: string;
  scanned: Promise<void> | undefined;
  /** Encoded lines that are not on disk, and the times of the first and the last of them, µs. */
  waiting: string;
  firstUs: number;
  lastUs: number;
  dropped: number;
  writing: Promise<void> | undefined;
}

export class LogStore {
  readonly #options: LogStoreOptions;
  readonly #segmentBytes: number;
  readonly #tasks: LogTasks;
  readonly #endpoints = new Map<string, EndpointLog>();
  readonly #now: () => number;
  #waiting = 0;
  #failing = false;
  #closed = false;
  #retention: NodeJS.Timeout | undefined;
  #trimming: Promise<void> = Promise.resolve();

  constructor(options: LogStoreOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    const { segmentBytes, endpointBytes, accountBytes } = options;
    // The bounds must hold several segments: the open one is never removed.
    this.#segmentBytes = Math.max(LEAST_SEGMENT_BYTES, Math.min(segmentBytes, Math.floor(Math.min(endpointBytes, accountBytes) / 4)));
    this.#tasks = new LogTasks(options.log);
  }

  /** Finds the lines of earlier agents and starts the retention. */
  async open(): Promise<this> {
    for (const entry of await readdir(this.#options.folder, { withFileTypes: true }).catch(unlessMissing([]))) {
      if (entry.isDirectory()) {
        const log = this.#endpointLog(entry.name);
        await this.#scan(log);
      } else await this.#removeFormer(entry.name);
    }
    await this.#trim();
    this.#retention = setInterval(() => this.#trimLater(), RETENTION_EVERY_MS).unref();
    return this;
  }

  add({ trace, ...printed }: PrintedLine): void {
    const log = this.#endpointLog(folderName(printed.endpointId));
    const { text, level, fields } = parseText(printed.text);
    const us = this.#timeOf(log);
    const line: LogLine = { ...printed, text, level, fields, atUs: BigInt(us), atMs: BigInt(Math.trunc(us / 1_000)) };
    this.#options.onLine?.(line, trace);
    if (log.waiting.length > MAX_WAITING || this.#waiting > MAX_WAITING_IN_ALL) {
      log.dropped += 1;
      return;
    }
    this.#enqueue(log, us, encodeLine(line));
  }

  /** Returns matching lines of an endpoint, the newest or the oldest ones. Rejects with INVALID_ARGUMENT for a bad pattern. */
  async search(
    endpointId: string,
    filter: LogFilter,
    options: { readonly limit: number; readonly oldestFirst: boolean },
  ): Promise<SearchResult> {
    const log = this.#endpointLog(folderName(endpointId));
    await this.#scan(log);
    // Lines that arrive during the write belong to the next search.
    await log.writing;
    return this.#tasks.search(log.account === '' ? this.#options.accountOf(log.id) : log.account, {
      endpointId,
      segments: log.segments.files(),
      unwritten: log.waiting,
      filter,
      ...options,
      budget: SEARCH_BUDGET,
    });
  }

  /** Bytes on disk of an account's lines. */
  bytesOf(account: string): number {
    return [...this.#endpoints.values()].filter((log) => log.account === account).reduce((sum, { segments }) => sum + segments.bytes, 0);
  }

  /** Resolves when all lines are on disk. */
  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#retention);
    for (const { writing } of this.#endpoints.values()) await writing;
    await this.#trimming;
    await Promise.all([...this.#endpoints.values()].map(({ segments }) => segments.settled()));
    await this.#tasks.close();
  }

  #endpointLog(id: string): EndpointLog {
    const known = this.#endpoints.get(id);
    if (known !== undefined) return known;
    const folder = join(this.#options.folder, id);
    const segments = new Segments(folder, id, this.#segmentBytes, this.#tasks);
    const log: EndpointLog = {
      ...{ id, folder, segments, account: '', scanned: undefined, waiting: '' },
      ...{ firstUs: 0, lastUs: 0, dropped: 0, writing: undefined },
    };
    this.#endpoints.set(id, log);
    return log;
  }

  /** Finds the lines of earlier agents, once. What cannot be read is logged; new lines are stored all the same. */
  #scan(log: EndpointLog): Promise<void> {
    log.scanned ??= (async () => {
      try {
        await log.segments.scan();
        log.account = (await readFile(join(log.folder, ACCOUNT), 'utf8').catch(unlessMissing(''))).trim();
      } catch (error) {
        this.#options.log.warn({ folder: log.folder, error: messageOf(error) }, 'reading earlier worker logs failed');
      }
    })();
    return log.scanned;
  }

  /** A time that no other line of the endpoint has, µs. */
  #timeOf(log: EndpointLog): number {
    const now = Math.trunc(this.#now() * 1_000);
    const last = Math.max(log.lastUs, log.segments.lastUs);
    return now > last || now < last - CLOCK_TOLERANCE_US ? now : last + 1;
  }

  #enqueue(log: EndpointLog, us: number, text: string): void {
    if (log.waiting === '') log.firstUs = us;
    log.firstUs = Math.min(log.firstUs, us);
    log.lastUs = us;
    log.waiting += text;
    this.#waiting += text.length;
    log.writing ??= this.#drain(log).finally(() => {
      log.writing = undefined;
    });
  }

  async #drain(log: EndpointLog): Promise<void> {
    // The lines of one turn, or those that arrived during the previous write, are one write.
    await new Promise((resolve) => setImmediate(resolve));
    await this.#scan(log);
    while (log.waiting !== '') {
      if (log.dropped > 0) this.#tellDropped(log);
      const { waiting, firstUs, lastUs } = log;
      log.waiting = '';
      try {
        await this.#noteAccount(log);
        await log.segments.append(waiting, firstUs, lastUs);
        this.#waiting -= waiting.length;
        this.#failing = false;
      } catch (error) {
        log.waiting = waiting + log.waiting;
        log.firstUs = firstUs;
        // One line reports the failing disk; searches find the waiting lines.
        if (!this.#failing) this.#options.log.warn({ error: messageOf(error) }, 'writing worker logs failed');
        this.#failing = true;
        if (this.#closed) return;
        setTimeout(() => {
          log.writing ??= this.#drain(log).finally(() => {
            log.writing = undefined;
          });
        }, RETRY_MS).unref();
        return;
      }
      if (this.#isOver(log)) this.#trimLater();
    }
  }

  #tellDropped(log: EndpointLog): void {
    const us = this.#timeOf(log);
    const text = `(${log.dropped} lines are missing: the disk was too slow)`;
    const line: LogLine = {
      ...{ atUs: BigInt(us), atMs: BigInt(Math.trunc(us / 1_000)), workerId: '', releaseId: '', jobId: '', attempt: 0 },
      ...{ stream: 'system', level: 'warn', text, fields: '', endpointId: log.id },
    };
    log.dropped = 0;
    log.lastUs = us;
    const encoded = encodeLine(line);
    log.waiting += encoded;
    this.#waiting += encoded.length;
  }

  async #noteAccount(log: EndpointLog): Promise<void> {
    const account = this.#options.accountOf(log.id);
    if (account === '' || account === log.account) return;
    await makeFolder(log.folder, 0o700);
    await replaceDurably(join(log.folder, ACCOUNT), `${account}\n`);
    log.account = account;
  }

  #isOver({ segments, account }: EndpointLog): boolean {
    return segments.bytes > this.#options.endpointBytes || this.bytesOf(account) > this.#options.accountBytes;
  }

  #trimLater(): void {
    this.#trimming = this.#trimming
      .then(() => this.#trim())
      .catch((error: unknown) => this.#options.log.warn({ error: messageOf(error) }, 'removing old worker logs failed'));
  }

  /** Removes the oldest segments beyond the bounds. */
  async #trim(): Promise<void> {
    const { endpointBytes, accountBytes, keptMs } = this.#options;
    const oldestUs = (this.#now() - keptMs) * 1_000;
    const accounts = new Map<string, EndpointLog[]>();
    for (const log of this.#endpoints.values()) {
      accounts.set(log.account, [...(accounts.get(log.account) ?? []), log]);
      while (log.segments.bytes > endpointBytes || (log.segments.oldestUs ?? Infinity) < oldestUs) {
        if (log.segments.lastUs < oldestUs) log.segments.rotate();
        await log.segments.settled();
        if ((await log.segments.removeOldest()) === 0) break;
      }
    }
    for (const [account, logs] of accounts) {
      while (this.bytesOf(account) > accountBytes) {
        const oldest = logs.toSorted((a, b) => (a.segments.oldestUs ?? Infinity) - (b.segments.oldestUs ?? Infinity));
        let freed = 0;
        for (const { segments } of oldest) {
          await segments.settled();
          freed = await segments.removeOldest();
          if (freed > 0) break;
        }
        if (freed > 0) continue;
        // Only open segments are left: many endpoints that print little.
        const largest = logs.toSorted((a, b) => b.segments.bytes - a.segments.bytes)[0];
        if (largest === undefined || largest.segments.bytes === 0) break;
        largest.segments.rotate();
      }
    }
    for (const log of this.#endpoints.values()) if (log.segments.bytes === 0) await this.#forget(log);
  }

  /** An endpoint without lines has no folder. */
  async #forget(log: EndpointLog): Promise<void> {
    if (log.waiting !== '' || log.writing !== undefined) return;
    this.#endpoints.delete(log.id);
    await rm(join(log.folder, ACCOUNT), { force: true });
    // Not empty: a line has arrived meanwhile, or a damaged segment is there.
    await rmdir(log.folder).catch((error: unknown) => {
      if (!isErrno(error, 'ENOENT', 'ENOTEMPTY')) throw error;
    });
  }

  /** Log files of version 0.2 and before: `<endpoint>.log`, `.log.1` and `accounts.json`. */
  async #removeFormer(name: string): Promise<void> {
    if (!/\.log(\.1)?$|^accounts\.json$/.test(name)) return;
    const path = join(this.#options.folder, name);
    if ((await stat(path)).mtimeMs < this.#now() - this.#options.keptMs) await rm(path, { force: true });
  }
}

/** Endpoint ids have a plain form; any other string must not become a path. */
function folderName(endpointId: string): string {
  return endpointId.replaceAll(/[^A-Za-z0-9_-]/g, '_').slice(0, 100) || 'none';
}
