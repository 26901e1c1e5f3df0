/** Looks at intervals whether workers can use their GPUs from inside (Runtime.gpuProblem), and after a failed job at once. */
import type { Worker } from '../core/state.ts';
import type { Runtime } from '../runtimes/runtime.ts';

export interface GpuViewsOptions {
  readonly everyMs: number;
  readonly workers: () => Iterable<Worker>;
  readonly runtimes: ReadonlyMap<string, Pick<Runtime, 'gpuProblem'>>;
  readonly onLost: (lost: { readonly workerId: string; readonly start: number; readonly detail: string }) => void;
}

/** What NVML and torch say when a program cannot use its GPUs. A worker prints what it likes: the line only triggers a look. */
const SAYS_LOST = /(?:Failed to|Can't) initialize NVML/;

/** Returns whether a line that a worker printed is a reason to look at its GPUs. */
export function saysLost(line: string): boolean {
  return line.includes('NVML') && SAYS_LOST.test(line);
}

/** Least time between two looks at one worker, ms, however often its jobs fail. */
const SOONEST_MS = 2_000;

export class GpuViews {
  readonly #options: GpuViewsOptions;
  readonly #examinedAt = new Map<string, number>();
  /** Looks that wait for the least time since the last one, by worker. */
  readonly #due = new Map<string, NodeJS.Timeout>();
  readonly #timer: NodeJS.Timeout;

  constructor(options: GpuViewsOptions) {
    this.#options = options;
    this.#timer = setInterval(() => this.#lookAtAll(), options.everyMs);
    this.#timer.unref();
  }

  /** A job of the worker failed: its GPUs may be the reason. */
  soon(worker: Worker): void {
    const waitMs = (this.#examinedAt.get(worker.id) ?? Number.NEGATIVE_INFINITY) + SOONEST_MS - performance.now();
    if (waitMs <= 0) this.#look(worker);
    else if (!this.#due.has(worker.id)) this.#due.set(worker.id, setTimeout(() => this.#lookAt(worker.id), waitMs).unref());
  }

  close(): void {
    clearInterval(this.#timer);
    for (const timer of this.#due.values()) clearTimeout(timer);
  }

  /** The worker may have ended, or be another start of it. */
  #lookAt(workerId: string): void {
    this.#due.delete(workerId);
    for (const worker of this.#options.workers()) if (worker.id === workerId) this.#look(worker);
  }

  #lookAtAll(): void {
    const present = new Set<string>();
    for (const worker of this.#options.workers()) {
      present.add(worker.id);
      this.#look(worker);
    }
    for (const id of this.#examinedAt.keys()) if (!present.has(id)) this.#examinedAt.delete(id);
  }

  #look(worker: Worker): void {
    const { id: workerId, start, runtime, deviceUuids, phase, draining, viewProblem } = worker;
    const look = this.#options.runtimes.get(runtime);
    if (deviceUuids.length === 0 || phase !== 'ready' || draining || viewProblem !== '' || look?.gpuProblem === undefined) return;
    this.#examinedAt.set(workerId, performance.now());
    look.gpuProblem(workerId).then(
      (detail) => {
        if (detail !== undefined) this.#options.onLost({ workerId, start, detail });
      },
      // Nothing can be told: the next look comes.
      () => undefined,
    );
  }
}
