/** The log thread as the agent's main thread sees it. It is started on first use and ends when it is idle. */
import { fileURLToPath } from 'node:url';

import type { Logger } from 'pino';
import { Piscina } from 'piscina';

import { CapstanError } from '../../lib/errors.ts';
import { FairQueue } from '../../lib/fair-queue.ts';
import { messageOf, toError } from '../../lib/to-error.ts';
import type { SearchReply } from './log-thread.ts';
import type { SealedSize } from './seal.ts';
import type { SearchResult, SearchTask } from './search.ts';
import type { SegmentIndex } from './segment-index.ts';

const IDLE_MS = 30_000;
/** Searches that have not ended, of all accounts and of one; more are refused. */
const MAX_SEARCHES = 256;
const MAX_SEARCHES_OF_ACCOUNT = 32;

interface Search {
  readonly number: number;
  readonly account: string;
  /** Undefined once it has begun: the thread keeps it. */
  readonly task: SearchTask | undefined;
  readonly resolve: (result: SearchResult) => void;
  readonly reject: (error: Error) => void;
}

interface SegmentTask {
  readonly path: string;
  readonly endpointId: string;
}

export class LogTasks {
  readonly #pool = new Piscina({
    filename: fileURLToPath(new URL('./log-thread.ts', import.meta.url)),
    minThreads: 0,
    maxThreads: 1,
    idleTimeout: IDLE_MS,
    concurrentTasksPerWorker: 1,
  });
  readonly #log: Pick<Logger, 'warn'>;
  readonly #waiting = new FairQueue<Search>();
  #searches = 0;
  #nextNumber = 0;
  #isSearching = false;
  #isClosed = false;
  readonly #reported = new Set<string>();

  constructor(log: Pick<Logger, 'warn'>) {
    this.#log = log;
  }

  /** Compresses a segment. Undefined for one without lines; `failed` for one that cannot be compressed, which stays for the next start. */
  async seal(task: SegmentTask): Promise<SealedSize | 'failed' | undefined> {
    try {
      return (await this.#pool.run(task, { name: 'seal' })) as SealedSize | undefined;
    } catch (error) {
      this.#log.warn({ file: task.path, error: messageOf(error) }, 'compressing worker logs failed');
      return 'failed';
    }
  }

  /** Reads the index of a compressed segment anew. Undefined for one that is damaged, which is logged. */
  async index(task: SegmentTask): Promise<SegmentIndex | undefined> {
    try {
      return (await this.#pool.run(task, { name: 'index' })) as SegmentIndex;
    } catch (error) {
      this.reportDamage(task.path, messageOf(error));
      return undefined;
    }
  }

  /**
   * Searches for an account. Accounts have the thread in rotation, a slice of time each, and of one account a search begins when the
   * one before has ended: a search waits for those of its own account, and for the slices of the others.
   * Rejects with INVALID_ARGUMENT for a pattern that is no RE2 expression, and with RATE_LIMITED when too many wait.
   */
  search(account: string, task: SearchTask): Promise<SearchResult> {
    const [waiting, most] = [this.#waiting.sizeOf(account), MAX_SEARCHES_OF_ACCOUNT];
    if (waiting >= most || this.#searches >= MAX_SEARCHES) {
      const why = waiting >= most ? `${most} log searches of the account` : `${MAX_SEARCHES} log searches`;
      return Promise.reject(new CapstanError('RATE_LIMITED', `more than ${why} are waiting on this node`, { retryAfterMs: 1_000 }));
    }
    this.#searches += 1;
    return new Promise<SearchResult>((resolve, reject) => {
      this.#waiting.push(account, { number: this.#nextNumber++, account, task, resolve, reject });
      void this.#runNext();
    }).finally(() => {
      this.#searches -= 1;
    });
  }

  /** Gives the thread to the next account for one slice. */
  async #runNext(): Promise<void> {
    if (this.#isSearching) return;
    const search = this.#waiting.shift();
    if (search === undefined) return;
    const { number, account, task, resolve, reject } = search;
    if (this.#isClosed) {
      reject(new CapstanError('UNAVAILABLE', 'the agent is closing'));
      void this.#runNext();
      return;
    }
    this.#isSearching = true;
    try {
      const reply = (await this.#pool.run({ number, task }, { name: 'search' })) as SearchReply;
      if (reply.kind === 'found') {
        for (const { path, reason } of reply.result.damaged) this.reportDamage(path, reason);
        resolve(reply.result);
      } else if (reply.kind === 'refused') reject(new CapstanError('INVALID_ARGUMENT', reply.message, { field: 'pattern' }));
      else this.#waiting.pushFirst(account, { ...search, task: undefined });
    } catch (error) {
      reject(toError(error));
    }
    this.#isSearching = false;
    void this.#runNext();
  }

  /** Logs it once for each file. */
  reportDamage(path: string, reason: string): void {
    if (this.#reported.has(path)) return;
    this.#reported.add(path);
    this.#log.warn({ file: path, error: reason }, 'reading worker logs failed: the segment is damaged');
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#pool.close({ force: false });
  }
}
