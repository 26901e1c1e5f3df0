/**
 * What TypeScript finds and Node does not, for the loaders of handlers: the files of imports without extension or by an
 * alias, names that are types, modules that Node would take for CommonJS, and decorators.
 */

/** The target of an import of declarations, of which nothing exists at run time. */
export const NO_MODULE = 'data:text/javascript,export{}';

export interface LoaderRule {
  /** Specifier → file, relative to the project, or NO_MODULE. */
  readonly links: Readonly<Record<string, string>>;
  /** Offsets of imported names that are types, in the source. */
  readonly types: readonly number[];
  /** Of the file, where Node would choose another. */
  readonly format: 'module' | 'module-typescript' | undefined;
  /** `file:line:column: why` of the first that a program without the rule cannot load; undefined without one. */
  readonly reason: string | undefined;
  /** Of the source to which the offsets belong. */
  readonly length: number;
  /** What runs in place of a source with decorators; undefined for one without. */
  readonly compiled: CompiledSource | undefined;
}

export interface CompiledSource {
  /** JavaScript, with a source map. */
  readonly source: string;
  readonly format: 'module' | 'commonjs';
}

export type LoaderRules = ReadonlyMap<string, LoaderRule>;

/** Returns statements that make imports follow the rules. `urlOf`: an expression for the URL of a file. */
export function loaderHooks(rules: LoaderRules, urlOf: (file: string) => string): string {
  if (rules.size === 0) return '';
  const rows = [...rules].map(([file, { links, types, format, length, compiled }]) => {
    const targets = Object.entries(links).map(
      ([specifier, target]) => `[${JSON.stringify(specifier)}, ${target === NO_MODULE ? JSON.stringify(target) : urlOf(target)}]`,
    );
    return `  [${urlOf(file)}, { links: new Map([${targets.join(', ')}]), types: ${JSON.stringify(types.toSorted((one, other) => other - one))}, length: ${length}, format: ${JSON.stringify(format)}, compiled: ${JSON.stringify(compiled)} }],\n`;
  });
  return `const rules = new Map([
${rows.join('')}]);
// Imports as TypeScript resolves them, names that are types, and compiled decorators.
registerHooks({
  resolve(specifier, context, next) {
    const url = rules.get(context.parentURL)?.links.get(specifier);
    const json = url?.endsWith('.json') ? { importAttributes: { type: 'json' } } : {};
    const found = url === undefined ? next(specifier, context) : { url, shortCircuit: true, ...json };
    const format = rules.get(found.url)?.format;
    return format === undefined ? found : { ...found, format };
  },
  load(url, context, next) {
    const rule = rules.get(url);
    if (rule?.compiled !== undefined) return { ...rule.compiled, shortCircuit: true };
    const loaded = next(url, context);
    if (rule === undefined || rule.types.length === 0 || typeof loaded.source === 'undefined' || loaded.source === null) return loaded;
    let source = typeof loaded.source === 'string' ? loaded.source : new TextDecoder().decode(loaded.source);
    if (source.length !== rule.length) return loaded;
    for (const at of rule.types) source = \`\${source.slice(0, at)}type \${source.slice(at)}\`;
    return { ...loaded, source };
  },
});
`;
}
