/** The `thread` runtime: one host process per worker, with the user's handlers in a thread of it. */
import type { WorkerLauncher } from '../../sandbox/launcher.ts';
import { PlainLauncher } from '../../sandbox/plain-launcher.ts';
import { THREAD_HOST_READS } from '../bootstrap.ts';
import { HostPool } from '../hosted/host-pool.ts';
import { nodeCommand } from '../hosted/host-program.ts';
import { STOPPED_BY_HOST } from '../hosted/host-worker.ts';
import type { ProcessGpuViews } from '../hosted/process-gpu-views.ts';
import type { Runtime, RunningWorker, WorkerEvents, WorkerStart } from '../runtime.ts';

/** Read at process start by Node itself or by libraries it links. */
export const NODE_READS_AT_START = /^(NODE_|LD_|UV_|TZ$|LANG$|LC_|MALLOC_|OPENSSL_|SSL_)/;

export interface ThreadRuntimeOptions {
  /** Default: level `none`. */
  readonly launcher?: WorkerLauncher;
  readonly bootstrap: string;
  /** The environment of every host: nothing of the agent's own environment. */
  readonly baseEnv: Readonly<Record<string, string>>;
  /** Number of spare hosts. */
  readonly spares: number;
  /** Delay before the first of them start, ms. */
  readonly spareDelayMs?: number;
  /** More arguments of Node. */
  readonly nodeArgs?: readonly string[];
  /** As in HostPoolOptions. */
  readonly sharesDevices?: boolean;
  /** Absent: workers see the devices as the agent does. */
  readonly gpus?: ProcessGpuViews;
}

export class ThreadRuntime implements Runtime {
  readonly name = 'thread';
  readonly #pool: HostPool;
  readonly #gpus: ProcessGpuViews | undefined;

  constructor(options: ThreadRuntimeOptions) {
    const { launcher = new PlainLauncher(), bootstrap, baseEnv, spares, spareDelayMs = 0, nodeArgs = [], sharesDevices = false } = options;
    this.#gpus = options.gpus;
    const { command, args, reads } = nodeCommand(bootstrap, 'thread/host/main.js');
    this.#pool = new HostPool({
      launcher,
      program: { command, args: [...nodeArgs, ...args], lifeline: false, reads: [...reads, ...THREAD_HOST_READS] },
      baseEnv,
      readAtStart: NODE_READS_AT_START,
      spares,
      spareDelayMs,
      stopTimes: STOPPED_BY_HOST,
      sharesDevices,
      gpus: this.#gpus,
    });
  }

  start(spec: WorkerStart, events: WorkerEvents): RunningWorker {
    return this.#pool.start(spec, events);
  }

  setBaseEnv(baseEnv: Readonly<Record<string, string>>): void {
    this.#pool.setBaseEnv(baseEnv);
  }

  gpuProblem(workerId: string): Promise<string | undefined> {
    return this.#gpus?.problemOf(workerId) ?? Promise.resolve(undefined);
  }

  close(): Promise<void> {
    return this.#pool.close();
  }
}
