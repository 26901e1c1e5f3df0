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
    if (fn === undefined) return notStarted(events, 'the release names no function');
    const env = workerEnv(spec);
    let host: HostProcess;
    try {
      const spare = Object.keys(spec.env).some((name) => READ_AT_START.test(name)) ? undefined : this.#takeSpare();
      host = spare ?? this.#spawn({ ...this.#options.baseEnv, ...env });
    } catch (error) {
      // The kernel's refusals that Node throws instead of telling later: no memory, too long an environment.
      return notStarted(events, `the worker's process could not be started: ${error instanceof Error ? error.message : String(error)}`);
    }
    return new ThreadWorker(host, spec, fn, env, events, () => this.#refillLater());
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

  /** A spare is replaced once the worker that took it has had the processor for its first job. */
  #refillLater(): void {
    setTimeout(() => this.#refill(), REFILL_DELAY_MS).unref();
  }

  #refill(): void {
    try {
      while (!this.#closed && this.#spares.length < this.#options.spares) {
        this.#spares.push(this.#spawn({ ...this.#options.baseEnv, CUDA_VISIBLE_DEVICES: '' }));
      }
    } catch {
      // A host without room for a spare has none; the next worker's own start tells why it fails.
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

/** A worker that came to nothing. */
function notStarted(events: WorkerEvents, detail: string): RunningWorker {
  process.nextTick(() => events.exited(detail, false));
  return { run() {}, cancel() {}, credit() {}, end() {} };
}
