/**
 * The `process` runtime: one process per worker with the handlers in its main thread, in Node or
 * in Python, whichever the function's module is written in.
 */
import { fileURLToPath } from 'node:url';

import { HostPool } from '../hosted/host-pool.ts';
import { nodeCommand } from '../hosted/host-program.ts';
import { STOPPED_BY_AGENT } from '../hosted/host-worker.ts';
import type { Runtime, RunningWorker, WorkerEvents, WorkerStart } from '../runtime.ts';
import { NODE_READS_AT_START } from '../thread/thread-runtime.ts';
import { languageOf, type Language } from './language.ts';

/** Read by Python itself, or by libraries it links, when the process starts. */
const PYTHON_READS_AT_START = /^(PYTHON|LD_|TZ$|LANG$|LC_|MALLOC_|OPENSSL_|SSL_)/;

const NODE_MAIN = fileURLToPath(new URL('node/main.ts', import.meta.url));
const PYTHON_MAIN = fileURLToPath(new URL('python/start.py', import.meta.url));

export interface ProcessRuntimeOptions {
  /** The environment of every host: nothing of the agent's own. */
  readonly baseEnv: Readonly<Record<string, string>>;
  /** Hosts of each language kept started ahead. */
  readonly spares: Readonly<Record<Language, number>>;
  /** The first of them start after this time, ms. */
  readonly spareDelayMs?: number;
  /** Python 3.8 or newer: a name on the path or a path. */
  readonly python: string;
}

export class ProcessRuntime implements Runtime {
  readonly name = 'process';
  readonly #pools: Readonly<Record<Language, HostPool>>;

  constructor({ baseEnv, spares, spareDelayMs = 0, python }: ProcessRuntimeOptions) {
    const common = { spareDelayMs, stopTimes: STOPPED_BY_AGENT };
    this.#pools = {
      node: new HostPool({
        ...common,
        program: { ...nodeCommand(NODE_MAIN), lifeline: true, groupMemory: true },
        baseEnv,
        readAtStart: NODE_READS_AT_START,
        spares: spares.node,
      }),
      python: new HostPool({
        ...common,
        program: { command: python, args: [PYTHON_MAIN], lifeline: true, groupMemory: true },
        baseEnv: { ...baseEnv, PYTHONUNBUFFERED: '1' },
        readAtStart: PYTHON_READS_AT_START,
        spares: spares.python,
      }),
    };
  }

  start(spec: WorkerStart, events: WorkerEvents): RunningWorker {
    return this.#pools[languageOf(spec.folder, spec.functions[0]?.module ?? '')].start(spec, events);
  }

  async close(): Promise<void> {
    await Promise.all(Object.values(this.#pools).map((pool) => pool.close()));
  }
}
