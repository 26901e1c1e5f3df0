/** The log thread as the agent's main thread sees it. It is started on first use and ends when it is idle. */
import { fileURLToPath } from 'node:url';

import type { Logger } from 'pino';
import { Piscina } from 'piscina';

import { CapstanError } from '../../lib/errors.ts';
import { messageOf } from '../../lib/to-error.ts';
import type { SearchReply } from './log-thread.ts';
import type { sealSegment, SearchResult, SearchTask } from './search.ts';
import type { SegmentIndex } from './segment-index.ts';

const IDLE_MS = 30_000;
/** Searches that wait for the thread; more are refused. */
const MOST_SEARCHES = 64;

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
  #searches = 0;

  constructor(log: Pick<Logger, 'warn'>) {
    this.#log = log;
  }

  /** Compresses a segment. Undefined for one without lines, and for one that cannot be compressed, which stays for the next start. */
  async seal(task: SegmentTask): Promise<ReturnType<typeof sealSegment>> {
    try {
      return (await this.#pool.run(task, { name: 'seal' })) as ReturnType<typeof sealSegment>;
    } catch (error) {
      this.#log.warn({ file: task.path, error: messageOf(error) }, 'compressing worker logs failed');
      return undefined;
    }
  }

  /** Reads the index of a compressed segment anew. Undefined for one that is damaged, which is logged. */
  async index(task: SegmentTask): Promise<SegmentIndex | undefined> {
    try {
      return (await this.#pool.run(task, { name: 'index' })) as SegmentIndex;
    } catch (error) {
      this.#log.warn({ file: task.path, error: messageOf(error) }, 'reading worker logs failed: the segment is damaged');
      return undefined;
    }
  }

  /** Rejects with INVALID_ARGUMENT for a pattern that is no RE2 expression, and with RATE_LIMITED beyond MOST_SEARCHES. */
  async search(task: SearchTask): Promise<SearchResult> {
    if (this.#searches >= MOST_SEARCHES)
      throw new CapstanError('RATE_LIMITED', `more than ${MOST_SEARCHES} log searches are waiting on this node`, { retryAfterMs: 1_000 });
    this.#searches += 1;
    try {
      const reply = (await this.#pool.run(task, { name: 'search' })) as SearchReply;
      if (reply.kind === 'refused') throw new CapstanError('INVALID_ARGUMENT', reply.message, { field: 'pattern' });
      return reply.result;
    } finally {
      this.#searches -= 1;
    }
  }

  async close(): Promise<void> {
    await this.#pool.close({ force: false });
  }
}
