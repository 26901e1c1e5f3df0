/**
 * graphile-worker, another queue on PostgreSQL, as the other side of a comparison: each task adds its successor, so that a cycle is an
 * insert, a claim and a completion, as in the closed loop of our store. It runs with what makes it fastest: a local queue, jobs added and
 * completed in batches. It removes completed jobs and keeps no output; our store keeps both.
 *
 * It is no dependency: whoever compares installs it in a folder (.ci/prepare does, into node_modules/.cache/graphile-worker).
 */
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

/** What is used of its interface. */
interface Library {
  run(options: { readonly preset: unknown; readonly taskList: Readonly<Record<string, () => Promise<void>>> }): Promise<Runner>;
  makeWorkerUtils(options: { readonly preset: unknown }): Promise<Utils>;
  readonly Logger: new (factory: () => () => void) => unknown;
}
interface Runner {
  stop(): Promise<void>;
}
interface Utils {
  addJobs(jobs: readonly { readonly identifier: string; readonly payload: unknown }[]): Promise<unknown>;
  release(): Promise<void>;
}

export interface Peer {
  /** Runs for so long; tasks stand still between two calls. */
  cyclesPerSecond(seconds: number): Promise<number>;
  close(): Promise<void>;
}

interface PeerOptions {
  /** Has node_modules with graphile-worker. */
  readonly folder: string;
  /** Of a database; it makes a schema of its own there. */
  readonly url: string;
  /** Jobs that wait throughout. */
  readonly depth: number;
  readonly inFlight: number;
}

const payload = { text: 'The quick brown fox jumps over the lazy dog. '.repeat(3) };
const jobsOf = (count: number): { readonly identifier: string; readonly payload: unknown }[] =>
  Array.from({ length: count }, () => ({ identifier: 'cycle', payload }));

export async function startGraphileWorker({ folder, url, depth, inFlight }: PeerOptions): Promise<Peer> {
  const library = createRequire(join(resolve(folder), 'package.json'))('graphile-worker') as Library;
  let isOpen = false;
  let opened = Promise.withResolvers<void>();
  let cycles = 0;
  let gathered: PromiseWithResolvers<void> | null = null;
  let count = 0;
  let isAdding = false;

  async function add(): Promise<void> {
    while (gathered !== null) {
      const batch = gathered;
      const jobs = jobsOf(count);
      gathered = null;
      count = 0;
      await utils.addJobs(jobs).then(() => batch.resolve(), batch.reject);
    }
    isAdding = false;
  }

  /** Group commit: the jobs that are added during one insert are inserted by the next. */
  function addOne(): Promise<void> {
    gathered ??= Promise.withResolvers();
    count++;
    const { promise } = gathered;
    if (!isAdding) {
      isAdding = true;
      setImmediate(() => void add());
    }
    return promise;
  }

  const preset = {
    worker: {
      connectionString: url,
      concurrentJobs: inFlight,
      maxPoolSize: 10,
      pollInterval: 50,
      localQueue: { size: inFlight * 2 },
      completeJobBatchDelay: 0,
      failJobBatchDelay: 0,
      logger: new library.Logger(() => () => undefined),
    },
  };
  const utils = await library.makeWorkerUtils({ preset });
  await utils.addJobs(jobsOf(depth + inFlight));
  const runner = await library.run({
    preset,
    taskList: {
      cycle: async () => {
        if (!isOpen) await opened.promise;
        await addOne();
        cycles++;
      },
    },
  });
  return {
    async cyclesPerSecond(seconds) {
      const [from, before] = [performance.now(), cycles];
      isOpen = true;
      opened.resolve();
      await pause(seconds * 1_000);
      const rate = Math.round(((cycles - before) * 1_000) / (performance.now() - from));
      opened = Promise.withResolvers();
      isOpen = false;
      // What it has begun is over before the next subject runs.
      await pause(200);
      return rate;
    },
    async close() {
      isOpen = true;
      opened.resolve();
      await runner.stop();
      await utils.release();
    },
  };
}
