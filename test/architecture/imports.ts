/**
 * Reads which file imports which: the facts behind the layer rule and the purity rule. The linter
 * holds both rules where it sees them (static imports, globals); what it cannot see (dynamic
 * imports, where a path really leads, what an import drags in) is checked on these facts.
 */
import { globSync, readFileSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { dirname, posix, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

import { parseSync } from 'oxc-parser';

/** How an import reaches its target: erased by type stripping, at load, or when a call runs. */
export type ImportKind = 'type' | 'static' | 'dynamic';

export interface Import {
  /** The importing file, relative to the repository root. */
  readonly from: string;
  readonly kind: ImportKind;
  /** As written; null when a dynamic import computes it. */
  readonly specifier: string | null;
  /** A file of ours relative to the root, `node:…`, or a package's name with its subpath. */
  readonly target: string;
}

export const root = resolve(dirname(fileURLToPath(import.meta.url)), '../..');

/** Folders of the layer table (docs/architecture.md, Folders). */
export const parts = [
  'proto',
  'lib',
  'scheduler',
  'agent',
  'gateway',
  'terminal',
  'compiler',
  'devserver',
  'supervisor',
  'client',
  'cli',
  'sdk',
  'tools',
] as const;
export type Part = (typeof parts)[number];

/** Every source file of the parts, generated code included (nothing generated may import a part either). */
export function sourceFiles(): string[] {
  return globSync(
    parts.map((part) => `${part}/**/*.{ts,mjs}`),
    { cwd: root, exclude: (name) => /(^|\/)(node_modules|dist)(\/|$)/.test(name) },
  )
    .map((file) => file.replaceAll('\\', '/'))
    .sort();
}

/** The imports of one file. */
export function importsOf(file: string, source = readFileSync(resolve(root, file), 'utf8')): Import[] {
  const { module, errors } = parseSync(file, source);
  if (errors.length > 0) throw new Error(`${file} does not parse: ${errors.map((error) => error.message).join('; ')}`);
  const found: Import[] = [];
  const add = (kind: ImportKind, specifier: string | null) =>
    found.push({ from: file, kind, specifier, target: specifier === null ? '(computed)' : locate(file, specifier) });

  for (const { entries, moduleRequest, start } of module.staticImports) {
    const erased = source.startsWith('import type', start) || (entries.length > 0 && entries.every((entry) => entry.isType));
    add(erased ? 'type' : 'static', moduleRequest.value);
  }
  for (const { entries } of module.staticExports) {
    for (const entry of entries) {
      if (entry.moduleRequest !== null) add(entry.isType ? 'type' : 'static', entry.moduleRequest.value);
    }
  }
  for (const { moduleRequest } of module.dynamicImports) {
    const text = source.slice(moduleRequest.start, moduleRequest.end);
    add('dynamic', /^'[^']*'$|^"[^"]*"$/.test(text) ? text.slice(1, -1) : null);
  }
  return found;
}

/** The part a file lies in, or null. */
export function partOf(target: string): Part | null {
  const folder = target.split('/')[0];
  return parts.find((part) => part === folder) ?? null;
}

function locate(from: string, specifier: string): string {
  if (specifier.startsWith('.')) {
    const target = posix.join(posix.dirname(from), specifier);
    if (target.startsWith('..'))
      throw new Error(`${from} imports ${specifier}, outside of ${relative(process.cwd(), root) || 'the repository'}`);
    return target;
  }
  if (builtinModules.includes(specifier)) return `node:${specifier}`;
  // The workspace's package name leads into its folder.
  if (specifier === '@capstan/sdk' || specifier.startsWith('@capstan/sdk/'))
    return `sdk/typescript${specifier.slice('@capstan/sdk'.length)}`;
  return specifier;
}
