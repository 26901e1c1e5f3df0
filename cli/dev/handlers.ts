/**
 * Generates the files that the development server's workers load. In Python these are the worker files themselves. In
 * Node a generated file for each endpoint loads its worker file with this SDK and takes the declaration from it.
 */
import { mkdir, rm, rmdir, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';

import { CallStyle, type FunctionSpec } from '../../proto/gen/capstan/v1/nodes.ts';
import { servedExports } from '../build/handlers-node.ts';
import { withoutSamples } from '../deploy/parameters.ts';
import type { DeclaredEndpoint, DeclaredFunction } from '../discovery/declared.ts';

/** In the project's folder, because a worker loads nothing outside of it. */
const FOLDER = '.tool/dev';
/** This installation's SDK. */
const SDK = new URL('../../sdk/typescript/sdk.ts', import.meta.url).href;

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

function specOf(endpoint: DeclaredEndpoint, { name, isClass, reading }: DeclaredFunction): FunctionSpec {
  return {
    name,
    module: moduleOf(endpoint),
    // The worker reads a class's methods after creating it.
    callStyle: isClass ? CallStyle.UNSPECIFIED : reading.style,
    parameters: isClass ? [] : withoutSamples(reading.parameters),
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
  const from = packages === null ? 'undefined' : JSON.stringify(pathToFileURL(join(packages, 'package.json')).href);
  await writeFile(
    path,
    `// Written by \`capstan run\`; it goes when that ends.
import { registerHooks } from 'node:module';
import { isMainThread } from 'node:worker_threads';

const parentURL = ${from};
const isBare = (specifier) => !/^([./]|[a-z]+:)/i.test(specifier);
if (!isMainThread) {
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
  });
  await import('@capstan/sdk');
}
`,
  );
  return path;
}
