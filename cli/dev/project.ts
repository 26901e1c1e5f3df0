/** A project under development: its present declarations, with a worker for each endpoint. */
import { watch, type FSWatcher } from 'node:fs';
import { glob, stat } from 'node:fs/promises';
import { join, relative } from 'node:path';

import type { LocalWorker, LocalWorkers } from '../../agent/local-workers.ts';
import { CapstanError } from '../../lib/errors.ts';
import { discover, EXAMPLE } from '../discovery/discover.ts';
import type { DeclaredEndpoint } from '../discovery/declared.ts';
import { ToolError } from '../terminal/tool-error.ts';
import { functionSpecs, removeHandlers, writeHandlers } from './handlers.ts';
import { routesOf, type DevRoute } from './routes.ts';

/** Changes within this time count as one, because an editor writes a file in several steps. */
const SETTLED_MS = 50;
/** File types of code, and ignore files. A function may write any other file while it runs. */
const FOLLOWED = /\.(py|[mc]?[jt]s|[jt]sx|json)$|(^|\/)\.(git|tool)ignore$/;
/** `*` does not match names that begin with a dot. */
const PATTERNS = ['**/*', '**/.{git,tool}ignore'];
const IGNORED = /(^|\/)(\.git|\.tool|node_modules|__pycache__)(\/|$)/;

/** Minimum number of requests that one endpoint serves at once. */
const LEAST_REQUESTS = 64;

export interface ProjectEvents {
  /** Receives the new declarations; `error` when they cannot be read. */
  readonly changed: (routes: readonly DevRoute[], error: CapstanError | null) => void;
}

export class Project {
  readonly #folder: string;
  readonly #variables: Readonly<Record<string, string | undefined>>;
  readonly #workers: LocalWorkers;
  readonly #events: ProjectEvents;
  readonly #serving = new Map<string, LocalWorker>();
  /** One watcher for each folder: Node's recursive watching misses files that are replaced by others. */
  readonly #watchers = new Map<string, FSWatcher>();
  #timer: NodeJS.Timeout | undefined;
  #reading: Promise<void> = Promise.resolve();
  #closed = false;
  /** The state of the sources when they were read. */
  #marks: ReadonlyMap<string, string> = new Map();
  routes: readonly DevRoute[] = [];
  /** Why the sources cannot be read; null when they can. */
  error: CapstanError | null = null;

  /** `variables`: the environment that discovery reads. */
  constructor(folder: string, variables: Readonly<Record<string, string | undefined>>, workers: LocalWorkers, events: ProjectEvents) {
    this.#folder = folder;
    this.#variables = variables;
    this.#workers = workers;
    this.#events = events;
  }

  /** Reads the sources and starts the declared workers; from now on changes are followed. */
  async start(): Promise<void> {
    await this.#follow();
    await this.#read();
  }

  /** Returns the worker of an endpoint, with the newest code that could be read. */
  worker(endpoint: DeclaredEndpoint): LocalWorker {
    const known = this.#serving.get(endpoint.name);
    return known === undefined || known.isOver ? this.#startWorker(endpoint) : known;
  }

  /** Settles when all changes so far were read. */
  async settled(): Promise<void> {
    await this.#reading;
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const watcher of this.#watchers.values()) watcher.close();
    // A change that was just detected finishes first; it finds the project closed.
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
      void before.then(() => this.#readChanged()).finally(done.resolve);
    }, SETTLED_MS);
  }

  /**
   * When an editor replaces a file by renaming, the event names only the temporary file: the present files are compared
   * instead.
   */
  async #readChanged(): Promise<void> {
    if (this.#closed) return;
    await this.#follow();
    if (changedIn(this.#marks, await marksOf(this.#folder)).size > 0) await this.#read();
  }

  /** Watches the present folders. */
  async #follow(): Promise<void> {
    const folders = new Set(['', ...(await foldersOf(this.#folder))]);
    for (const [path, watcher] of this.#watchers) {
      if (folders.has(path)) continue;
      watcher.close();
      this.#watchers.delete(path);
    }
    for (const path of folders) if (!this.#watchers.has(path) && !this.#closed) this.#watch(path);
  }

  #watch(path: string): void {
    let watcher: FSWatcher;
    try {
      watcher = watch(join(this.#folder, path), (_event, name) => {
        if (name !== null && !IGNORED.test(name)) this.#touched();
      });
    } catch {
      return; // the folder was removed: the watcher of its parent reports it
    }
    watcher.once('error', () => this.#watchers.delete(path));
    this.#watchers.set(path, watcher);
  }

  async #read(): Promise<void> {
    if (this.#closed) return;
    const marks = await marksOf(this.#folder);
    const changed = changedIn(this.#marks, marks);
    this.#marks = marks;
    let endpoints: readonly DeclaredEndpoint[] = [];
    this.error = null;
    try {
      ({ endpoints } = await discover(this.#folder, (name) => this.#variables[name]));
      if (endpoints.length === 0) throw new ToolError('INVALID_MANIFEST', `no endpoint is declared in ${this.#folder}`, EXAMPLE);
      await writeHandlers(this.#folder, endpoints);
    } catch (error) {
      // A file may disappear while it is read: the next change reads again.
      this.error = error instanceof CapstanError ? error : new CapstanError('INVALID_MANIFEST', String(error), { cause: error });
    }
    // Calls in progress end on the code they began with.
    for (const worker of this.#serving.values()) worker.retire();
    this.#serving.clear();
    if (this.#closed) return;
    this.routes = routesOf(endpoints);
    const touched = (each: DeclaredEndpoint): boolean => changed.has(each.file);
    void this.#warm([...endpoints.filter(touched), ...endpoints.filter((each) => !touched(each))]);
    this.#events.changed(this.routes, this.error);
  }

  /**
   * Starts the workers that nobody has called, one after another. A start takes half a second of a processor, and the
   * endpoint whose file changed is first. A call of another endpoint starts its worker at once.
   */
  async #warm(endpoints: readonly DeclaredEndpoint[]): Promise<void> {
    const routes = this.routes;
    const served = new Set(routes.map(({ endpoint }) => endpoint));
    for (const endpoint of endpoints) {
      if (this.#closed || this.routes !== routes) return;
      if (!served.has(endpoint) || this.#serving.has(endpoint.name)) continue;
      // Callers receive the reason why it does not load.
      await this.#startWorker(endpoint).ready.catch(() => undefined);
    }
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
      // One worker stands for the several of a deployed endpoint: an open stream must not block other requests.
      maxConcurrency: servesHttp ? Math.max(settings.maxConcurrency, LEAST_REQUESTS) : settings.maxConcurrency,
    });
    this.#serving.set(name, worker);
    return worker;
  }
}

async function foldersOf(folder: string): Promise<string[]> {
  const found: string[] = [];
  for await (const entry of glob('**/*', { cwd: folder, withFileTypes: true, exclude: ({ name }) => IGNORED.test(name) }))
    if (entry.isDirectory()) found.push(relative(folder, join(entry.parentPath, entry.name)));
  return found;
}

/** Returns each source with a mark of its content: size, time and inode. */
async function marksOf(folder: string): Promise<ReadonlyMap<string, string>> {
  const marks = new Map<string, string>();
  for await (const path of glob(PATTERNS, { cwd: folder, exclude: (name) => IGNORED.test(name) })) {
    if (!FOLLOWED.test(path)) continue;
    // The next event reports a file that disappeared meanwhile.
    const found = await stat(join(folder, path)).catch(() => null);
    if (found?.isFile() === true) marks.set(path, `${found.size} ${found.mtimeMs} ${found.ino}`);
  }
  return marks;
}

/** Returns the sources that were added, removed or changed. */
function changedIn(before: ReadonlyMap<string, string>, now: ReadonlyMap<string, string>): ReadonlySet<string> {
  return new Set([...before.keys(), ...now.keys()].filter((path) => before.get(path) !== now.get(path)));
}
