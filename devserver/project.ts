/** A project under development: its present declarations, with a worker for each endpoint. */
import { setTimeout as pause } from 'node:timers/promises';

import type { LocalWorker, LocalWorkers } from '../agent/local-workers.ts';
import { withSecrets } from '../lib/secret-references.ts';
import { messageOf } from '../lib/to-error.ts';
import { discoverFiles, EXAMPLE } from '../compiler/discovery/discover.ts';
import { PythonReader } from '../compiler/discovery/python-reader.ts';
import type { DeclaredApplication, DeclaredEndpoint } from '../compiler/discovery/declared.ts';
import { ToolError } from '../terminal/tool-error.ts';
import { functionSpecs, removeHandlers, writeHandlers } from './handlers.ts';
import { problemOf, type Problem } from './problem.ts';
import { routesOf, type DevRoute } from './routes.ts';
import { SourceWatch } from './source-watch.ts';

/** Changes within this time count as one, because an editor writes a file in several steps. */
const SETTLED_MS = 25;
/** Minimum number of requests that one endpoint serves at once. */
const LEAST_REQUESTS = 64;

/** What was read, and what of it cannot be served. */
export interface Reading {
  readonly routes: readonly DevRoute[];
  /** Endpoints that are web servers themselves. */
  readonly servers: readonly DeclaredEndpoint[];
  readonly problems: readonly Problem[];
  /** The sources that changed; empty for the first reading. */
  readonly changed: readonly string[];
}

export interface ProjectEvents {
  /** The sources were read. */
  readonly read: (reading: Reading) => void;
  /** After a change, the endpoint that was changed or called last is served with the new code. */
  readonly reloaded: (changed: readonly string[], ms: number) => void;
  /** The file of an endpoint does not load; its callers receive the reason, too. */
  readonly loadFailed: (endpoint: DeclaredEndpoint, message: string) => void;
}

export interface ProjectOptions {
  readonly folder: string;
  /** The environment that discovery reads. */
  readonly variables: () => Readonly<Record<string, string | undefined>>;
  readonly workers: LocalWorkers;
  /** Makes the packages of the declarations available to workers; returns what failed. */
  readonly prepare: (application: DeclaredApplication) => Promise<readonly Problem[]>;
  /** Returns the command of an endpoint that is a web server itself. */
  readonly commandOf: (endpoint: DeclaredEndpoint, application: DeclaredApplication) => Promise<readonly string[]>;
  readonly events: ProjectEvents;
}

export class Project {
  readonly #options: ProjectOptions;
  readonly #watch: SourceWatch;
  readonly #reader = new PythonReader();
  readonly #serving = new Map<string, LocalWorker>();
  /** Names of endpoints in the order of their last calls. */
  readonly #called = new Set<string>();
  /** The endpoints as last read, with those of files that cannot be read now. */
  #endpoints: ReadonlyMap<string, DeclaredEndpoint> = new Map();
  #reading: Promise<void> = Promise.resolve();
  /** A change was detected and is not read yet. */
  #isTouched = false;
  #closed = false;
  /** The commands of endpoints that are web servers, by name. */
  #commands: ReadonlyMap<string, readonly string[]> = new Map();
  /** Increased by each reading. */
  #version = 0;
  routes: readonly DevRoute[] = [];
  problems: readonly Problem[] = [];

  constructor(options: ProjectOptions) {
    this.#options = options;
    this.#watch = new SourceWatch(options.folder, () => this.#touched());
  }

  /** Reads the sources and starts the declared workers; from now on changes are followed. */
  async start(): Promise<void> {
    await this.#watch.follow();
    await this.#read([], performance.now());
  }

  /** Returns the endpoint of a name, also one whose file cannot be read now. */
  endpoint(name: string): DeclaredEndpoint | undefined {
    return this.#endpoints.get(name);
  }

  /** All endpoints, also those whose files cannot be read now. */
  get endpoints(): readonly DeclaredEndpoint[] {
    return [...this.#endpoints.values()];
  }

  /** It has code of the project; an image or a program that fetches jobs does not run here. */
  isRunnable({ name, functions }: DeclaredEndpoint): boolean {
    return functions.length > 0 || this.#commands.has(name);
  }

  /** It is a web server itself, for any path. */
  isServer({ name }: DeclaredEndpoint): boolean {
    return this.#commands.has(name);
  }

  /** Returns what keeps the endpoints of a file from being served. */
  problemOf(file: string): Problem | undefined {
    return this.problems.find(({ files }) => files === null || files.includes(file));
  }

  /** Returns the worker of an endpoint, with the newest code that could be read. */
  worker(endpoint: DeclaredEndpoint): LocalWorker {
    this.#called.delete(endpoint.name);
    this.#called.add(endpoint.name);
    const known = this.#serving.get(endpoint.name);
    return known === undefined || known.isOver ? this.#startWorker(endpoint) : known;
  }

  /** Returns its worker if there is one. */
  presentWorker(endpoint: DeclaredEndpoint): LocalWorker | undefined {
    return this.#serving.get(endpoint.name);
  }

  /** Returns a text that changes with the sources whose paths match. */
  marksOf(paths: RegExp): string {
    return this.#watch.marksOf(paths);
  }

  /** Settles when all changes so far were read. */
  async settled(): Promise<void> {
    await this.#reading;
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#watch.close();
    // A change that was just detected finishes first; it finds the project closed.
    await this.#reading;
    await Promise.all([this.#options.workers.close(), this.#reader.close()]);
    await removeHandlers(this.#options.folder);
  }

  #touched(): void {
    if (this.#isTouched || this.#closed) return;
    this.#isTouched = true;
    const since = performance.now();
    const before = this.#reading;
    this.#reading = Promise.all([before, pause(SETTLED_MS)]).then(() => {
      this.#isTouched = false;
      return this.#readChanged(since);
    });
  }

  /**
   * When an editor replaces a file by renaming, the event names only the temporary file: the present files are compared
   * instead.
   */
  async #readChanged(since: number): Promise<void> {
    if (this.#closed) return;
    const changed = await this.#watch.follow();
    if (changed.size > 0) await this.#read([...changed].sort(), since);
  }

  async #read(changed: readonly string[], since: number): Promise<void> {
    if (this.#closed) return;
    const { folder, events } = this.#options;
    const problems: Problem[] = [];
    let endpoints: readonly DeclaredEndpoint[] = [];
    try {
      const { application, errors } = await discoverFiles(folder, (name) => this.#options.variables()[name], this.#reader);
      for (const { file, error } of errors) problems.push(await problemOf(folder, [file], error));
      if (application.endpoints.length === 0 && errors.length === 0)
        throw new ToolError('INVALID_MANIFEST', `no endpoint is declared in ${folder}`, EXAMPLE);
      problems.push(...(await this.#options.prepare(application)));
      await writeHandlers(folder, application.endpoints, application.rules);
      this.#commands = await this.#commandsOf(application);
      ({ endpoints } = application);
    } catch (error) {
      // A file may disappear while it is read: the next change reads again.
      problems.push(await problemOf(folder, null, error));
    }
    // Calls in progress end on the code they began with.
    for (const worker of this.#serving.values()) worker.retire();
    this.#serving.clear();
    if (this.#closed) return;
    this.#version += 1;
    this.problems = problems;
    const names = new Set(endpoints.map(({ name }) => name));
    const kept = [...this.#endpoints.values()].filter((each) => this.problemOf(each.file) !== undefined && !names.has(each.name));
    this.#endpoints = new Map([...endpoints, ...kept].map((each) => [each.name, each]));
    this.routes = routesOf([...endpoints, ...kept]);
    const served = endpoints.filter((each) => this.problemOf(each.file) === undefined && this.isRunnable(each));
    const servers = served.filter(({ name }) => this.#commands.has(name));
    events.read({ routes: this.routes.filter(({ endpoint }) => served.includes(endpoint)), servers, problems, changed });
    void this.#warm(this.#inOrder(served, changed), changed, since);
  }

  async #commandsOf(application: DeclaredApplication): Promise<ReadonlyMap<string, readonly string[]>> {
    const servers = application.endpoints.filter(
      ({ app, settings }) => app !== null || (settings.command.length > 0 && settings.loadBalanced),
    );
    return new Map(await Promise.all(servers.map(async (each) => [each.name, await this.#options.commandOf(each, application)] as const)));
  }

  /** Endpoints of changed files first, then those that were called last. */
  #inOrder(endpoints: readonly DeclaredEndpoint[], changed: readonly string[]): DeclaredEndpoint[] {
    const calls = [...this.#called];
    const rank = ({ file, name }: DeclaredEndpoint): number => (changed.includes(file) ? calls.length + 1 : 0) + calls.indexOf(name);
    return [...endpoints].sort((a, b) => rank(b) - rank(a));
  }

  /** Starts the workers that nobody has called, one after another. A call of another endpoint starts its worker at once. */
  async #warm(endpoints: readonly DeclaredEndpoint[], changed: readonly string[], since: number): Promise<void> {
    const version = this.#version;
    let isFirst = changed.length > 0;
    for (const endpoint of endpoints) {
      if (this.#closed || this.#version !== version) return;
      const worker = this.#serving.get(endpoint.name) ?? this.#startWorker(endpoint);
      // Callers receive the reason why it does not load.
      const isLoaded = await worker.ready.then(
        () => true,
        () => false,
      );
      if (isFirst && isLoaded && this.#version === version) this.#options.events.reloaded(changed, performance.now() - since);
      isFirst = false;
    }
    if (isFirst && !this.#closed) this.#options.events.reloaded(changed, performance.now() - since);
  }

  /** Secrets are variables of the shell or of `.env`, by their names. */
  #environmentOf(env: Readonly<Record<string, string>>): Record<string, string> {
    const variables = this.#options.variables();
    return withSecrets(env, (name) => variables[name]);
  }

  #startWorker(endpoint: DeclaredEndpoint): LocalWorker {
    const { name, language, settings, functions } = endpoint;
    const command = this.#commands.get(name) ?? [];
    const servesHttp = command.length > 0 || functions.some(({ route }) => route !== null);
    const worker = this.#options.workers.start({
      name,
      language,
      folder: this.#options.folder,
      functions: functionSpecs(endpoint),
      command,
      env: this.#environmentOf(settings.env),
      servesHttp,
      // One worker stands for the several of a deployed endpoint: an open stream must not block other requests.
      maxConcurrency: servesHttp ? Math.max(settings.maxConcurrency, LEAST_REQUESTS) : settings.maxConcurrency,
    });
    worker.ready.catch((error: unknown) => {
      if (!this.#closed && this.#serving.get(name) === worker) this.#options.events.loadFailed(endpoint, messageOf(error));
    });
    this.#serving.set(name, worker);
    return worker;
  }
}
