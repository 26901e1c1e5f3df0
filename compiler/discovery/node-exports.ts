/** What a module exports under a name: a value, or a type, which does not exist at run time. */
import type { Program, Statement } from 'oxc-parser';

export type ExportKind = 'value' | 'type' | 'missing' | 'unknown';

/** Another module's export. */
export interface Forwarded {
  readonly from: string;
  readonly name: string;
}

export interface ModuleExports {
  readonly names: ReadonlyMap<string, 'value' | 'type' | Forwarded>;
  /** Modules of `export * from`. */
  readonly stars: readonly string[];
  /** False for CommonJS, whose exports are known at run time. */
  readonly isEsm: boolean;
}

export function exportsOf({ body }: Program, isEsm: boolean): ModuleExports {
  const local = localNames(body);
  const names = new Map<string, 'value' | 'type' | Forwarded>();
  const stars: string[] = [];
  for (const statement of body) {
    if (statement.type === 'ExportAllDeclaration') {
      if (statement.exportKind === 'type') continue;
      if (statement.exported === null) stars.push(statement.source.value);
      else names.set(nameOf(statement.exported), 'value');
    } else if (statement.type === 'ExportDefaultDeclaration') {
      names.set('default', statement.declaration.type === 'TSInterfaceDeclaration' ? 'type' : 'value');
    } else if (statement.type === 'ExportNamedDeclaration') {
      if (statement.declaration !== null) for (const [name, kind] of declared(statement.declaration)) add(names, name, kind);
      for (const { local: inner, exported, exportKind } of statement.specifiers) {
        const isType = exportKind === 'type' || statement.exportKind === 'type';
        const target =
          statement.source === null ? (local.get(nameOf(inner)) ?? 'value') : { from: statement.source.value, name: nameOf(inner) };
        names.set(nameOf(exported), isType ? 'type' : target);
      }
    }
  }
  return { names, stars, isEsm };
}

/** Names of a module's top level: what they stand for. */
export function localNames(body: readonly Statement[]): Map<string, 'value' | 'type' | Forwarded> {
  const names = new Map<string, 'value' | 'type' | Forwarded>();
  for (const statement of body) {
    if (statement.type === 'ImportDeclaration') {
      for (const specifier of statement.specifiers) {
        const isType = statement.importKind === 'type' || (specifier.type === 'ImportSpecifier' && specifier.importKind === 'type');
        const name = specifier.type === 'ImportSpecifier' ? nameOf(specifier.imported) : 'default';
        const target = specifier.type === 'ImportNamespaceSpecifier' ? 'value' : { from: statement.source.value, name };
        names.set(specifier.local.name, isType ? 'type' : target);
      }
      continue;
    }
    const isExport = statement.type === 'ExportNamedDeclaration' || statement.type === 'ExportDefaultDeclaration';
    const node = (isExport ? statement.declaration : statement) as Statement | null;
    if (node !== null) for (const [name, kind] of declared(node)) add(names, name, kind);
  }
  return names;
}

/** A type and a value may share a name. */
function add(names: Map<string, 'value' | 'type' | Forwarded>, name: string, kind: 'value' | 'type'): void {
  if (names.get(name) !== 'value') names.set(name, kind);
}

function declared(node: Statement): [string, 'value' | 'type'][] {
  switch (node.type) {
    case 'VariableDeclaration':
      return node.declarations.flatMap(({ id }) => boundNames(id)).map((name) => [name, node.declare === true ? 'type' : 'value']);
    case 'FunctionDeclaration':
    case 'ClassDeclaration':
      return node.id === null ? [] : [[node.id.name, node.declare === true ? 'type' : 'value']];
    case 'TSEnumDeclaration':
      return [[node.id.name, node.declare ? 'type' : 'value']];
    case 'TSModuleDeclaration':
      return node.id.type === 'Identifier' ? [[node.id.name, node.declare ? 'type' : 'value']] : [];
    case 'TSImportEqualsDeclaration':
      return [[node.id.name, node.importKind === 'type' ? 'type' : 'value']];
    case 'TSInterfaceDeclaration':
    case 'TSTypeAliasDeclaration':
      return [[node.id.name, 'type']];
    case 'TSDeclareFunction':
      return node.id === null ? [] : [[node.id.name, 'type']];
    default:
      return [];
  }
}

/** The names of a pattern: `{ a, b: [c] }` → a, c. */
function boundNames(pattern: unknown): string[] {
  const node = pattern as { readonly type: string; readonly [key: string]: unknown } | null;
  switch (node?.type) {
    case 'Identifier':
      return [String(node['name'])];
    case 'ObjectPattern':
      return (node['properties'] as { value?: unknown; argument?: unknown }[]).flatMap(({ value, argument }) =>
        boundNames(value ?? argument),
      );
    case 'ArrayPattern':
      return (node['elements'] as unknown[]).flatMap(boundNames);
    case 'AssignmentPattern':
      return boundNames(node['left']);
    case 'RestElement':
      return boundNames(node['argument']);
    default:
      return [];
  }
}

function nameOf(node: { readonly type: string; readonly name?: string; readonly value?: unknown }): string {
  return node.type === 'Literal' ? String(node.value) : (node.name ?? '');
}
