/** Host processes of one program, some of them started ahead so that a cold start only loads the module. */
import { messageOf } from '../../../lib/to-error.ts';
import type { Assignment, WorkerLauncher } from '../../sandbox/launcher.ts';
import { markOf } from '../escaped.ts';
import { withBase } from '../node-options.ts';
import type { RunningWorker, WorkerEvents, WorkerStart } from '../runtime.ts';
import { HostProcess } from './host-process.ts';
import type { HostProgram } from './host-program.ts';
import { HostWorker, type StopTimes } from './host-worker.ts';
import type { ProcessGpuViews } from './process-gpu-views.ts';
import { workerEnv } from './worker-env.ts';

const REFILL_DELAY_MS = 250;

export interface HostPoolOptions {
  readonly launcher: WorkerLauncher;
  readonly program: HostProgram;
  /** The environment of every host: nothing of the agent's own environment. */
  readonly baseEnv: Readonly<Record<string, string>>;
  /**
   * Names that the process or its libraries read before our code could set them: a release that sets one gets a fresh
   * host.
   */
  readonly readAtStart: RegExp;
  /** Number of spare hosts. */
  readonly spares: number;
  /** Delay before the first spares start, ms. */
  readonly spareDelayMs: number;
  readonly stopTimes: StopTimes;
  /** Workers see the GPUs that this process sees, instead of their assigned ones. */
  readonly sharesDevices?: boolean;
  /** Learns of each worker with GPUs. */
  readonly gpus?: ProcessGpuViews | undefined;
}

export class HostPool {
  readonly #options: HostPoolOptions;
  #baseEnv: HostPoolOptions['baseEnv'];
  readonly #spares: HostProcess[] = [];
  readonly #hosts = new Set<HostProcess>();
  #closed = false;

  constructor(options: HostPoolOptions) {
    this.#options = options;
    this.#baseEnv = options.baseEnv;
    if (options.spareDelayMs === 0) this.#refill();
    else this.#refillLater(options.spareDelayMs);
  }

  /** As Runtime.start. */
  start(spec: WorkerStart, events: WorkerEvents): RunningWorker {
    const [fn] = spec.functions;
    if (fn === undefined) return notStarted(events, 'the release has no function');
    const baseEnv = this.#baseEnv;
    const { readAtStart, stopTimes, sharesDevices } = this.#options;
    const { CUDA_VISIBLE_DEVICES, ...own } = workerEnv(spec);
    const named: Record<string, string> = { ...own, ...(sharesDevices === true ? {} : { CUDA_VISIBLE_DEVICES }), ...markOf(baseEnv) };
    const fresh = withBase(baseEnv, named);
    // The host assigns them to its own.
    const env = named['NODE_OPTIONS'] === undefined ? named : { ...named, NODE_OPTIONS: fresh['NODE_OPTIONS'] ?? '' };
    let host: HostProcess;
    try {
      const wantsOwn = Object.keys(spec.env).some((name) => readAtStart.test(name)) || !this.#options.launcher.takesSpare(spec);
      const spare = wantsOwn ? undefined : this.#takeSpare();
      spare?.assign(spec);
      host = spare ?? this.#spawn(fresh, spec);
    } catch (error) {
      // Kernel errors that Node throws synchronously: no memory, environment too long.
      return notStarted(events, `starting the worker process failed: ${messageOf(error)}`);
    }
    this.#options.gpus?.keep(spec, host, host.exited);
    return new HostWorker(host, { spec, fn, env, stopTimes }, events, () => this.#refillLater());
  }

  /** The environment of hosts that start from now on. Spares with another one end. */
  setBaseEnv(baseEnv: Readonly<Record<string, string>>): void {
    this.#baseEnv = baseEnv;
    for (const spare of this.#spares.splice(0)) spare.kill();
    this.#refillLater();
  }

  /** Kills the remaining hosts, spares included; resolves when no process of this pool is left. */
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

  /** A spare is replaced after the worker that took it has had the processor for its first job. */
  #refillLater(ms: number = REFILL_DELAY_MS): void {
    setTimeout(() => this.#refill(), ms).unref();
  }

  #refill(): void {
    try {
      const baseEnv = this.#baseEnv;
      const { sharesDevices, launcher } = this.#options;
      while (!this.#closed && launcher.hasSpares && this.#spares.length < this.#options.spares) {
        this.#spares.push(this.#spawn(sharesDevices === true ? baseEnv : { ...baseEnv, CUDA_VISIBLE_DEVICES: '' }));
      }
    } catch {
      // A host machine without room for a spare has none; the next worker's own start reports the reason.
    }
  }

  /** Without an assignment: a spare. */
  #spawn(env: Readonly<Record<string, string>>, assignment?: Assignment): HostProcess {
    const { launcher, program } = this.#options;
    const host = new HostProcess({ launcher, program, env, ...(assignment === undefined ? {} : { assignment }) });
    this.#hosts.add(host);
    void host.exited.then(() => this.#hosts.delete(host));
    return host;
  }
}

/** A worker that failed to start. */
export function notStarted(events: WorkerEvents, detail: string): RunningWorker {
  process.nextTick(() => events.exited(detail, false));
  return { run() {}, cancel() {}, credit() {}, end() {} };
}
