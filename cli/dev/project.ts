/** A project under development: what it declares now, with a worker for each of its endpoints. */
import { watch, type FSWatcher } from 'node:fs';

import type { LocalWorker, LocalWorkers } from '../../agent/local-workers.ts';
import { CapstanError } from '../../proto/errors.ts';
import { discover, EXAMPLE } from '../discovery/discover.ts';
import type { DeclaredEndpoint } from '../discovery/declared.ts';
import { ToolError } from '../terminal/tool-error.ts';
import { functionSpecs, removeHandlers, writeHandlers } from './handlers.ts';
import { routesOf, type DevRoute } from './routes.ts';

/** Changes within this time are one: an editor writes a file in several steps. */
const SETTLED_MS = 50;
/** What code is made of, and what says which of it counts; anything else a function may write while it runs. */
const followed = /\.(py|[mc]?[jt]s|[jt]sx|json)$|(^|\/)\.(git|tool)ignore$/;
const ignored = /(^|\/)(\.git|\.tool|node_modules|__pycache__)\//;

/** Requests that one endpoint serves at once, at least. */
const LEAST_REQUESTS = 64;

export interface ProjectEvents {
  /** Read anew; `error` when it cannot be. */
  readonly changed: (routes: readonly DevRoute[], error: CapstanError | null) => void;
}

export class Project {
  readonly #folder: string;
  readonly #variables: Readonly<Record<string, string | undefined>>;
  readonly #workers: LocalWorkers;
  readonly #events: ProjectEvents;
  readonly #serving = new Map<string, LocalWorker>();
  #watcher: FSWatcher | undefined;
  #timer: NodeJS.Timeout | undefined;
  #reading: Promise<void> = Promise.resolve();
  #closed = false;
  routes: readonly DevRoute[] = [];
  /** Why the sources cannot be read; null when they can. */
  error: CapstanError | null = null;

  /** `variables`: what discovery reads of the environment. */
  constructor(folder: string, variables: Readonly<Record<string, string | undefined>>, workers: LocalWorkers, events: ProjectEvents) {
    this.#folder = folder;
    this.#variables = variables;
    this.#workers = workers;
    this.#events = events;
  }

  /** Reads the sources and starts what they declare; from now on changes are followed. */
  async start(): Promise<void> {
    this.#watcher = watch(this.#folder, { recursive: true }, (_event, path) => {
      if (path !== null && followed.test(path) && !ignored.test(path)) this.#touched();
    });
    await this.#read();
  }

  /** The worker of an endpoint: of the newest code that could be read. */
  worker(endpoint: DeclaredEndpoint): LocalWorker {
    const known = this.#serving.get(endpoint.name);
    return known === undefined || known.isOver ? this.#startWorker(endpoint) : known;
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
    await this.#workers.close();
    await removeHandlers(this.#folder);
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
    if (this.#closed) return;
    let endpoints: readonly DeclaredEndpoint[] = [];
    this.error = null;
    try {
      ({ endpoints } = await discover(this.#folder, (name) => this.#variables[name]));
      if (endpoints.length === 0) throw new ToolError('INVALID_MANIFEST', `nothing declares an endpoint in ${this.#folder}`, EXAMPLE);
      await writeHandlers(this.#folder, endpoints);
    } catch (error) {
      // A file may vanish while it is read: the next change reads again.
      this.error = error instanceof CapstanError ? error : new CapstanError('INVALID_MANIFEST', String(error), { cause: error });
    }
    // Calls in flight end on the code they began with.
    for (const worker of this.#serving.values()) worker.retire();
    this.#serving.clear();
    if (this.#closed) return;
    this.routes = routesOf(endpoints);
    for (const { endpoint } of this.routes) if (!this.#serving.has(endpoint.name)) this.#startWorker(endpoint);
    this.#events.changed(this.routes, this.error);
  }

  #startWorker(endpoint: DeclaredEndpoint): LocalWorker {
    const { name, language, settings, functions } = endpoint;
    const servesHttp = functions.some(({ route }) => route !== null);
    const worker = this.#workers.start({
      name,
      language,
      folder: this.#folder,
      functions: functionSpecs(endpoint),
      env: settings.env,
      servesHttp,
      // One worker stands for the several that a deployed endpoint would start: an open stream must not hold up the rest.
      maxConcurrency: servesHttp ? Math.max(settings.maxConcurrency, LEAST_REQUESTS) : settings.maxConcurrency,
    });
    this.#serving.set(name, worker);
    return worker;
  }
}
