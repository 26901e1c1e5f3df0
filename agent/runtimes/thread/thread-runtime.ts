/**
 * The `thread` runtime: one host process per worker, the user's handlers in a thread of it, with
 * spare hosts started ahead so that a cold start is no more than loading the module.
 */
import type { Runtime, RunningWorker, WorkerEvents, WorkerStart } from '../runtime.ts';
import { HostProcess } from './host-process.ts';
import { ThreadWorker } from './worker.ts';

/** Read by the process itself, or by libraries, before any code of ours could set them: such a host starts fresh. */
const READ_AT_START = /^(NODE_|LD_|UV_|TZ$|LANG$|LC_|MALLOC_|OPENSSL_|SSL_)/;

const REFILL_DELAY_MS = 250;

export interface ThreadRuntimeOptions {
  /** The environment of every host: nothing of the agent's own. */
  readonly baseEnv: Readonly<Record<string, string>>;
  /** Hosts kept started ahead. */
  readonly spares: number;
}

export class ThreadRuntime implements Runtime {
  readonly name = 'thread';
  readonly #options: ThreadRuntimeOptions;
  readonly #spares: HostProcess[] = [];
  readonly #hosts = new Set<HostProcess>();
  #closed = false;

  constructor(options: ThreadRuntimeOptions) {
    this.#options = options;
    this.#refill();
  }

  start(spec: WorkerStart, events: WorkerEvents): RunningWorker {
    const [fn] = spec.functions;
    const env = workerEnv(spec);
    const spare = Object.keys(spec.env).some((name) => READ_AT_START.test(name)) ? undefined : this.#takeSpare();
    const host = spare ?? this.#spawn({ ...this.#options.baseEnv, ...env });
    // A spare is replaced once this worker's first job has had the processor.
    const refill = (): void => {
      setTimeout(() => this.#refill(), REFILL_DELAY_MS).unref();
    };
    const watched: WorkerEvents = {
      ...bound(events),
      loaded() {
        events.loaded();
        refill();
      },
      exited(detail, hardStop) {
        events.exited(detail, hardStop);
        refill();
      },
    };
    if (fn === undefined) {
      host.kill();
      process.nextTick(() => events.exited('the release names no function', false));
      return { run() {}, cancel() {}, credit() {}, end() {} };
    }
    return new ThreadWorker(host, spec, fn, env, watched);
  }

  async close(): Promise<void> {
    this.#closed = true;
    const hosts = [...this.#hosts];
    for (const host of hosts) host.kill();
    await Promise.all(hosts.map((host) => host.exited));
  }

  #takeSpare(): HostProcess | undefined {
    for (;;) {
      const spare = this.#spares.shift();
      if (spare === undefined || !spare.gone) return spare;
    }
  }

  #refill(): void {
    while (!this.#closed && this.#spares.length < this.#options.spares) {
      this.#spares.push(this.#spawn({ ...this.#options.baseEnv, CUDA_VISIBLE_DEVICES: '' }));
    }
  }

  #spawn(env: Readonly<Record<string, string>>): HostProcess {
    const host = new HostProcess(env);
    this.#hosts.add(host);
    void host.exited.then(() => this.#hosts.delete(host));
    return host;
  }
}

/** What the user's code finds in its environment. */
function workerEnv(spec: WorkerStart): Record<string, string> {
  return {
    ...spec.env,
    CAPSTAN_ENDPOINT_ID: spec.endpointId,
    CAPSTAN_WORKER_ID: spec.workerId,
    CUDA_VISIBLE_DEVICES: spec.deviceUuids.join(','),
  };
}

function bound(events: WorkerEvents): WorkerEvents {
  return {
    started: () => events.started(),
    loaded: () => events.loaded(),
    loadFailed: (detail) => events.loadFailed(detail),
    entered: (key) => events.entered(key),
    chunk: (key, data) => events.chunk(key, data),
    progress: (key, data) => events.progress(key, data),
    ended: (key, result) => events.ended(key, result),
    reloading: () => events.reloading(),
    log: (entry) => events.log(entry),
    exited: (detail, hardStop) => events.exited(detail, hardStop),
  };
}
