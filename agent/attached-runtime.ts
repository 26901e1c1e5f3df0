/**
 * A runtime whose workers run their jobs in the workers that the development server keeps for an endpoint's newest code.
 * A worker of this runtime is ready at once: its jobs wait for the file to load, and fail if it does not.
 */
import type { LocalTaskEvents, LocalWorker } from './local-workers.ts';
import type { RunningWorker, Runtime, Task, TaskResult, WorkerEvents, WorkerStart } from './runtimes/runtime.ts';
import { messageOf } from '../lib/to-error.ts';

export interface AttachedRuntimeOptions {
  readonly name: string;
  /** Returns the worker with the newest code of an endpoint. @throws CapstanError when there is none. */
  readonly workerOf: (endpointId: string) => LocalWorker;
  /** Receives a progress update of a job, JSON text. */
  readonly onProgress: (endpointId: string, text: string) => void;
}

export class AttachedRuntime implements Runtime {
  readonly name: string;
  readonly #options: AttachedRuntimeOptions;
  readonly #workers = new Set<AttachedWorker>();

  constructor(options: AttachedRuntimeOptions) {
    this.name = options.name;
    this.#options = options;
  }

  start(spec: WorkerStart, events: WorkerEvents): RunningWorker {
    const worker = new AttachedWorker(spec.endpointId, this.#options, events, () => this.#workers.delete(worker));
    this.#workers.add(worker);
    return worker;
  }

  /** There is newer code: the present workers take no more jobs. Those that reach them are returned. */
  supersede(): void {
    for (const worker of this.#workers) worker.isSuperseded = true;
  }

  async close(): Promise<void> {
    // Their processes belong to the development server.
    return Promise.resolve();
  }
}

class AttachedWorker implements RunningWorker {
  isSuperseded = false;
  readonly #endpointId: string;
  readonly #options: AttachedRuntimeOptions;
  readonly #events: WorkerEvents;
  readonly #onGone: () => void;
  readonly #running = new Map<string, LocalWorker>();
  /** Where its jobs run: not before the first of them. */
  #worker: LocalWorker | undefined;
  #isGone = false;
  readonly #reports: LocalTaskEvents;

  constructor(endpointId: string, options: AttachedRuntimeOptions, events: WorkerEvents, onGone: () => void) {
    this.#endpointId = endpointId;
    this.#options = options;
    this.#events = events;
    this.#onGone = onGone;
    this.#reports = {
      entered: (key) => events.entered(key),
      chunk: (key, data) => events.chunk(key, data),
      progress: (key, data) => {
        options.onProgress(endpointId, data.toString());
        events.progress(key, data);
      },
      ended: (key, result) => this.#ended(key, result),
      reloading: () => {
        this.#running.clear();
        events.reloading();
      },
      loaded: () => {
        if (!this.#isGone) events.loaded();
      },
      exited: (...end) => this.#gone(() => events.exited(...end)),
    };
    queueMicrotask(() => {
      if (this.#isGone) return;
      events.started();
      events.loaded();
    });
  }

  run(task: Task): void {
    if (this.#isGone) return;
    // The service stops it, so that it costs no attempt and goes to a worker with the newer code.
    if (this.isSuperseded) {
      this.#end(task.key, { kind: 'stopped', ms: 0 });
      return;
    }
    try {
      if (this.#worker === undefined || this.#worker.isOver) this.#worker = this.#options.workerOf(this.#endpointId);
      this.#running.set(task.key, this.#worker);
      this.#worker.run(task, this.#reports);
    } catch (error) {
      this.#end(task.key, { kind: 'failed', error: messageOf(error), ms: 0 });
    }
  }

  cancel(key: string): void {
    this.#running.get(key)?.cancel(key);
  }

  credit(key: string, count: number): void {
    this.#running.get(key)?.credit(key, count);
  }

  /** Its jobs' worker stays, unless it has to be ended under them. */
  end(force: boolean): void {
    if (this.#isGone) return;
    if (force && this.#running.size > 0) this.#worker?.kill();
    else queueMicrotask(() => this.#gone(() => this.#events.exited('the worker is no longer needed', false)));
  }

  #end(key: string, result: TaskResult): void {
    queueMicrotask(() => this.#ended(key, result));
  }

  #ended(key: string, result: TaskResult): void {
    this.#running.delete(key);
    if (!this.#isGone) this.#events.ended(key, result);
  }

  #gone(report: () => void): void {
    if (this.#isGone) return;
    this.#isGone = true;
    this.#running.clear();
    this.#onGone();
    report();
  }
}
