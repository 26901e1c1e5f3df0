/** Looks at intervals whether workers can use their GPUs from inside (Runtime.gpuProblem), and after a failed job at once. */
import type { Worker } from '../core/state.ts';
import type { Runtime } from '../runtimes/runtime.ts';

export interface GpuViewsOptions {
  readonly everyMs: number;
  readonly workers: () => Iterable<Worker>;
  readonly runtimes: ReadonlyMap<string, Pick<Runtime, 'gpuProblem'>>;
  readonly onLost: (lost: { readonly workerId: string; readonly start: number; readonly detail: string }) => void;
}

/** Least time between two looks at one worker, ms, however often its jobs fail. */
const SOONEST_MS = 2_000;

export class GpuViews {
  readonly #options: GpuViewsOptions;
  readonly #lookedAt = new Map<string, number>();
  readonly #timer: NodeJS.Timeout;

  constructor(options: GpuViewsOptions) {
    this.#options = options;
    this.#timer = setInterval(() => this.#lookAtAll(), options.everyMs);
    this.#timer.unref();
  }

  /** A job of the worker failed: its GPUs may be the reason. */
  soon(worker: Worker): void {
    const last = this.#lookedAt.get(worker.id) ?? Number.NEGATIVE_INFINITY;
    if (performance.now() - last >= SOONEST_MS) this.#look(worker);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #lookAtAll(): void {
    const present = new Set<string>();
    for (const worker of this.#options.workers()) {
      present.add(worker.id);
      this.#look(worker);
    }
    for (const id of this.#lookedAt.keys()) if (!present.has(id)) this.#lookedAt.delete(id);
  }

  #look(worker: Worker): void {
    const { id: workerId, start, runtime, deviceUuids, phase, draining, viewProblem } = worker;
    const look = this.#options.runtimes.get(runtime);
    if (deviceUuids.length === 0 || phase !== 'ready' || draining || viewProblem !== '' || look?.gpuProblem === undefined) return;
    this.#lookedAt.set(workerId, performance.now());
    look.gpuProblem(workerId).then(
      (detail) => {
        if (detail !== undefined) this.#options.onLost({ workerId, start, detail });
      },
      // Nothing can be told: the next look comes.
      () => undefined,
    );
  }
}
