/**
 * Generates the files that the development server's workers load. In Python these are the worker files themselves. In
 * Node a generated file for each endpoint loads its worker file with this SDK and takes the declaration from it.
 */
import { mkdir, rm, rmdir, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';

import { CallStyle, type FunctionSpec } from '../../proto/gen/capstan/v1/nodes.ts';
import { servedExports } from '../build/handlers-node.ts';
import { classSpecOf } from '../deploy/class-methods.ts';
import { withoutSamples } from '../deploy/parameters.ts';
import type { DeclaredApp, DeclaredEndpoint, DeclaredFunction } from '../discovery/declared.ts';

/** In the project's folder, because a worker loads nothing outside of it. */
const FOLDER = '.tool/dev';
/** This installation's SDK. */
const SDK = new URL('../../sdk/typescript/sdk.ts', import.meta.url).href;

/** Serves web applications with this installation's SDK. */
const SERVERS = new URL('../../sdk/typescript/worker/servers.ts', import.meta.url).href;
/** Enums and parameter properties need more than type stripping. */
const NODE_FLAGS = ['--experimental-transform-types', '--disable-warning=ExperimentalWarning', '--enable-source-maps'];

export async function writeHandlers(folder: string, endpoints: readonly DeclaredEndpoint[]): Promise<void> {
  const node = endpoints.filter(({ language, functions }) => language === 'node' && functions.length > 0);
  if (node.length === 0) return;
  await mkdir(join(folder, FOLDER), { recursive: true });
  await Promise.all(node.map((endpoint) => writeFile(join(folder, moduleOf(endpoint)), handlerOf(folder, endpoint))));
}

export async function removeHandlers(folder: string): Promise<void> {
  await rm(join(folder, FOLDER), { recursive: true, force: true });
  // The folder remains if it contains the output of a build.
  await rmdir(dirname(join(folder, FOLDER))).catch(() => undefined);
}

export function functionSpecs(endpoint: DeclaredEndpoint): FunctionSpec[] {
  const specs = new Map<string, FunctionSpec>();
  for (const fn of endpoint.functions) if (!specs.has(fn.name)) specs.set(fn.name, specOf(endpoint, fn));
  return [...specs.values()];
}

function specOf(endpoint: DeclaredEndpoint, { name, isClass, reading, methods }: DeclaredFunction): FunctionSpec {
  const module = moduleOf(endpoint);
  return {
    name,
    module,
    callStyle: isClass ? CallStyle.UNSPECIFIED : reading.style,
    parameters: isClass ? [] : withoutSamples(reading.parameters),
    ...(isClass
      ? classSpecOf(
          module,
          Object.entries(methods).map(([method, each]) => ({ name: method, ...each.reading })),
        )
      : {}),
  };
}

function moduleOf({ language, file, name }: DeclaredEndpoint): string {
  return language === 'python' ? file : `${FOLDER}/${name}.mjs`;
}

function handlerOf(folder: string, endpoint: DeclaredEndpoint): string {
  return `// Written by \`capstan run\` for the endpoint ${endpoint.name}; it goes when that ends.
const { declarations } = await import('@capstan/sdk');
await import(${JSON.stringify(pathToFileURL(join(folder, endpoint.file)).href)});
${servedExports(endpoint)}`;
}

/**
 * Writes the module that Node workers load first: it makes `@capstan/sdk` this SDK, loads it, and finds the packages that
 * the project does not have itself in `packages` (a folder with `node_modules`). Returns its path.
 */
export async function writePreload(folder: string, packages: string | null): Promise<string> {
  const path = join(folder, FOLDER, packages === null ? 'preload.mjs' : `preload-${basename(packages)}.mjs`);
  await mkdir(dirname(path), { recursive: true });
  await writeFile(
    path,
    `// Written by \`capstan run\`; it goes when that ends.
import { registerHooks } from 'node:module';
import { isMainThread } from 'node:worker_threads';

if (!isMainThread) {
${hooks(packages)}
  await import('@capstan/sdk');
}
`,
  );
  return path;
}

function hooks(packages: string | null): string {
  const from = packages === null ? 'undefined' : JSON.stringify(pathToFileURL(join(packages, 'package.json')).href);
  return `const parentURL = ${from};
const isBare = (specifier) => !/^([./]|[a-z]+:)/i.test(specifier);
registerHooks({
  resolve(specifier, context, next) {
    if (specifier === '@capstan/sdk') return { url: ${JSON.stringify(SDK)}, shortCircuit: true };
    try {
      return next(specifier, context);
    } catch (error) {
      if (parentURL === undefined || !isBare(specifier)) throw error;
      return next(specifier, { ...context, parentURL });
    }
  },
});`;
}

export interface ServerPrograms {
  /** A name on PATH or a path. */
  readonly python: string;
  /** As for `writePreload`. */
  readonly nodePackages: string | null;
}

/**
 * Writes the program that serves an endpoint's web application, and returns the command that runs it; the endpoint's own
 * command if it has one, else none.
 */
export async function commandOf(folder: string, endpoint: DeclaredEndpoint, programs: ServerPrograms): Promise<readonly string[]> {
  const { app, language, name, settings } = endpoint;
  if (app === null) return settings.command;
  const isPython = language === 'python';
  const path = join(folder, FOLDER, `${name}-serve.${isPython ? 'py' : 'mjs'}`);
  await mkdir(dirname(path), { recursive: true });
  await writeFile(
    path,
    isPython ? pythonServer(folder, endpoint, app) : nodeServer(folder, { endpoint, app, packages: programs.nodePackages }),
  );
  return isPython ? [programs.python, path] : [process.execPath, ...NODE_FLAGS, path];
}

function pythonServer(folder: string, { file, name }: DeclaredEndpoint, app: DeclaredApp): string {
  const found =
    app.file === null
      ? `built.declared_app(ROOT, ${JSON.stringify(file)}, ${JSON.stringify(name)})`
      : `built.app_of(ROOT, ${JSON.stringify(app.file)}, ${JSON.stringify(app.name)})`;
  return `"""Written by \`capstan run\`; it goes when that ends."""
import sys

ROOT = ${JSON.stringify(folder)}
sys.path[0:1] = [ROOT]

from capstan import built, servers  # noqa: E402

# multiprocessing imports this file again in the processes that it spawns.
if __name__ == "__main__":
    servers.serve(lambda: ${found})
`;
}

interface NodeApp {
  readonly endpoint: DeclaredEndpoint;
  readonly app: DeclaredApp;
  /** As for `writePreload`. */
  readonly packages: string | null;
}

function nodeServer(folder: string, { endpoint: { file, name }, app, packages }: NodeApp): string {
  const load = (path: string): string => `() => import(${JSON.stringify(pathToFileURL(join(folder, path)).href)})`;
  const source =
    app.file === null
      ? `{ endpoint: ${JSON.stringify(name)}, load: ${load(file)} }`
      : `{ name: ${JSON.stringify(app.name)}, load: ${load(app.file)} }`;
  return `// Written by \`capstan run\`; it goes when that ends.
import { registerHooks } from 'node:module';

${hooks(packages)}
const { serveApp } = await import(${JSON.stringify(SERVERS)});
await serveApp(${source});
`;
}
