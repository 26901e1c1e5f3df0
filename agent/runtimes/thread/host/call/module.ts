/** Resolves a function of the manifest: finds the module in the build, loads it and selects the export. */
import { realpath, stat } from 'node:fs/promises';
import { resolve, sep } from 'node:path';
import { pathToFileURL } from 'node:url';

export type Handler = (...args: unknown[]) => unknown;

const EXTENSIONS = ['', '.ts', '.mts', '.js', '.mjs', '.cjs', '/index.ts', '/index.mts', '/index.js', '/index.mjs', '/index.cjs'];

/**
 * Loads the function `name` of `module`: the named export, otherwise the default export if it is a function of that
 * name or the only function. Throws an Error with a readable message.
 */
export async function loadHandler(root: string, module: string, name: string): Promise<Handler> {
  const file = await findModule(root, module);
  const loaded = (await import(pathToFileURL(file).href)) as Record<string, unknown>;
  return pickExport(loaded, module, name);
}

/** Returns the file of a module name: as given, with an extension, or (Python style) with dots for slashes. */
export async function findModule(root: string, module: string): Promise<string> {
  const names = module.includes('/') ? [module] : [module, module.replaceAll('.', '/')];
  const realRoot = await realpath(root);
  for (const name of names) {
    for (const extension of EXTENSIONS) {
      const candidate = resolve(realRoot, `${name}${extension}`);
      if (!candidate.startsWith(realRoot + sep) || !(await isFile(candidate))) continue;
      const real = await realpath(candidate);
      if (!real.startsWith(realRoot + sep)) throw new Error(`module ${module} is outside the build`);
      return real;
    }
  }
  throw new Error(`module not found in the build: ${module}`);
}

export function pickExport(loaded: Readonly<Record<string, unknown>>, module: string, name: string): Handler {
  const named = loaded[name];
  if (isFunction(named)) return named;
  const fallback = loaded['default'];
  const functions = Object.entries(loaded).filter(([, value]) => isFunction(value));
  if (isFunction(fallback) && (fallback.name === name || functions.length === 1)) return fallback;
  // For a CommonJS module whose exports Node could not detect, everything is in `default`.
  if (typeof fallback === 'object' && fallback !== null) {
    const inner = (fallback as Record<string, unknown>)[name];
    if (isFunction(inner)) return inner;
  }
  const has = functions.length === 0 ? 'it exports no function' : `its functions: ${functions.map(([key]) => key).join(', ')}`;
  throw new Error(`module ${module} has no function ${name} (${has})`);
}

function isFunction(value: unknown): value is Handler {
  return typeof value === 'function';
}

async function isFile(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isFile() === true;
}
