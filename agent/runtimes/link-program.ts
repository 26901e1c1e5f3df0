/**
 * Links a program of ours and the modules that it imports to one CommonJS script without comments. Each module that Node
 * loads keeps 80 KiB in its process, which counts where there is a process for each account.
 */
import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';

import { parse, type ExportNamedDeclaration, type Identifier, type ImportDeclaration, type Literal, type Token } from 'acorn';

interface Edit {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** Returns the script. Rejects where the modules use more than named imports of files and of Node's modules, and named exports. */
export async function linkProgram(entry: string): Promise<string> {
  const linker = new Linker();
  await linker.add(entry);
  return squeezed(`'use strict';\n${linker.modules.join('\n')}\n`);
}

class Linker {
  /** Each defines a constant that holds its exports. */
  readonly modules: string[] = [];
  /** Their constants; undefined while the modules that one imports are added. */
  readonly #names = new Map<string, string | undefined>();

  /** Adds a file behind those that it imports; returns the name of its constant. */
  async add(path: string): Promise<string> {
    const known = this.#names.get(path);
    if (known !== undefined) return known;
    if (this.#names.has(path)) throw new Error(`${path}: imports itself`);
    this.#names.set(path, undefined);
    const text = await readFile(path, 'utf8');
    const edits: Edit[] = [];
    const exported: string[] = [];
    for (const node of parse(text, { ecmaVersion: 'latest', sourceType: 'module' }).body) {
      const { start, end } = node;
      if (node.type === 'ImportDeclaration') edits.push({ start, end, text: await this.#importOf(node, path) });
      else if (node.type === 'ExportNamedDeclaration') {
        const { names, declaration } = exportOf(node, path);
        exported.push(...names);
        edits.push({ start, end: declaration ?? end, text: '' });
      } else if (node.type.startsWith('Export')) throw new Error(`${path}: ${node.type} is not supported`);
    }
    const name = `module${this.modules.length}`;
    this.modules.push(`const ${name} = (() => {\n${edited(text, edits)}\nreturn { ${exported.join(', ')} };\n})();`);
    this.#names.set(path, name);
    return name;
  }

  async #importOf({ source, specifiers }: ImportDeclaration, path: string): Promise<string> {
    const from = String(source.value);
    const pairs = specifiers.map((specifier) => {
      if (specifier.type !== 'ImportSpecifier') throw new Error(`${path}: ${specifier.type} is not supported`);
      return `${nameOf(specifier.imported)}: ${specifier.local.name}`;
    });
    if (!from.startsWith('.') && !from.startsWith('node:')) throw new Error(`${path}: imports the package ${from}`);
    const value = from.startsWith('.') ? await this.add(resolve(dirname(path), from)) : `require('${from}')`;
    return `const { ${pairs.join(', ')} } = ${value};`;
  }
}

/** Returns the exported names, and where the declaration begins that stays. */
function exportOf(node: ExportNamedDeclaration, path: string): { readonly names: string[]; readonly declaration: number | undefined } {
  const { declaration, specifiers, source } = node;
  if (source !== null && source !== undefined) throw new Error(`${path}: exports of another module are not supported`);
  if (declaration === null || declaration === undefined)
    return { names: specifiers.map(({ local, exported }) => `${nameOf(exported)}: ${nameOf(local)}`), declaration: undefined };
  if (declaration.type !== 'VariableDeclaration') return { names: [declaration.id.name], declaration: declaration.start };
  if (declaration.kind !== 'const') throw new Error(`${path}: exports a variable that may change`);
  const names = declaration.declarations.map(({ id }) => {
    if (id.type !== 'Identifier') throw new Error(`${path}: exports a pattern`);
    return id.name;
  });
  return { names, declaration: declaration.start };
}

function nameOf(node: Identifier | Literal): string {
  return node.type === 'Identifier' ? node.name : JSON.stringify(node.value);
}

function edited(text: string, edits: readonly Edit[]): string {
  let result = '';
  let at = 0;
  for (const { start, end, text: replacement } of edits) {
    result += text.slice(at, start) + replacement;
    at = end;
  }
  return result + text.slice(at);
}

/** Returns a script without comments and with a line end or a space for what is between two tokens. */
function squeezed(script: string): string {
  const tokens: Token[] = [];
  parse(script, { ecmaVersion: 'latest', sourceType: 'script', onToken: tokens });
  let result = '';
  let at = 0;
  for (const { start, end } of tokens) {
    const between = script.slice(at, start);
    result += (between.includes('\n') ? '\n' : between && ' ') + script.slice(start, end);
    at = end;
  }
  // With one character beyond Latin-1 the whole script takes two bytes a character.
  return result.replaceAll(/\P{ASCII}/gu, (character) => `\\u{${character.codePointAt(0)?.toString(16) ?? ''}}`);
}
