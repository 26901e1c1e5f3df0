/**
 * Converts our TypeScript to JavaScript for a package: Node strips no types inside `node_modules`. Node's own stripping keeps lines
 * and columns, so traces match the sources; only paths to other sources change.
 */
import { stripTypeScriptTypes } from 'node:module';

import { parseSync } from 'oxc-parser';

/** A file that is loaded later, or run: `new URL('./thread.ts', import.meta.url)`. */
const LOADED_LATER = /(new URL\(\s*(['"])[^'"\n]+)\.ts\2(?=\s*,\s*import\.meta\.url)/g;

export interface Script {
  readonly text: string;
  /** Relative paths of the files that it imports or loads, as rewritten. */
  readonly targets: readonly string[];
}

/** Returns the script of a source. @throws Error for an import that only shows its path when it runs. */
export function transpile(path: string, source: string): Script {
  const plain = path.endsWith('.ts') ? stripTypeScriptTypes(source) : source;
  const { module, errors } = parseSync(path.replace(/\.ts$/, '.js'), plain);
  if (errors.length > 0) throw new Error(`${path}: ${errors.map(({ message }) => message).join('; ')}`);
  const specifiers = [
    ...module.staticImports.map(({ moduleRequest }) => moduleRequest),
    ...module.staticExports.flatMap(({ entries }) => entries.flatMap(({ moduleRequest }) => moduleRequest ?? [])),
    ...module.dynamicImports.map(({ moduleRequest: { start, end } }) => ({ value: plain.slice(start + 1, end - 1), start, end })),
  ];
  const relative = specifiers.filter(({ value }) => value.startsWith('.'));
  // Replaced from the end, so that the other offsets stay valid.
  const ends = new Set(relative.filter(({ value }) => value.endsWith('.ts')).map(({ end }) => end));
  const rewritten = [...ends]
    .sort((a, b) => b - a)
    .reduce((text, end) => `${text.slice(0, end - 4)}.js${text.slice(end - 1)}`, plain)
    .replaceAll(LOADED_LATER, '$1.js$2');
  const later = [...rewritten.matchAll(/new URL\(\s*(['"])([^'"\n]+\.m?js)\1\s*,\s*import\.meta\.url/g)].map(([, , target = '']) => target);
  return { text: rewritten, targets: [...relative.map(({ value }) => value.replace(/\.ts$/, '.js')), ...later] };
}
