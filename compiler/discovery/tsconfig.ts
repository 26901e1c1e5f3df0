/** `paths` and `baseUrl` of tsconfig.json or jsconfig.json, with what it extends. */
import { dirname, join, relative, resolve } from 'node:path';

import { parseSync, type Expression } from 'oxc-parser';

import { ToolError } from '../../terminal/tool-error.ts';
import { readText } from '../../terminal/text-file.ts';

export interface PathMapping {
  /** `@/*`, with at most one star. */
  readonly pattern: string;
  /** Absolute, in order, with at most one star each. */
  readonly targets: readonly string[];
}

export interface TsConfig {
  /** Absolute; undefined without one. */
  readonly baseUrl: string | undefined;
  /** Absolute; undefined without one. */
  readonly outDir?: string | undefined;
  /** The most specific first. */
  readonly paths: readonly PathMapping[];
  /** How decorators are compiled, and fields beside them. */
  readonly decorators: DecoratorOptions;
}

export interface DecoratorOptions {
  /** Those of TypeScript before the standard. */
  readonly experimentalDecorators?: boolean;
  /** Types of decorated members at run time. */
  readonly emitDecoratorMetadata?: boolean;
  /** Fields are defined, not assigned; absent: as the target says. */
  readonly useDefineForClassFields?: boolean;
  readonly target?: string;
}

const NAMES = ['tsconfig.json', 'jsconfig.json'] as const;
const NONE: TsConfig = { baseUrl: undefined, paths: [], decorators: {} };
/** Files that extend one another; people write fewer. */
const MAX_DEPTH = 20;

/** Returns what applies in a folder: its own file's settings, or those of the nearest folder above, up to `root`. */
export async function tsConfigFor(folder: string, root: string): Promise<TsConfig> {
  for (let at = folder; ; at = dirname(at)) {
    for (const name of NAMES) {
      const found = await readConfig(at, name, 0);
      if (found !== null) return found;
    }
    if (at === root || dirname(at) === at) return NONE;
  }
}

/** Returns `outDir` of a configuration, or of what it extends, relative to the folder; undefined when it is the folder or outside. */
export async function outputFolderOf(folder: string, name: string): Promise<string | undefined> {
  const found = (await readConfig(folder, name, 0))?.outDir;
  const path = found === undefined ? '' : relative(folder, found);
  return path === '' || path.startsWith('..') ? undefined : path;
}

async function readConfig(folder: string, name: string, depth: number): Promise<TsConfig | null> {
  const text = depth > MAX_DEPTH ? null : await readText(folder, name);
  if (text === null) return null;
  const content = objectOf(valueOf(text, join(folder, name)));
  const options = objectOf(content['compilerOptions']);
  let inherited = NONE;
  for (const each of [content['extends']].flat()) {
    // A package's configuration has no paths of this project.
    if (typeof each !== 'string' || !/^\.{0,2}\//.test(each)) continue;
    const path = resolve(folder, each);
    const more =
      (await readConfig(dirname(path), baseName(path), depth + 1)) ??
      (await readConfig(dirname(path), `${baseName(path)}.json`, depth + 1));
    inherited = { ...inherited, ...withoutUndefined(more ?? NONE) };
  }
  const base = options['baseUrl'];
  const baseUrl = typeof base === 'string' ? resolve(folder, base) : inherited.baseUrl;
  const paths = options['paths'] === undefined ? inherited.paths : mappingsOf(objectOf(options['paths']), baseUrl ?? folder);
  const out = options['outDir'];
  const decorators = { ...inherited.decorators, ...decoratorOptions(options) };
  return { baseUrl, paths, decorators, outDir: typeof out === 'string' ? resolve(folder, out) : inherited.outDir };
}

function decoratorOptions(options: Readonly<Record<string, unknown>>): DecoratorOptions {
  const flags = ['experimentalDecorators', 'emitDecoratorMetadata', 'useDefineForClassFields'] as const;
  const given = flags.flatMap((name) => (typeof options[name] === 'boolean' ? [[name, options[name]]] : []));
  const { target } = options;
  return { ...(Object.fromEntries(given) as DecoratorOptions), ...(typeof target === 'string' ? { target } : {}) };
}

function mappingsOf(paths: Readonly<Record<string, unknown>>, base: string): PathMapping[] {
  return Object.entries(paths)
    .map(([pattern, targets]) => ({
      pattern,
      targets: [targets].flat().flatMap((each) => (typeof each === 'string' ? [resolve(base, each)] : [])),
    }))
    .sort((one, other) => prefixLength(other.pattern) - prefixLength(one.pattern));
}

/** An exact name precedes every pattern. */
function prefixLength(pattern: string): number {
  const star = pattern.indexOf('*');
  return star === -1 ? Infinity : star;
}

/** Comments and trailing commas are allowed, as in JavaScript. */
function valueOf(text: string, path: string): unknown {
  const { program, errors } = parseSync('tsconfig.js', `(${text}\n)`);
  const [statement] = program.body;
  if (errors.length > 0 || statement?.type !== 'ExpressionStatement')
    throw new ToolError(
      'INVALID_MANIFEST',
      `${path} is not valid JSON: ${errors[0]?.message ?? 'it must be an object'}`,
      'Correct the file.',
    );
  return literalOf(statement.expression);
}

function literalOf(node: Expression): unknown {
  switch (node.type) {
    case 'ParenthesizedExpression':
      return literalOf(node.expression);
    case 'Literal':
      return node.value;
    case 'ArrayExpression':
      return node.elements.map((each) => (each === null || each.type === 'SpreadElement' ? undefined : literalOf(each)));
    case 'ObjectExpression':
      return Object.fromEntries(
        node.properties.flatMap((each) =>
          each.type === 'Property' && each.key.type === 'Literal' ? [[String(each.key.value), literalOf(each.value)]] : [],
        ),
      );
    default:
      return undefined;
  }
}

function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}

function withoutUndefined({ baseUrl, paths, outDir, decorators }: TsConfig): Partial<TsConfig> {
  return {
    ...(outDir === undefined ? {} : { outDir }),
    ...(baseUrl === undefined ? {} : { baseUrl }),
    ...(paths.length === 0 ? {} : { paths }),
    decorators,
  };
}

function baseName(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}
