/**
 * Follows the imports of an application's files in Node. What Node cannot load is refused with its place; what TypeScript
 * resolves and Node does not (loader-rules.ts) is told to the loaders of handlers.
 */
import { existsSync } from 'node:fs';
import { readFile, realpath } from 'node:fs/promises';
import { isBuiltin } from 'node:module';
import { extname, join, posix } from 'node:path';

import { parseModule, type ParsedModule } from '../signatures/exports.ts';
import { listFiles } from '../artifact/files.ts';
import { messageOf } from '../../lib/to-error.ts';
import { ToolError } from '../../terminal/tool-error.ts';
import { decodeSource } from '../../terminal/text-file.ts';
import type { FileError, NeededModule } from './declared.ts';
import { errorOf } from './file-error.ts';
import { compileDecorators } from './decorators.ts';
import { NO_MODULE, type CompiledSource, type LoaderRule } from './loader-rules.ts';
import { exportsOf, localNames, type ExportKind, type ModuleExports } from './node-exports.ts';
import { NodeResolver } from './node-resolver.ts';
import { importsOf, type Import, type ModuleImports, type Specifier } from './node-specifiers.ts';

const SOURCES = new Set(['.ts', '.mts', '.cts', '.js', '.mjs', '.cjs']);
/** Node loads these, too. */
const OTHERS = new Set(['.json', '.node', '.wasm']);
const TYPESCRIPT = /\.[mc]?ts$/;
/** `name`, `@scope/name`, with or without a path; no file, URL or `#import`. */
const PACKAGE = /^(?:@[\w.~-]+\/)?[\w~-][\w.~-]*(?:\/|$)/;
const DECLARATIONS = /\.d\.[mc]?ts$/;
/** Modules that pass a name on to one another; people write fewer. */
const MAX_DEPTH = 20;

export interface NodeImports {
  /** Packages that the files import. */
  readonly needed: readonly NeededModule[];
  /** By file. */
  readonly rules: ReadonlyMap<string, LoaderRule>;
  /** At most one for each of the given files. */
  readonly errors: readonly FileError[];
}

/** Reads the given files and all that they import of the project. Paths are relative to the folder. */
export async function readNodeImports(folder: string, files: readonly string[]): Promise<NodeImports> {
  const root = await realpath(folder);
  const { entries } = await listFiles(root, { skip: (name, path) => name === 'node_modules' || path === 'python_packages' });
  const reader = new ImportReader(root, new Set(entries.map(({ path }) => path)));
  const errors: FileError[] = [];
  for (const file of files) {
    try {
      await reader.follow(file);
    } catch (thrown) {
      errors.push(errorOf(file, thrown));
    }
  }
  return { rules: reader.rules, errors, needed: [...reader.needed.values()] };
}

const SCRIPT = /^[^-$/].*\.[cm]?[jt]s$/;

/** Returns the packages that scripts of commands import. What cannot be read may be for another program than Node. */
export async function neededByScripts(folder: string, commands: readonly (readonly string[])[]): Promise<readonly NeededModule[]> {
  const scripts = [...new Set(commands.flat())].filter((word) => SCRIPT.test(word)).map((word) => posix.normalize(word));
  const there = scripts.filter((path) => existsSync(join(folder, path)));
  return there.length === 0 ? [] : (await readNodeImports(folder, there)).needed;
}

class ImportReader {
  readonly #root: string;
  readonly #packed: ReadonlySet<string>;
  readonly #resolver: NodeResolver;
  readonly #modules = new Map<string, Promise<ParsedModule>>();
  readonly #exports = new Map<string, ModuleExports>();
  readonly #followed = new Map<string, Promise<readonly string[]>>();
  readonly rules = new Map<string, LoaderRule>();
  /** By name. */
  readonly needed = new Map<string, NeededModule>();

  /** `packed`: the files that an artifact contains. */
  constructor(root: string, packed: ReadonlySet<string>) {
    this.#root = root;
    this.#packed = packed;
    this.#resolver = new NodeResolver(root);
  }

  async follow(file: string): Promise<void> {
    const seen = new Set<string>();
    const waiting = [file];
    for (let each = waiting.pop(); each !== undefined; each = waiting.pop()) {
      if (seen.has(each)) continue;
      seen.add(each);
      const read = this.#followed.get(each) ?? this.#read(each);
      this.#followed.set(each, read);
      waiting.push(...(await read));
    }
  }

  /** Returns the sources that a file imports. */
  async #read(file: string): Promise<string[]> {
    const module = await this.#module(file);
    if (file.includes('\\')) throw refused(module, 0, 'Node imports no file whose name contains a backslash', 'Rename it.');
    const { imports, exported, fault, decorator, parameterDecorator, isEsm } = importsOf(module);
    if (fault !== undefined) throw refused(module, fault.start, fault.message, fault.hint);
    const rule = new RuleDraft(module);
    const next: string[] = [];
    for (const each of imports) {
      if (each.isType) continue;
      const target = await this.#target(module, each);
      if (target === undefined) {
        this.#note(module, each);
        continue;
      }
      if (DECLARATIONS.test(target.path)) {
        rule.link(each, NO_MODULE);
        for (const specifier of each.names) rule.type(specifier);
        continue;
      }
      const isJson = each.isStatic && isEsm && target.path.endsWith('.json') && !each.hasAttributes;
      if (!target.isPlain || isJson) rule.link(each, target.path);
      for (const specifier of each.names) {
        if (!(await this.#isType(module, specifier, target.path))) continue;
        if (each.isMixed && specifier.name === 'default')
          throw refused(
            module,
            specifier.start,
            `the default export of ${target.path} is a type`,
            'Import it by an `import type` of its own.',
          );
        rule.type(specifier);
      }
      if (SOURCES.has(extname(target.path))) next.push(target.path);
    }
    const local = exported.length === 0 ? undefined : localNames(module.program.body);
    for (const specifier of exported) {
      const stands = local?.get(specifier.name);
      const kind = typeof stands === 'object' ? await this.#kindElsewhere(file, stands.from, stands.name, 0) : stands;
      if (kind === 'type') rule.type(specifier);
    }
    const format = isEsm ? await this.#format(module) : undefined;
    if (decorator !== undefined)
      rule.compiled(decorator, await this.#compiled(module, rule.source, { decorator, parameterDecorator, isEsm }));
    const made = rule.made(format);
    if (made !== undefined) this.rules.set(file, made);
    return next;
  }

  /** `text`: the source with its types marked. */
  async #compiled(
    module: ParsedModule,
    text: string,
    { decorator, parameterDecorator, isEsm }: Pick<ModuleImports, 'parameterDecorator' | 'isEsm'> & { readonly decorator: number },
  ): Promise<CompiledSource> {
    const options = await this.#resolver.decorators(module.path);
    const former = 'For decorators of TypeScript before the standard (NestJS, TypeORM), set "experimentalDecorators" in tsconfig.json.';
    if (parameterDecorator !== undefined && options.experimentalDecorators !== true)
      throw refused(module, parameterDecorator, 'the standard has no decorators of parameters', former);
    try {
      return compileDecorators({ path: module.path, text, isEsm }, options);
    } catch (error) {
      const [why = ''] = messageOf(error).trim().split('\n');
      throw refused(
        module,
        decorator,
        `the decorators of this file cannot be compiled: ${why}`,
        options.experimentalDecorators === true ? 'Correct the file.' : former,
      );
    }
  }

  /** Notes what `node_modules` must have; tsconfig `paths` and the project's own files are not of it. */
  #note({ path, source }: ParsedModule, { specifier, start, isOptional }: Import): void {
    if (isOptional || isBuiltin(specifier) || !PACKAGE.test(specifier)) return;
    const name = specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/');
    if (this.needed.has(name)) return;
    const line = source.slice(0, start).split('\n').length;
    this.needed.set(name, { language: 'node', name, place: `${path}:${line}` });
  }

  /** Undefined for what is not a file of the project. */
  async #target(
    module: ParsedModule,
    { specifier, start, isStatic }: Import,
  ): Promise<{ readonly path: string; readonly isPlain: boolean } | undefined> {
    const found = await this.#resolver.resolve(module.path, specifier);
    if (found.kind === 'external') return undefined;
    if (found.kind === 'missing') {
      // An import() or a require() may stand in a `try`.
      if (!isStatic) return undefined;
      const form = [specifier.normalize('NFC'), specifier.normalize('NFD')].find((each) => each !== specifier);
      const other = form === undefined ? undefined : await this.#resolver.resolve(module.path, form);
      throw refused(
        module,
        start,
        `the import ${specifier} is not a file of the project`,
        other?.kind === 'file' ? 'The file has the same name in another Unicode form; rename it.' : 'Correct the import.',
      );
    }
    if (found.path.startsWith('node_modules/')) return undefined;
    const ending = extname(found.path);
    if (isStatic && !SOURCES.has(ending) && !OTHERS.has(ending))
      throw refused(
        module,
        start,
        `the import ${specifier} is ${found.path}, and Node loads no ${ending === '' ? 'file without extension' : ending}`,
        ending === '.tsx' || ending === '.jsx' ? 'Compile JSX to JavaScript before the build.' : 'Read it with readFile instead.',
      );
    if (!this.#packed.has(found.path))
      throw refused(
        module,
        start,
        `the import ${specifier} is ${found.path}, which an ignore file or its name keeps out of the artifact`,
        'Change the rule in .gitignore or .toolignore.',
      );
    return found;
  }

  /** Whether an imported name is a type, which Node would look for. */
  async #isType(module: ParsedModule, { name, start }: Specifier, target: string): Promise<boolean> {
    if (target.endsWith('.json')) {
      if (name === 'default') return false;
      throw refused(
        module,
        start,
        `${target} has no export ${name}: JSON has a default export only`,
        `Write: import data from './${target}'`,
      );
    }
    const kind = SOURCES.has(extname(target)) ? await this.#kindOf(target, name, 0) : 'unknown';
    if (kind === 'missing') throw refused(module, start, `${target} has no export ${name}`, 'Correct the import.');
    return kind === 'type';
  }

  async #kindOf(file: string, name: string, depth: number): Promise<ExportKind> {
    if (depth > MAX_DEPTH) return 'unknown';
    const { names, stars, isEsm } = await this.#exportsOf(file);
    if (!isEsm) return 'unknown';
    const own = names.get(name);
    if (typeof own === 'object') return this.#kindElsewhere(file, own.from, own.name, depth);
    if (own !== undefined || name === 'default') return own ?? 'missing';
    const kinds = await Promise.all(stars.map((from) => this.#kindElsewhere(file, from, name, depth)));
    return kinds.find((kind) => kind !== 'missing') ?? 'missing';
  }

  async #kindElsewhere(file: string, from: string, name: string, depth: number): Promise<ExportKind> {
    const found = await this.#resolver.resolve(file, from);
    if (found.kind !== 'file' || !SOURCES.has(extname(found.path))) return 'unknown';
    return DECLARATIONS.test(found.path) ? 'type' : this.#kindOf(found.path, name, depth + 1);
  }

  async #exportsOf(file: string): Promise<ModuleExports> {
    const known = this.#exports.get(file);
    if (known !== undefined) return known;
    const module = await this.#module(file);
    const found = exportsOf(module.program, importsOf(module).isEsm);
    this.#exports.set(file, found);
    return found;
  }

  /** The format of a file that Node would take for CommonJS, although it is a module. */
  async #format(module: ParsedModule): Promise<LoaderRule['format']> {
    const isTypeScript = TYPESCRIPT.test(module.path);
    if (/\.c[jt]s$/.test(module.path))
      throw refused(
        module,
        0,
        `import and export do not exist in ${extname(module.path)}, which Node loads as CommonJS`,
        'Rename it, or use require().',
      );
    if (/\.m[jt]s$/.test(module.path) || (await this.#resolver.packageType(module.path)) !== 'commonjs') return undefined;
    return isTypeScript ? 'module-typescript' : 'module';
  }

  #module(file: string): Promise<ParsedModule> {
    const read = async (): Promise<ParsedModule> =>
      parseModule({ path: file, source: decodeSource(await readFile(join(this.#root, file)), file) }, this.#root);
    const module = this.#modules.get(file) ?? read();
    this.#modules.set(file, module);
    return module;
  }
}

/** The rule of one file while it is read. */
class RuleDraft {
  readonly #module: ParsedModule;
  readonly #links: Record<string, string> = {};
  readonly #types: number[] = [];
  #reason: string | undefined;
  #compiled: CompiledSource | undefined;

  constructor(module: ParsedModule) {
    this.#module = module;
  }

  link({ specifier, start, isStatic }: Import, target: string): void {
    this.#links[specifier] = target;
    // An import() may never be reached.
    if (isStatic) this.#reason ??= `${placeOf(this.#module, start)}: Node does not find the import ${specifier}`;
  }

  type({ name, start }: Specifier): void {
    this.#types.push(start);
    this.#reason ??= `${placeOf(this.#module, start)}: ${name} is a type, which Node looks for at run time`;
  }

  /** The source with its imported types marked. */
  get source(): string {
    const { source } = this.#module;
    return this.#types.toSorted((one, other) => other - one).reduce((text, at) => `${text.slice(0, at)}type ${text.slice(at)}`, source);
  }

  compiled(start: number, compiled: CompiledSource): void {
    this.#compiled = compiled;
    this.#reason ??= `${placeOf(this.#module, start)}: Node does not compile decorators`;
  }

  /** Undefined when Node loads the file as it is. */
  made(format: LoaderRule['format']): LoaderRule | undefined {
    const compiled = this.#compiled;
    if (Object.keys(this.#links).length === 0 && this.#types.length === 0 && format === undefined && compiled === undefined)
      return undefined;
    if (format !== undefined)
      this.#reason ??= `${placeOf(this.#module, 0)}: the file is a module, and package.json says "type": "commonjs"`;
    return { links: this.#links, types: this.#types, format, reason: this.#reason, length: this.#module.source.length, compiled };
  }
}

function placeOf({ path, source }: ParsedModule, offset: number): string {
  const before = source.slice(0, offset);
  return `${path}:${before.split('\n').length}:${offset - before.lastIndexOf('\n')}`;
}

function refused(module: ParsedModule, offset: number, message: string, hint: string): ToolError {
  return new ToolError('INVALID_MANIFEST', `${placeOf(module, offset)}: ${message}`, hint);
}
