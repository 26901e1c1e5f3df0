/** The project's packages under development: installed once for the same declarations, and given to the workers. */
import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';

import type { LocalWorkers, openLocalEnvironment } from '../agent/local-workers.ts';
import { missingServers } from '../compiler/build/app-servers.ts';
import { missingModules } from '../compiler/build/missing-modules.ts';
import { nodeEnvironmentFor } from '../compiler/build/node-packages.ts';
import { environmentFor, type PythonEnvironment } from '../compiler/build/python-environment.ts';
import type { DeclaredApplication, DeclaredEndpoint, Language } from '../compiler/discovery/declared.ts';
import { createActivity } from '../terminal/activity.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { writePreload } from './handlers.ts';
import { problemOf, type Problem } from './problem.ts';
import { workerVariables, type DebugVariables } from './worker-variables.ts';

export interface DevPackagesOptions {
  readonly folder: string;
  /** Folder of the tool's cache, absolute. */
  readonly cacheDir: string;
  /** Variables of the shell and of `.env`, as they are now. */
  readonly variables: () => Readonly<Record<string, string | undefined>>;
  readonly workers: LocalWorkers;
  readonly openPython: typeof openLocalEnvironment;
  readonly debug: DebugVariables;
  /** Port of the debugger of Node, 0 for a free one; undefined for none. */
  readonly inspect: number | undefined;
  readonly terminal: Terminal;
  /** Returns a text that changes with the files from which packages are read. */
  readonly marks: () => string;
}

const PACKAGES_MISSING = 'Packages missing';

interface Known {
  /** What it was made from. */
  readonly from: string;
  readonly python: PythonEnvironment | null;
  /** Programs of the workers' own Python; undefined where they have the developer's. */
  readonly ownPython: string | undefined;
  readonly node: string | null;
  readonly problems: readonly Problem[];
}

export class DevPackages {
  readonly #options: DevPackagesOptions;
  #known: Known | undefined;
  /** What the workers were configured with, as text. */
  #configured = '';
  /** What was said last about imports. */
  #missing = '';

  constructor(options: DevPackagesOptions) {
    this.#options = options;
  }

  /** What the commands of web applications use. */
  get programs(): { readonly python: string; readonly nodePackages: string | null } {
    return { python: this.#python, nodePackages: this.#known?.node ?? null };
  }

  /**
   * Installs what the declarations need and is not there, and configures the workers. Returns what failed; endpoints of
   * the other language are served.
   */
  async prepare(application: DeclaredApplication): Promise<readonly Problem[]> {
    const { folder, variables, workers, debug, inspect, marks } = this.#options;
    const needs = application.endpoints.map(({ language, settings, imports, app, requiresPython = [] }) => [
      language,
      settings.dependencies,
      imports,
      app !== null,
      requiresPython,
    ]);
    const from = JSON.stringify([marks(), variables()['PATH'], application.pythonVersion, needs]);
    if (this.#known?.from !== from || isGone(this.#known.ownPython)) this.#known = await this.#install(application, from);
    const { python, ownPython, node, problems } = this.#known;
    const roots = application.pythonRoots.map((each) => join(folder, each));
    const config = {
      env: workerVariables(variables(), python, { debug, roots, python: ownPython }),
      python: this.#python,
      ...(inspect === undefined ? {} : { inspect }),
      preload: { python: inspect === undefined ? ['capstan'] : ['capstan', 'capstan_debug'], node: await writePreload(folder, node) },
    };
    const configured = JSON.stringify(config);
    if (configured !== this.#configured) workers.configure(config);
    this.#configured = configured;
    if (!problems.some(({ title }) => title === PACKAGES_MISSING)) await this.#warnOfImports(application, python);
    return problems;
  }

  get #python(): string {
    const { python, ownPython } = this.#known ?? {};
    return ownPython === undefined ? (python?.python ?? 'python3') : join(ownPython, 'python3');
  }

  /** Names imports of Python that a deployed worker would not find; here, too, they fail, unless the developer's own Python has them. */
  async #warnOfImports(application: DeclaredApplication, python: PythonEnvironment | null): Promise<void> {
    const needed = application.needed.filter(({ language }) => language === 'python');
    const packages = python === null ? [] : await readdir(python.path);
    const layers = [{ member: '', files: 0, packages: Object.fromEntries(packages.map((name) => [name, 0])) }];
    const warnings = await missingModules({ ...application, needed }, { layers, replacesNodeModules: false }, []);
    if (warnings.join() !== this.#missing) for (const text of warnings) this.#options.terminal.warn(text);
    this.#missing = warnings.join();
  }

  async #install(application: DeclaredApplication, from: string): Promise<Known> {
    const { folder, cacheDir, variables, terminal, inspect, openPython } = this.#options;
    const problems: Problem[] = [];
    const attempt = async <T>(language: Language, install: () => Promise<T>): Promise<T | null> => {
      try {
        return await install();
      } catch (error) {
        problems.push(await problemOf(folder, filesOf(application.endpoints, language), error, PACKAGES_MISSING));
        return null;
      }
    };
    const python = await attempt('python', () => {
      const values = variables();
      return environmentFor(withServers(application), { cacheDir, lookUp: (name) => values[name] }, terminal);
    });
    const env = Object.fromEntries(Object.entries(variables()).filter((each): each is [string, string] => each[1] !== undefined));
    const log = { warn: (fields: object, message: string) => terminal.warn(`${message}: ${JSON.stringify(fields)}`) };
    const ownPython =
      application.pythonVersion === null
        ? undefined
        : await openPython({ env, folders: [join(cacheDir, 'python')], log }, inspect === undefined ? [] : ['debugpy']);
    const declared = [...new Set(of(application.endpoints, 'node').flatMap(({ settings }) => settings.dependencies))].sort();
    const activity = createActivity(terminal);
    const node = await attempt('node', async () =>
      of(application.endpoints, 'node').length === 0 ? null : nodeEnvironmentFor({ folder, declared, cacheDir, activity }),
    );
    activity.end();
    return { from, python, ownPython, node, problems };
  }
}

/** Somebody cleared the cache. */
function isGone(programs: string | undefined): boolean {
  return programs !== undefined && !existsSync(programs);
}

function of(endpoints: readonly DeclaredEndpoint[], wanted: Language): DeclaredEndpoint[] {
  return endpoints.filter(({ language }) => language === wanted);
}

function filesOf(endpoints: readonly DeclaredEndpoint[], language: Language): string[] {
  return [...new Set(of(endpoints, language).map(({ file }) => file))];
}

/** Web applications get the servers that a build would add. */
function withServers(application: DeclaredApplication): DeclaredApplication {
  const python = of(application.endpoints, 'python');
  const given = python.flatMap(({ settings }) => settings.dependencies);
  const endpoints = application.endpoints.map((each) =>
    each.language === 'python' && each.app !== null
      ? { ...each, settings: { ...each.settings, dependencies: [...each.settings.dependencies, ...missingServers([each], given)] } }
      : each,
  );
  return { ...application, endpoints };
}
