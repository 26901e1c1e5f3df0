/**
 * Finds the file of an import among a project's own, as TypeScript does: without extension, as a folder's index file, and
 * by `paths` and `baseUrl` of tsconfig.json. Node finds only what is named in full.
 */
import { readFile, realpath, stat } from 'node:fs/promises';
import { createRequire, isBuiltin } from 'node:module';
import { dirname, join, relative, resolve, sep } from 'node:path';

import { tsConfigFor, type DecoratorOptions, type TsConfig } from './tsconfig.ts';

/** TypeScript names the output of a source. */
const SOURCES: readonly (readonly [RegExp, readonly string[]])[] = [
  [/\.js$/, ['.ts', '.tsx', '.d.ts']],
  [/\.jsx$/, ['.tsx']],
  [/\.mjs$/, ['.mts']],
  [/\.cjs$/, ['.cts']],
];
const ENDINGS = ['.ts', '.tsx', '.d.ts', '.mts', '.cts', '.js', '.jsx', '.mjs', '.cjs', '.json'];
const INDEXES = ENDINGS.map((ending) => `/index${ending}`);

export type Resolved =
  /** `path`: relative to the project, links resolved. `isPlain`: Node finds it, too. */
  | { readonly kind: 'file'; readonly path: string; readonly isPlain: boolean }
  /** A package, or a module of Node. */
  | { readonly kind: 'external' }
  | { readonly kind: 'missing' };

export class NodeResolver {
  readonly #root: string;
  readonly #configs = new Map<string, Promise<TsConfig>>();
  readonly #types = new Map<string, Promise<string | undefined>>();

  /** `root`: the project's folder, links resolved. */
  constructor(root: string) {
    this.#root = root;
  }

  /** `from`: the importing file, relative to the project. */
  async resolve(from: string, specifier: string): Promise<Resolved> {
    const folder = dirname(join(this.#root, from));
    if (/^\.{1,2}(\/|$)/.test(specifier)) {
      const path = resolve(folder, specifier);
      const found = specifier.endsWith('/') ? await this.#first(INDEXES.map((each) => path + each)) : await this.#find(path);
      return found === undefined ? { kind: 'missing' } : { kind: 'file', path: found.path, isPlain: found.exact };
    }
    if (isBuiltin(specifier) || /^(\/|[a-z]+:)/i.test(specifier)) return { kind: 'external' };
    const mapped = await this.#mapped(folder, specifier);
    if (mapped !== undefined) return { kind: 'file', path: mapped, isPlain: false };
    return specifier.startsWith('#') ? this.#subpath(from, specifier) : { kind: 'external' };
  }

  /** The `type` of the package.json that applies to a file; undefined without one. */
  async packageType(file: string): Promise<string | undefined> {
    return this.#typeOf(dirname(join(this.#root, file)));
  }

  #typeOf(folder: string): Promise<string | undefined> {
    const known = this.#types.get(folder) ?? this.#readType(folder);
    this.#types.set(folder, known);
    return known;
  }

  async #readType(folder: string): Promise<string | undefined> {
    const text = await readFile(join(folder, 'package.json'), 'utf8').catch(() => null); // most folders have none
    if (text === null) return folder === this.#root || dirname(folder) === folder ? undefined : this.#typeOf(dirname(folder));
    try {
      const { type } = JSON.parse(text.replace(/^\ufeff/, '')) as { type?: unknown };
      return typeof type === 'string' ? type : undefined;
    } catch {
      return undefined; // the installation of packages reports it
    }
  }

  /** How the decorators of a file are compiled. */
  async decorators(file: string): Promise<DecoratorOptions> {
    return (await this.#config(dirname(join(this.#root, file)))).decorators;
  }

  #config(folder: string): Promise<TsConfig> {
    const config = this.#configs.get(folder) ?? tsConfigFor(folder, this.#root);
    this.#configs.set(folder, config);
    return config;
  }

  async #mapped(folder: string, specifier: string): Promise<string | undefined> {
    const { baseUrl, paths } = await this.#config(folder);
    for (const { pattern, targets } of paths) {
      const part = matched(pattern, specifier);
      if (part === undefined) continue;
      for (const target of targets) {
        const found = await this.#find(target.replace('*', () => part));
        if (found !== undefined) return found.path;
      }
      break;
    }
    return baseUrl === undefined ? undefined : (await this.#find(resolve(baseUrl, specifier)))?.path;
  }

  /** `imports` of package.json. Node's conditions differ for require(), which is what can be asked here. */
  #subpath(from: string, specifier: string): Resolved {
    try {
      const found = createRequire(join(this.#root, from)).resolve(specifier);
      return isInside(this.#root, found) && !found.includes('/node_modules/')
        ? { kind: 'file', path: this.#relative(found), isPlain: true }
        : { kind: 'external' };
    } catch {
      return { kind: 'external' };
    }
  }

  async #find(path: string): Promise<{ readonly path: string; readonly exact: boolean } | undefined> {
    const exact = await this.#first([path]);
    if (exact !== undefined) return { ...exact, exact: true };
    const outputs = SOURCES.flatMap(([ending, sources]) => (ending.test(path) ? sources.map((each) => path.replace(ending, each)) : []));
    const found = await this.#first([...outputs, ...ENDINGS.map((each) => path + each), ...INDEXES.map((each) => path + each)]);
    return found === undefined ? undefined : { ...found, exact: false };
  }

  async #first(candidates: readonly string[]): Promise<{ readonly path: string; readonly exact: boolean } | undefined> {
    for (const candidate of candidates) {
      const found = await stat(candidate).catch(() => undefined); // absent: another one may be there
      if (found?.isFile() !== true) continue;
      const real = await realpath(candidate);
      return isInside(this.#root, real) ? { path: this.#relative(real), exact: false } : undefined;
    }
    return undefined;
  }

  #relative(path: string): string {
    return relative(this.#root, path).split(sep).join('/');
  }
}

/** Returns what the star of a pattern stands for; an empty text for an equal name without a star. */
function matched(pattern: string, specifier: string): string | undefined {
  const star = pattern.indexOf('*');
  if (star === -1) return pattern === specifier ? '' : undefined;
  const [before, after] = [pattern.slice(0, star), pattern.slice(star + 1)];
  const fits = specifier.length >= before.length + after.length && specifier.startsWith(before) && specifier.endsWith(after);
  return fits ? specifier.slice(before.length, specifier.length - after.length) : undefined;
}

function isInside(root: string, path: string): boolean {
  return path.startsWith(root + sep);
}
