/**
 * Runs workers without a scheduler, in the same hosts as deployed workers. The development server uses it, so that a
 * function receives and returns the same as when it is deployed.
 */
import { delimiter, join } from 'node:path';
import { pathToFileURL } from 'node:url';

import { CapstanError } from '../lib/errors.ts';
import { messageOf } from '../lib/to-error.ts';
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
  Task,
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

/** What becomes of the tasks of a worker; the keys are those of the tasks. */
export type LocalTaskEvents = Pick<WorkerEvents, 'entered' | 'chunk' | 'progress' | 'ended' | 'reloading' | 'loaded' | 'exited'>;

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

interface LocalRun {
  readonly task: Task;
  readonly events: LocalTaskEvents;
  /** The runtime has it. */
  isHanded: boolean;
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

/** One worker. Calls wait until it is loaded. A retired worker accepts no more calls and ends after the last one. */
export class LocalWorker {
  /** Its id, as jobs show it. */
  readonly id: string;
  readonly #worker: RunningWorker;
  readonly #onLog: (entry: LogEntry) => void;
  readonly #ready = Promise.withResolvers<void>();
  readonly #tasks = new Map<string, LocalRun>();
  #busy = 0;
  #retired = false;
  #isLoaded = false;
  /** Called when the module, whose jobs were stopped by force, is loaded again. */
  #reloadedFor: (() => void) | undefined;
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
          this.#end(new CapstanError('WORKER_LOST', detail), hardStop, culprit);
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

  /**
   * Runs a job once its file is loaded. One of `ended`, `reloading` and `exited` reports its end, the last two for all jobs with the
   * same `events`. Not before this returns.
   */
  run(task: Task, events: LocalTaskEvents): void {
    this.#busy += 1;
    this.#tasks.set(task.key, { task, events, isHanded: false });
    this.#ready.promise.then(
      () => this.#hand(task.key),
      // It may have ended before.
      (error: unknown) => this.#finish(task.key, { kind: 'failed', error: messageOf(error), ms: 0 }),
    );
  }

  /** Stops a job, gracefully first and by force one second later. */
  cancel(key: string): void {
    if (this.#tasks.get(key)?.isHanded === true) this.#worker.cancel(key);
    else this.#finish(key, { kind: 'stopped', ms: 0 });
  }

  /** Lets a job's generator produce more chunks. */
  credit(key: string, count: number): void {
    this.#worker.credit(key, count);
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

  /** Ends it with everything it started, whatever it runs. */
  kill(): void {
    this.#worker.end(true);
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

  #hand(key: string): void {
    const run = this.#tasks.get(key);
    if (run === undefined) return;
    run.isHanded = true;
    this.#worker.run(run.task);
  }

  #finish(key: string, result: TaskResult): void {
    const run = this.#tasks.get(key);
    if (run === undefined) return;
    this.#tasks.delete(key);
    run.events.ended(key, result);
    this.#left();
  }

  /** All jobs are lost. */
  #lose(report: (events: LocalTaskEvents) => void): void {
    const runs = [...this.#tasks.values()];
    this.#tasks.clear();
    for (const events of new Set(runs.map((run) => run.events))) report(events);
    for (const _run of runs) this.#left();
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
        this.#reloadedFor?.();
        this.#reloadedFor = undefined;
      },
      loadFailed: (detail) => {
        this.#end(new CapstanError('INVALID_MANIFEST', detail));
        this.#worker.end(true);
      },
      entered: (key) => this.#tasks.get(key)?.events.entered(key),
      chunk: (key, data) => this.#tasks.get(key)?.events.chunk(key, data),
      progress: (key, data) => this.#tasks.get(key)?.events.progress(key, data),
      ended: (key, result) => this.#finish(key, result),
      reloading: () =>
        this.#lose((events) => {
          this.#reloadedFor = () => events.loaded();
          events.reloading();
        }),
      reachable: () => undefined,
      violation: (detail) => this.#onLog({ stream: 'system', jobId: '', text: detail }),
    };
  }

  /** The jobs are lost as those of a deployed worker that ended. */
  #end(error: CapstanError, hardStop = false, culprit?: string): void {
    this.#over ??= error;
    this.#ready.reject(this.#over);
    const { message } = this.#over;
    for (const [key, { isHanded }] of [...this.#tasks]) if (!isHanded) this.#finish(key, { kind: 'failed', error: message, ms: 0 });
    this.#lose((events) => events.exited(message, hardStop, culprit));
  }
}
