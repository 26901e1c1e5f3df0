/** Starts foreign workers: admits each to the worker API and gives it the environment to reach the API. */
import { workerVariables } from '../../worker-api/environment.ts';
import type { WorkerApi } from '../../worker-api/server.ts';
import { markOf } from '../escaped.ts';
import { workerEnv } from '../hosted/worker-env.ts';
import { withBase } from '../node-options.ts';
import type { RunningWorker, WorkerEvents, WorkerStart } from '../runtime.ts';
import { expandedCommand } from '../command-line.ts';
import type { Launcher } from './launcher.ts';
import { ForeignWorker, type ForeignTimes } from './foreign-worker.ts';

/**
 * True for a release that brings its own program: an image or a command, and no functions for our bootstrap to call.
 */
export function isForeign({ functions, command }: Pick<WorkerStart, 'functions' | 'command'>): boolean {
  return functions.length === 0 || command.length > 0;
}

export interface ForeignWorkersOptions extends ForeignTimes {
  readonly api: WorkerApi;
  /** What the program inherits: nothing of the agent's own environment. */
  readonly baseEnv: Readonly<Record<string, string>>;
}

export class ForeignWorkers {
  readonly #options: ForeignWorkersOptions;
  #baseEnv: ForeignWorkersOptions['baseEnv'];
  /** Living workers, each with a promise of its end. */
  readonly #running = new Map<ForeignWorker, Promise<void>>();

  constructor(options: ForeignWorkersOptions) {
    this.#options = options;
    this.#baseEnv = options.baseEnv;
  }

  /** What programs that start from now on inherit. */
  setBaseEnv(baseEnv: Readonly<Record<string, string>>): void {
    this.#baseEnv = baseEnv;
  }

  /** Port of the API on this host's loopback address. */
  get apiPort(): number {
    return this.#options.api.port;
  }

  /**
   * Starts one. `base`: address of the API as the worker sees the network, `http://host:port`; default: the address on
   * this host.
   */
  start(spec: WorkerStart, events: WorkerEvents, launcher: Launcher, base = `http://127.0.0.1:${this.#options.api.port}`): RunningWorker {
    const baseEnv = this.#baseEnv;
    const { api, pingMs } = this.#options;
    const { workerId, endpointId, deviceUuids } = spec;
    const { promise, resolve } = Promise.withResolvers<void>();
    const worker = new ForeignWorker(events, this.#options, () => {
      admission.revoke();
      this.#running.delete(worker);
      resolve();
    });
    this.#running.set(worker, promise);
    const admission = api.admit(workerId, endpointId, worker, spec.reading?.share);
    const env = {
      PYTHONUNBUFFERED: '1',
      ...withBase(baseEnv, workerEnv(spec)),
      ...markOf(baseEnv),
      ...workerVariables(base, { workerId, endpointId, deviceUuids, token: admission.token, pingMs }),
    };
    worker.launch({ ...spec, command: expandedCommand(spec.command, env) }, env, launcher);
    return worker;
  }

  /** Kills the remaining workers; resolves when they are gone. */
  async close(): Promise<void> {
    const gone = [...this.#running.values()];
    for (const worker of this.#running.keys()) worker.end(true);
    await Promise.all(gone);
  }
}
