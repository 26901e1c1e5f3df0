/** A project under development: what it declares now, with a process for each of its worker files. */
import { watch, type FSWatcher } from 'node:fs';

import { CapstanError } from '../../proto/errors.ts';
import { discover, EXAMPLE } from '../discovery/discover.ts';
import type { DeclaredEndpoint } from '../discovery/declared.ts';
import { ToolError } from '../terminal/tool-error.ts';
import { routesOf, type DevRoute } from './routes.ts';
import { WorkerProcess } from './worker-process.ts';

/** Changes within this time are one: an editor writes a file in several steps. */
const SETTLED_MS = 50;
/** What no worker reads, or what running it writes. */
const ignored = /(^|\/)(\.git|\.tool|node_modules|__pycache__)(\/|$)|~$|\.sw[px]$/;

export interface ProjectEvents {
  /** Read anew; `error` when it cannot be. */
  readonly changed: (routes: readonly DevRoute[], error: CapstanError | null) => void;
}

export class Project {
  readonly #folder: string;
  readonly #variables: Readonly<Record<string, string | undefined>>;
  readonly #events: ProjectEvents;
  readonly #workers = new Map<string, WorkerProcess>();
  #watcher: FSWatcher | undefined;
  #timer: NodeJS.Timeout | undefined;
  #reading: Promise<void> = Promise.resolve();
  #closed = false;
  routes: readonly DevRoute[] = [];
  /** Why the sources cannot be read; null when they can. */
  error: CapstanError | null = null;

  constructor(folder: string, variables: Readonly<Record<string, string | undefined>>, events: ProjectEvents) {
    this.#folder = folder;
    this.#variables = variables;
    this.#events = events;
  }

  /** Reads the sources and starts what they declare; from now on changes are followed. */
  async start(): Promise<void> {
    this.#watcher = watch(this.#folder, { recursive: true }, (_event, path) => {
      if (path !== null && !ignored.test(path)) this.#touched();
    });
    await this.#read();
  }

  /** The process of an endpoint's file, once what changed has been read. */
  async worker(endpoint: DeclaredEndpoint): Promise<WorkerProcess> {
    const known = this.#workers.get(endpoint.file);
    if (known !== undefined && !known.isOver) return known;
    await known?.close();
    return this.#startWorker(endpoint);
  }

  /** Settles when what has changed so far is read. */
  async settled(): Promise<void> {
    await this.#reading;
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#watcher?.close();
    await this.#reading;
    await this.#endWorkers();
  }

  #touched(): void {
    if (this.#timer !== undefined || this.#closed) return;
    const done = Promise.withResolvers<void>();
    const before = this.#reading;
    this.#reading = done.promise;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      void before.then(() => this.#read()).finally(done.resolve);
    }, SETTLED_MS);
  }

  async #read(): Promise<void> {
    let endpoints: readonly DeclaredEndpoint[] = [];
    this.error = null;
    try {
      ({ endpoints } = await discover(this.#folder, (name) => this.#variables[name]));
      if (endpoints.length === 0) throw new ToolError('INVALID_MANIFEST', `nothing declares an endpoint in ${this.#folder}`, EXAMPLE);
    } catch (error) {
      // A file may vanish while it is read: the next change reads again.
      this.error = error instanceof CapstanError ? error : new CapstanError('INVALID_MANIFEST', String(error), { cause: error });
    }
    await this.#endWorkers();
    if (this.#closed) return;
    this.routes = routesOf(endpoints);
    for (const { endpoint } of this.routes) if (!this.#workers.has(endpoint.file)) this.#startWorker(endpoint);
    this.#events.changed(this.routes, this.error);
  }

  #startWorker({ file, language }: DeclaredEndpoint): WorkerProcess {
    const declared = this.routes.filter(({ endpoint }) => endpoint.file === file).map(({ endpoint }) => endpoint.settings.env);
    const env: Record<string, string | undefined> = Object.assign({}, this.#variables, ...declared) as Record<string, string | undefined>;
    const worker = new WorkerProcess(this.#folder, file, language, env);
    this.#workers.set(file, worker);
    return worker;
  }

  async #endWorkers(): Promise<void> {
    const workers = [...this.#workers.values()];
    this.#workers.clear();
    await Promise.all(workers.map((worker) => worker.close()));
  }
}
