/** Finds an exported function in a module's syntax tree, through re-exports of the application's own files. */
import {
  parseSync,
  type ArrowFunctionExpression,
  type Class,
  type Comment,
  type Expression,
  type Function as FunctionNode,
  type Program,
} from 'oxc-parser';

import { ToolError } from '../../terminal/tool-error.ts';
import { readImport, type Module } from './modules.ts';

export type Callable = FunctionNode | ArrowFunctionExpression;

export interface ParsedModule extends Module {
  readonly program: Program;
  readonly comments: readonly Comment[];
  /** Folder of the application. */
  readonly folder: string;
}

/** What an export resolves to. */
export type Found =
  | { readonly kind: 'function'; readonly node: Callable; readonly module: ParsedModule }
  /** A class, at this place. */
  | { readonly kind: 'class'; readonly at: string; readonly node: Class; readonly module: ParsedModule }
  /** It exists, but what it is depends on running the module. */
  | { readonly kind: 'unclear' }
  /** `names`: the functions that exist. `hidden`: the place of a function of this name that is not exported. */
  | { readonly kind: 'missing'; readonly names: readonly string[]; readonly hidden: string | null };

type Declared = Callable | Class | 'unclear' | { readonly from: string; readonly name: string };

/** Follows at most this many re-exports, because they can form a cycle. */
const DEEPEST = 20;

/**
 * Parses a module.
 * @throws CapstanError INVALID_MANIFEST with file and line for a syntax error.
 */
export function parseModule(module: Module, folder: string): ParsedModule {
  // A .cjs file is a script, any other file may be either; the parser decides by the content.
  const result = parseSync(module.path, module.source);
  const parsed = { ...module, program: result.program, comments: result.comments, folder };
  const fault = result.errors.find((error) => error.severity === 'Error');
  if (fault !== undefined)
    throw new ToolError(
      'INVALID_MANIFEST',
      `${placeOf(module, fault.labels[0]?.start ?? 0)}:${columnOf(module, fault.labels[0]?.start ?? 0)}: ${lowerFirst(fault.message)}`,
      'Correct the source.',
    );
  return parsed;
}

/** Finds the exported function `name`; the default export counts if it has this name or is the only function. */
export async function findExport(module: ParsedModule, name: string, depth = 0): Promise<Found> {
  const { exported, passedOn, unclear } = readExports(module);
  const declared = exported.get(name) ?? defaultAs(exported, name);
  if (declared !== undefined) return follow(module, declared, depth);
  let mayBeElsewhere = unclear;
  for (const from of passedOn) {
    const found = await lookInto(module, from, name, depth);
    if (found.kind !== 'missing' && found.kind !== 'unclear') return found;
    mayBeElsewhere ||= found.kind === 'unclear';
  }
  if (mayBeElsewhere) return { kind: 'unclear' };
  const names = [...exported].flatMap(([key, value]) => (isCallable(value) ? [key] : []));
  const hidden = topLevel(module.program).get(name);
  return { kind: 'missing', names, hidden: isCallable(hidden) ? placeOf(module, hidden.start) : null };
}

/** Finds what a local name of a module stands for: declared there, or imported from the application's own files. */
export async function resolveName(module: ParsedModule, name: string): Promise<Found> {
  return follow(module, topLevel(module.program).get(name) ?? 'unclear', 0);
}

/** Returns `file:line` of an offset. */
function placeOf(module: Module, offset: number): string {
  return `${module.path}:${module.source.slice(0, offset).split('\n').length}`;
}

function columnOf({ source }: Module, offset: number): number {
  return offset - source.lastIndexOf('\n', offset - 1);
}

/** Declarations of the module's top level, by local name. */
export function topLevel(program: Program): Map<string, Declared> {
  const names = new Map<string, Declared>();
  for (const statement of program.body) {
    const node =
      statement.type === 'ExportNamedDeclaration' || statement.type === 'ExportDefaultDeclaration' ? statement.declaration : statement;
    if (node === null) continue;
    switch (node.type) {
      case 'FunctionDeclaration':
      case 'ClassDeclaration':
        if (node.id !== null) names.set(node.id.name, node);
        break;
      case 'VariableDeclaration':
        for (const { id, init } of node.declarations) if (id.type === 'Identifier') names.set(id.name, declaredBy(init));
        break;
      case 'ImportDeclaration':
        for (const specifier of node.specifiers) {
          const name = specifier.type === 'ImportSpecifier' ? nameOf(specifier.imported) : 'default';
          names.set(specifier.local.name, specifier.type === 'ImportNamespaceSpecifier' ? 'unclear' : { from: node.source.value, name });
        }
        break;
      default:
    }
  }
  return names;
}

interface Exports {
  readonly exported: Map<string, Declared>;
  /** Modules of `export * from`. */
  readonly passedOn: readonly string[];
  /** CommonJS whose exports are computed at run time. */
  readonly unclear: boolean;
}

function readExports({ program }: ParsedModule): Exports {
  const local = topLevel(program);
  const exported = new Map<string, Declared>();
  const passedOn: string[] = [];
  let unclear = false;
  const byName = (name: string): Declared => local.get(name) ?? 'unclear';
  const byExpression = (node: Expression): Declared => (node.type === 'Identifier' ? byName(node.name) : declaredBy(node));
  for (const node of program.body) {
    if (node.type === 'ExportAllDeclaration') passedOn.push(node.source.value);
    else if (node.type === 'ExportNamedDeclaration' && node.exportKind !== 'type') {
      for (const name of declaredNames(node.declaration)) exported.set(name, byName(name));
      for (const { local: inner, exported: outer } of node.specifiers) {
        exported.set(nameOf(outer), node.source === null ? byName(nameOf(inner)) : { from: node.source.value, name: nameOf(inner) });
      }
    } else if (node.type === 'ExportDefaultDeclaration') {
      const { declaration } = node;
      if (declaration.type === 'FunctionDeclaration' || declaration.type === 'ClassDeclaration') exported.set('default', declaration);
      else if (declaration.type !== 'TSInterfaceDeclaration' && declaration.type !== 'TSDeclareFunction')
        exported.set('default', byExpression(declaration));
    } else if (node.type === 'ExpressionStatement' && node.expression.type === 'AssignmentExpression') {
      const { left, right } = node.expression;
      const path = left.type === 'MemberExpression' ? memberPath(left) : null;
      if (path === null || (path[0] !== 'exports' && path.slice(0, 2).join('.') !== 'module.exports')) continue;
      const [key, ...more] = path.slice(path[0] === 'exports' ? 1 : 2);
      if (key !== undefined && more.length === 0) exported.set(key, byExpression(right));
      else if (key === undefined && right.type === 'ObjectExpression') {
        for (const property of right.properties) {
          if (property.type === 'Property' && !property.computed && property.key.type === 'Identifier')
            exported.set(property.key.name, byExpression(property.value));
          else unclear = true;
        }
      } else if (key === undefined && isCallable(byExpression(right))) exported.set('default', byExpression(right));
      else unclear = true;
    }
  }
  return { exported, passedOn, unclear };
}

async function follow(module: ParsedModule, declared: Declared, depth: number): Promise<Found> {
  if (declared === 'unclear') return { kind: 'unclear' };
  if ('from' in declared) return lookInto(module, declared.from, declared.name, depth);
  if (isCallable(declared)) return { kind: 'function', node: declared, module };
  return { kind: 'class', at: placeOf(module, declared.start), node: declared, module };
}

async function lookInto(module: ParsedModule, from: string, name: string, depth: number): Promise<Found> {
  if (!from.startsWith('.') || depth >= DEEPEST) return { kind: 'unclear' };
  const next = await readImport(module.folder, module.path, from);
  return next === null ? { kind: 'unclear' } : findExport(parseModule(next, module.folder), name, depth + 1);
}

function defaultAs(exported: ReadonlyMap<string, Declared>, name: string): Declared | undefined {
  const value = exported.get('default');
  if (value === undefined || !isCallable(value)) return undefined;
  const functions = [...exported.values()].filter(isCallable);
  return value.id?.name === name || functions.length === 1 ? value : undefined;
}

function declaredBy(node: Expression | null): Declared {
  switch (node?.type) {
    case 'FunctionExpression':
    case 'ArrowFunctionExpression':
    case 'ClassExpression':
      return node;
    case 'TSAsExpression':
    case 'TSSatisfiesExpression':
    case 'ParenthesizedExpression':
      return declaredBy(node.expression);
    default:
      return 'unclear';
  }
}

function declaredNames(node: unknown): string[] {
  const declaration = node as Program['body'][number] | null;
  if (declaration?.type === 'VariableDeclaration')
    return declaration.declarations.flatMap(({ id }) => (id.type === 'Identifier' ? [id.name] : []));
  if (declaration?.type === 'FunctionDeclaration' || declaration?.type === 'ClassDeclaration')
    return declaration.id === null ? [] : [declaration.id.name];
  return [];
}

function isCallable(declared: Declared | undefined): declared is Callable {
  return typeof declared === 'object' && 'params' in declared;
}

function nameOf(
  node: { readonly type: 'Identifier'; readonly name: string } | { readonly type: 'Literal'; readonly value: string },
): string {
  return node.type === 'Identifier' ? node.name : node.value;
}

/** `module.exports.run` → its names; null when a part is computed. */
function memberPath(node: Expression): string[] | null {
  if (node.type === 'Identifier') return [node.name];
  if (node.type !== 'MemberExpression' || node.computed || node.property.type !== 'Identifier') return null;
  const parent = memberPath(node.object);
  return parent === null ? null : [...parent, node.property.name];
}

function lowerFirst(text: string): string {
  return text.slice(0, 1).toLowerCase() + text.slice(1);
}
