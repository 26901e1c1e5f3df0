/**
 * Runs workers without a scheduler, in the same hosts as deployed workers. The development server uses it, so that a
 * function receives and returns the same as when it is deployed.
 */
import { delimiter, join } from 'node:path';
import { pathToFileURL } from 'node:url';

import { CapstanError } from '../lib/errors.ts';
import type { S3Config } from '../proto/gen/capstan/v1/common.ts';
import type { FunctionSpec } from '../proto/gen/capstan/v1/nodes.ts';
import { AGENT_MARK, agentMark } from './runtimes/escaped.ts';
import { stageBootstrap } from './runtimes/bootstrap.ts';
import { withBase } from './runtimes/node-options.ts';
import { ownModules } from './runtimes/own-modules.ts';
import { ProcessRuntime } from './runtimes/process/process-runtime.ts';
import type {
  HttpCall,
  HttpEvents,
  HttpRequest,
  LogEntry,
  RunningWorker,
  Runtime,
  TaskResult,
  WorkerEvents,
  WorkerStart,
} from './runtimes/runtime.ts';
import { removeTree } from './runtimes/remove-tree.ts';
import { ownTemporaryFolder, WorkFolders } from './runtimes/work-folders.ts';
import { ThreadRuntime } from './runtimes/thread/thread-runtime.ts';
import { ValidatedResponse } from './runtimes/validated-response.ts';

export { openLocalEnvironment } from './inventory/python-environment.ts';
export { HTTP_WINDOW_BYTES, type HttpCall, type HttpEvents, type HttpRequest, type LogEntry, type TaskResult } from './runtimes/runtime.ts';

export interface LocalWorkerSpec {
  /** The endpoint id that the functions see. */
  readonly name: string;
  readonly language: 'python' | 'node';
  /** Root of the functions' modules; its files appear in the workers' working folders. */
  readonly folder: string;
  readonly functions: readonly FunctionSpec[];
  /** Command of a worker that is a web server itself; empty for functions. */
  readonly command: readonly string[];
  /** Secret values. */
  readonly env: Readonly<Record<string, string>>;
  /** Its functions serve HTTP requests; otherwise its single function runs jobs. */
  readonly servesHttp: boolean;
  /** Concurrent jobs. */
  readonly maxConcurrency: number;
}

export interface LocalTask {
  readonly jobId: string;
  /** JSON text, UTF-8. */
  readonly input: Buffer;
  /** Secret. */
  readonly s3Config?: S3Config | undefined;
  /** 1 for the first started attempt. */
  readonly attempt: number;
  /** Trace context of the request; absent without one. */
  readonly trace?: string | undefined;
  /** The handler was entered. */
  readonly onEntered?: () => void;
  /** One chunk of a generator, JSON text. */
  readonly onChunk?: (data: Buffer) => void;
  /** JSON text. */
  readonly onProgress: (data: Buffer) => void;
  /** Stops the task, gracefully first and by force one second later. */
  readonly signal: AbortSignal;
}

/** A task whose worker ended under it. */
export interface LostTask {
  readonly kind: 'lost';
  /** Why the worker ended. */
  readonly detail: string;
  /** As for a deployed worker: it alone ended the worker; one of several did; another one did; it was not entered. */
  readonly how: 'culprit' | 'suspected' | 'spared' | 'unstarted';
}

export interface LocalWorkersOptions {
  /** Identifies leftovers of a killed process. */
  readonly folder: string;
  /** The fallback for files of the installation where the installation is not writable. */
  readonly own: string;
  readonly onLog: (name: string, entry: LogEntry) => void;
}

/** What workers are started with. */
export interface LocalWorkersConfig {
  /** The environment of all workers, below each worker's own values. */
  readonly env: Readonly<Record<string, string>>;
  /** A name on PATH or a path. */
  readonly python: string;
  /** Node workers open a debugger on this port of 127.0.0.1, 0 for a free one, and no worker starts ahead. */
  readonly inspect?: number;
  /** What a spare loads before a worker takes it: Python modules, and a module of Node (an absolute path). */
  readonly preload: { readonly python: readonly string[]; readonly node: string };
}

interface WorkerEnd {
  /** The task whose code ended it, if that is known. */
  readonly culprit: string | undefined;
  /** It was killed to end one of its tasks. */
  readonly isForced: boolean;
}

interface LocalRun {
  readonly task: LocalTask;
  readonly settle: (result: TaskResult | LostTask) => void;
  isEntered: boolean;
}

type RuntimeName = LocalWorkerSpec['language'] | 'server';

/** The first worker has the processor for its start before the first spare, ms. */
const SPARE_DELAY_MS = 1_000;

export class LocalWorkers {
  readonly #bootstrap: string;
  readonly #folder: string;
  readonly #onLog: (name: string, entry: LogEntry) => void;
  readonly #workFolders: WorkFolders;
  /** Parent folder of all of them. */
  readonly #work: string;
  #config: LocalWorkersConfig | undefined;
  /** Created with the first worker of the language, because each starts a spare. */
  readonly #runtimes = new Map<RuntimeName, Runtime>();
  /** Living workers of each runtime, also of those with a former configuration. */
  readonly #living = new Map<Runtime, number>();
  #next = 1;
  #closed = false;

  private constructor(
    paths: { readonly bootstrap: string; readonly folder: string; readonly work: string },
    workFolders: WorkFolders,
    onLog: LocalWorkersOptions['onLog'],
  ) {
    this.#bootstrap = paths.bootstrap;
    this.#folder = paths.folder;
    this.#work = paths.work;
    this.#workFolders = workFolders;
    this.#onLog = onLog;
  }

  static async open({ folder, own, onLog }: LocalWorkersOptions): Promise<LocalWorkers> {
    const bootstrap = await stageBootstrap(join(own, 'bootstrap'));
    // Outside the project, which stays unchanged.
    const work = await ownTemporaryFolder();
    const workFolders = await WorkFolders.open(join(work, 'work'), { warn: () => undefined });
    return new LocalWorkers({ bootstrap, folder, work }, workFolders, onLog);
  }

  /** To be called before the first start. Workers that were started before go on as they are. */
  configure(config: LocalWorkersConfig): void {
    const former = [...this.#runtimes.values()];
    this.#config = config;
    this.#runtimes.clear();
    for (const runtime of former) this.#closeUnused(runtime);
  }

  /** Starts a worker and returns immediately; `ready` of the worker reports the result. @throws CapstanError UNAVAILABLE after `close`. */
  start(spec: LocalWorkerSpec): LocalWorker {
    // Its process would outlive this one.
    if (this.#closed) throw new CapstanError('UNAVAILABLE', 'the development server is stopping');
    const number = this.#next++;
    const runtime = this.#runtime(spec.command.length > 0 ? 'server' : spec.language);
    const place = { workerId: `local-${number}`, workFolder: this.#workFolders.make() };
    this.#living.set(runtime, (this.#living.get(runtime) ?? 0) + 1);
    const onGone = (): void => {
      this.#workFolders.remove(place.workFolder);
      this.#living.set(runtime, (this.#living.get(runtime) ?? 1) - 1);
      this.#closeUnused(runtime);
    };
    return new LocalWorker(runtime, spec, place, { log: (entry) => this.#log(spec.name, entry), onGone });
  }

  /** Kills the remaining workers without reporting their ends; resolves when no process is left. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([...new Set([...this.#runtimes.values(), ...this.#living.keys()])].map((runtime) => runtime.close()));
    await this.#workFolders.close();
    await removeTree(this.#work);
  }

  #runtime(name: RuntimeName): Runtime {
    const known = this.#runtimes.get(name);
    if (known !== undefined) return known;
    if (this.#config === undefined) throw new CapstanError('INTERNAL', 'the workers are not configured');
    const { env, python, preload, inspect } = this.#config;
    // A spare would hold the port.
    const spares = inspect === undefined ? 1 : 0;
    const debugArgs = inspect === undefined ? [] : [`--inspect=127.0.0.1:${inspect}`];
    // The project's own node_modules may be above its folder. NODE_PATH is what a package manager sets for its own scripts.
    const { NODE_PATH: _, ...variables } = env;
    const baseEnv = { ...withBase(ownModules(this.#bootstrap, []), variables), [AGENT_MARK]: agentMark(this.#folder) };
    const common = { bootstrap: this.#bootstrap, spareDelayMs: SPARE_DELAY_MS, sharesDevices: true };
    // A program of the user's own finds the project's modules as a build's.
    const modules = [this.#folder, env['PYTHONPATH'] ?? ''].filter((path) => path !== '').join(delimiter);
    const made =
      name === 'node'
        ? new ThreadRuntime({ ...common, baseEnv, spares, nodeArgs: [...debugArgs, '--import', pathToFileURL(preload.node).href] })
        : new ProcessRuntime({
            ...common,
            baseEnv: name === 'server' ? { ...baseEnv, PYTHONPATH: modules } : { ...baseEnv, CAPSTAN_PRELOAD: preload.python.join(' ') },
            spares: { node: 0, python: name === 'server' ? 0 : spares },
            python,
          });
    this.#runtimes.set(name, made);
    return made;
  }

  /** Closes a runtime of a former configuration once its last worker is gone. */
  #closeUnused(runtime: Runtime): void {
    if ((this.#living.get(runtime) ?? 0) > 0 || [...this.#runtimes.values()].includes(runtime)) return;
    // `close` waits for it, too: until its processes are gone it counts as living.
    void runtime.close().then(() => this.#living.delete(runtime));
  }

  #log(name: string, entry: LogEntry): void {
    if (!this.#closed || entry.stream !== 'system') this.#onLog(name, entry);
  }
}

/**
 * One worker. Calls wait until it is loaded; jobs also wait for a free slot, in order of arrival, as in a queue. A
 * retired worker accepts no more calls and ends after the last one.
 */
export class LocalWorker {
  /** Its id, as jobs show it. */
  readonly id: string;
  readonly #worker: RunningWorker;
  readonly #onLog: (entry: LogEntry) => void;
  readonly #slots: number;
  readonly #ready = Promise.withResolvers<void>();
  readonly #tasks = new Map<string, LocalRun>();
  readonly #queue: (() => void)[] = [];
  #busy = 0;
  #running = 0;
  #next = 1;
  #retired = false;
  #isLoaded = false;
  /** Why it accepts no more calls; null while it does. */
  #over: CapstanError | null = null;

  constructor(
    runtime: Runtime,
    spec: LocalWorkerSpec,
    place: Pick<WorkerStart, 'workerId' | 'workFolder'>,
    { log, onGone }: { readonly log: (entry: LogEntry) => void; readonly onGone: () => void },
  ) {
    const { name, folder, functions, command, env, servesHttp, maxConcurrency } = spec;
    this.id = place.workerId;
    this.#slots = maxConcurrency;
    this.#onLog = log;
    // A load failure is reported to every caller.
    this.#ready.promise.catch(() => undefined);
    const common = { ...place, endpointId: name, folder, functions, env, servesHttp, maxConcurrency };
    this.#worker = runtime.start(
      { ...common, deviceUuids: [], memoryBytes: 0, cpuMillis: 0, image: '', command },
      {
        ...this.#events(),
        log,
        exited: (detail, hardStop, culprit) => {
          onGone();
          this.#end(new CapstanError('WORKER_LOST', detail), { culprit, isForced: hardStop });
        },
      },
    );
  }

  /** @throws CapstanError INVALID_MANIFEST when its file does not load, WORKER_LOST when it has ended. */
  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  /** Its file is loaded: it accepts calls. */
  get isLoaded(): boolean {
    return this.#isLoaded && this.#over === null;
  }

  /** The worker ended, or its file did not load. */
  get isOver(): boolean {
    return this.#over !== null;
  }

  /** Runs a job. @throws as `ready`. */
  async run(task: LocalTask): Promise<TaskResult | LostTask> {
    this.#busy += 1;
    try {
      await this.#ready.promise;
      await this.#slot();
      try {
        return await this.#runNow(task);
      } finally {
        // The slot passes directly to the next in the queue, so that no other call takes it.
        const next = this.#queue.shift();
        if (next === undefined) this.#running -= 1;
        else next();
      }
    } finally {
      this.#left();
    }
  }

  /** Hands a request to its function once it is loaded; `events` report the outcome. @throws as `ready`. */
  async serve(request: HttpRequest, events: HttpEvents): Promise<HttpCall> {
    this.#busy += 1;
    let isOver = false;
    const over = (): void => {
      if (!isOver) this.#left();
      isOver = true;
    };
    try {
      await this.#ready.promise;
      const { serve } = this.#worker;
      if (this.#over !== null || serve === undefined)
        throw this.#over ?? new CapstanError('INTERNAL', 'the worker does not serve requests');
      const response = new ValidatedResponse(request, events, (text) => this.#onLog({ stream: 'system', jobId: '', text }));
      const call = serve.call(this.#worker, request, {
        head(status, headers, body, ended) {
          response.head(status, headers, body, ended);
          if (ended) over();
        },
        body(bytes, ended) {
          response.body(bytes, ended);
          if (ended) over();
        },
        credit: (bytes) => response.credit(bytes),
        failed(...failure) {
          response.failed(...failure);
          over();
        },
      });
      response.attach(call);
      return call;
    } catch (error) {
      over();
      throw error;
    }
  }

  /** Accepts no more calls; ends after the last one. */
  retire(): void {
    this.#retired = true;
    if (this.#busy === 0) this.#worker.end(true);
  }

  #left(): void {
    this.#busy -= 1;
    if (this.#retired && this.#busy === 0) this.#worker.end(true);
  }

  async #slot(): Promise<void> {
    if (this.#running < this.#slots) {
      this.#running += 1;
      return;
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#queue.push(resolve);
    await promise;
  }

  #runNow(task: LocalTask): Promise<TaskResult | LostTask> {
    if (this.#over !== null) throw this.#over;
    if (task.signal.aborted) return Promise.resolve({ kind: 'stopped', ms: 0 });
    const key = `t${this.#next++}`;
    const { promise, resolve } = Promise.withResolvers<TaskResult | LostTask>();
    const stop = (): void => this.#worker.cancel(key);
    task.signal.addEventListener('abort', stop, { once: true });
    this.#tasks.set(key, { task, settle: resolve, isEntered: false });
    const { jobId, input, attempt, s3Config, trace } = task;
    this.#worker.run({ key, jobId, input, attempt, s3Config, trace });
    return promise.finally(() => task.signal.removeEventListener('abort', stop));
  }

  #finish(key: string, result: TaskResult | LostTask): void {
    this.#tasks.get(key)?.settle(result);
    this.#tasks.delete(key);
  }

  /** As the agent judges the attempts of a worker that ended (agent/core/attempts.ts). */
  #loseAll(detail: string, { culprit, isForced }: WorkerEnd): void {
    const running = [...this.#tasks.values()].filter(({ isEntered }) => isEntered).length;
    for (const [key, { task, isEntered }] of [...this.#tasks]) {
      const isSpared = isForced || (culprit !== undefined && culprit !== key);
      const known = culprit === undefined && running > 1 ? 'suspected' : 'culprit';
      const how = !isEntered ? 'unstarted' : isSpared ? 'spared' : known;
      this.#finish(key, task.signal.aborted ? { kind: 'stopped', ms: 0 } : { kind: 'lost', detail, how });
    }
  }

  #events(): Omit<WorkerEvents, 'log' | 'exited'> {
    return {
      preparing: () => undefined,
      startFailed: (_reason, detail) => this.#end(new CapstanError('WORKER_LOST', detail)),
      waiting: (detail) => this.#onLog({ stream: 'system', jobId: '', text: `the server is not ready: ${detail}` }),
      started: () => undefined,
      loaded: () => {
        this.#isLoaded = true;
        this.#ready.resolve();
      },
      loadFailed: (detail) => {
        this.#end(new CapstanError('INVALID_MANIFEST', detail));
        this.#worker.end(true);
      },
      entered: (key) => {
        const run = this.#tasks.get(key);
        if (run === undefined) return;
        run.isEntered = true;
        run.task.onEntered?.();
      },
      chunk: (key, data) => {
        this.#tasks.get(key)?.task.onChunk?.(data);
        this.#worker.credit(key, 1);
      },
      progress: (key, data) => this.#tasks.get(key)?.task.onProgress(data),
      ended: (key, result) => this.#finish(key, result),
      reloading: () => this.#loseAll('the functions of the worker were stopped', { culprit: undefined, isForced: true }),
      reachable: () => undefined,
      violation: (detail) => this.#onLog({ stream: 'system', jobId: '', text: detail }),
    };
  }

  #end(error: CapstanError, end: WorkerEnd = { culprit: undefined, isForced: false }): void {
    this.#over ??= error;
    this.#ready.reject(this.#over);
    this.#loseAll(this.#over.message, end);
  }
}
