/** The imports of one module of Node, and the syntax in it that Node cannot load. */
import type { ParsedModule } from '../signatures/exports.ts';

/** A name that is imported from a module, and its offset in the source. */
export interface Specifier {
  readonly name: string;
  readonly start: number;
}

export interface Import {
  readonly specifier: string;
  /** Offset in the source. */
  readonly start: number;
  /** `import … from` and `export … from`; false for import() and require(). */
  readonly isStatic: boolean;
  /** Nothing of it exists at run time. */
  readonly isType: boolean;
  /** `with { type: 'json' }`. */
  readonly hasAttributes: boolean;
  /** Without namespaces, and without names that are marked as types. */
  readonly names: readonly Specifier[];
  /** It stands in a `try`, or may not run: what it names may be missing. */
  readonly isOptional: boolean;
  /** A default import beside other names: TypeScript allows no `type` there. */
  readonly isMixed: boolean;
}

export interface Fault {
  readonly start: number;
  readonly message: string;
  readonly hint: string;
}

export interface ModuleImports {
  readonly imports: readonly Import[];
  /** Local names that `export { … }` exports. */
  readonly exported: readonly Specifier[];
  /** The first place that Node cannot load. */
  readonly fault: Fault | undefined;
  /** Offset of the first decorator; undefined without one. */
  readonly decorator: number | undefined;
  /** Offset of the first decorator of a parameter, which the standard does not have. */
  readonly parameterDecorator: number | undefined;
  /** The module has import or export declarations. */
  readonly isEsm: boolean;
}

/** What has decorators besides classes and their members. */
const PARAMETER = /^(Identifier|AssignmentPattern|ObjectPattern|ArrayPattern|RestElement|TSParameterProperty)$/;

interface Node {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [key: string]: unknown;
}

export function importsOf({ program }: ParsedModule): ModuleImports {
  const body = program.body as unknown as readonly Node[];
  const isEsm = body.some(({ type }) => /^(Import|Export(Named|Default|All))Declaration$/.test(type));
  const imports: Import[] = body.flatMap(staticImport);
  const faults: Fault[] = [];
  const decorators: number[] = [];
  const ofParameters: number[] = [];
  const tries: Node[] = [];
  visit(program, (node) => {
    if (node.type === 'TryStatement') tries.push(node);
    if (PARAMETER.test(node.type)) ofParameters.push(...((node['decorators'] ?? []) as Node[]).map(({ start }) => start));
    if (node.type === 'ImportExpression') imports.push(...calledImport(node['source'] as Node));
    else if (node.type === 'CallExpression' && isRequire(node['callee'] as Node))
      imports.push(...calledImport((node['arguments'] as Node[])[0]));
    else if (node.type === 'Decorator') decorators.push(node.start);
    else if (isEsm && (node.type === 'TSExportAssignment' || isImportRequire(node)))
      faults.push({
        start: node.start,
        message: `${node.type === 'TSExportAssignment' ? 'export =' : 'import … = require()'} is CommonJS, and this file is a module`,
        hint: "Write `export default …` and `import … from '…'`.",
      });
  });
  const inTry = ({ start, isStatic }: Import): boolean => !isStatic && tries.some((each) => each.start <= start && start < each.end);
  return {
    imports: imports.map((each) => ({ ...each, isOptional: inTry(each) })),
    exported: body.flatMap(localExports),
    fault: faults.sort((one, other) => one.start - other.start)[0],
    decorator: decorators.sort((one, other) => one - other)[0],
    parameterDecorator: ofParameters.sort((one, other) => one - other)[0],
    isEsm,
  };
}

function staticImport(statement: Node): Import[] {
  const { type } = statement;
  const from = statement['source'] as Node | null | undefined;
  if (from === null || from === undefined || !/^(Import|ExportNamed|ExportAll)Declaration$/.test(type)) return [];
  const specifiers = (statement['specifiers'] ?? []) as Node[];
  const isMarked = (node: Node): boolean => node['importKind'] === 'type' || node['exportKind'] === 'type';
  const names = specifiers
    .filter((each) => each.type !== 'ImportNamespaceSpecifier' && !isMarked(each))
    .map((each) => ({ name: importedName(each), start: each.start }));
  return [
    {
      specifier: String(from['value']),
      start: from.start,
      isStatic: true,
      isType: isMarked(statement),
      hasAttributes: ((statement['attributes'] ?? []) as unknown[]).length > 0,
      names: isMarked(statement) ? [] : names,
      isOptional: false,
      isMixed: specifiers.length > 1 && specifiers[0]?.type === 'ImportDefaultSpecifier',
    },
  ];
}

function localExports(statement: Node): Specifier[] {
  if (statement.type !== 'ExportNamedDeclaration' || statement['source'] !== null || statement['exportKind'] === 'type') return [];
  return ((statement['specifiers'] ?? []) as Node[])
    .filter((each) => each['exportKind'] !== 'type')
    .map((each) => ({ name: importedName(each), start: each.start }));
}

function importedName(specifier: Node): string {
  if (specifier.type === 'ImportDefaultSpecifier') return 'default';
  const name = (specifier['imported'] ?? specifier['local']) as Node;
  return String(name['name'] ?? name['value']);
}

function calledImport(argument: Node | undefined): Import[] {
  if (argument?.type !== 'Literal' || typeof argument['value'] !== 'string') return [];
  return [
    {
      specifier: argument['value'],
      start: argument.start,
      isStatic: false,
      isType: false,
      hasAttributes: true,
      names: [],
      isOptional: false,
      isMixed: false,
    },
  ];
}

function isRequire(callee: Node): boolean {
  return callee.type === 'Identifier' && callee['name'] === 'require';
}

function isImportRequire(node: Node): boolean {
  return node.type === 'TSImportEqualsDeclaration' && (node['moduleReference'] as Node).type === 'TSExternalModuleReference';
}

function visit(value: unknown, each: (node: Node) => void): void {
  if (Array.isArray(value)) {
    for (const item of value) visit(item, each);
    return;
  }
  if (typeof value !== 'object' || value === null) return;
  if (typeof (value as Node).type === 'string') each(value as Node);
  for (const item of Object.values(value)) if (typeof item === 'object') visit(item, each);
}
