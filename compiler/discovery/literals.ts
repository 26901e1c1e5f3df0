/**
 * Evaluates an expression of a source without running it: literals, constants of the same file, members of the SDK's
 * enumerations.
 */
import type { Expression, Program, Span } from 'oxc-parser';

import * as formerNames from '../../sdk/typescript/former-names.ts';
import { GpuGroup } from '../../sdk/typescript/gpus.ts';
import { keyOf } from '../signatures/property-key.ts';
import { secretReference, type VariableReference } from './settings.ts';

/** An expression whose value is known only at run time. */
export class NotLiteral extends Error {
  readonly node: Span;

  constructor(node: Span) {
    super('not a literal');
    this.node = node;
  }
}

export interface Scope {
  /** `const` declarations at module level. */
  readonly constants: ReadonlyMap<string, Expression>;
  /** The SDK's enumerations by their local names. */
  readonly enumerations: ReadonlyMap<string, string>;
  /** Local names of the SDK's function `secret`. */
  readonly secrets: ReadonlySet<string>;
  /** Local names of the SDK itself. */
  readonly packages: ReadonlySet<string>;
}

/** The SDK's enumerations: their members by name. */
export const ENUMERATIONS: ReadonlyMap<string, Readonly<Record<string, string>>> = new Map(Object.entries({ GpuGroup, ...formerNames }));
/** Constants may refer to constants. */
const DEEPEST = 20;

export function constantsOf(program: Program): Map<string, Expression> {
  const constants = new Map<string, Expression>();
  for (const statement of program.body) {
    const node = statement.type === 'ExportNamedDeclaration' ? statement.declaration : statement;
    if (node?.type !== 'VariableDeclaration' || node.kind !== 'const') continue;
    for (const { id, init } of node.declarations) if (id.type === 'Identifier' && init !== null) constants.set(id.name, init);
  }
  return constants;
}

/** @throws NotLiteral at the first expression that is not literal. */
export function literalOf(node: Expression, scope: Scope, depth = 0): unknown {
  switch (node.type) {
    case 'Literal':
      if (typeof node.value === 'bigint' || node.value instanceof RegExp) throw new NotLiteral(node);
      return node.value;
    case 'TemplateLiteral':
      if (node.expressions.length > 0) throw new NotLiteral(node);
      return node.quasis[0]?.value.cooked ?? '';
    case 'ArrayExpression':
      return node.elements.map((element) => {
        if (element === null || element.type === 'SpreadElement') throw new NotLiteral(node);
        return literalOf(element, scope, depth);
      });
    case 'ObjectExpression':
      return Object.fromEntries(
        node.properties.map((property) => {
          if (property.type !== 'Property') throw new NotLiteral(property);
          const name = keyOf(property);
          if (name === null) throw new NotLiteral(property);
          return [name, literalOf(property.value, scope, depth)];
        }),
      );
    case 'UnaryExpression': {
      const value = node.operator === '-' ? literalOf(node.argument, scope, depth) : undefined;
      if (typeof value !== 'number') throw new NotLiteral(node);
      return -value;
    }
    case 'TSAsExpression':
    case 'TSSatisfiesExpression':
    case 'TSNonNullExpression':
    case 'ParenthesizedExpression':
      return literalOf(node.expression, scope, depth);
    case 'Identifier': {
      if (node.name === 'undefined') return undefined;
      const constant = scope.constants.get(node.name);
      if (constant === undefined || depth >= DEEPEST) throw new NotLiteral(node);
      return literalOf(constant, scope, depth + 1);
    }
    case 'LogicalExpression': {
      const variable = node.operator === '??' ? variableOf(node.left) : null;
      const otherwise = variable === null ? undefined : literalOf(node.right, scope, depth);
      if (variable === null || typeof otherwise !== 'string') throw new NotLiteral(node);
      return { $variable: variable, default: otherwise } satisfies VariableReference;
    }
    case 'CallExpression': {
      const [argument] = node.arguments;
      if (!isSecret(node.callee, scope) || argument === undefined || argument.type === 'SpreadElement') throw new NotLiteral(node);
      const name = literalOf(argument, scope, depth);
      if (typeof name !== 'string') throw new NotLiteral(node);
      return secretReference(name);
    }
    case 'MemberExpression': {
      const variable = variableOf(node);
      if (variable !== null) return { $variable: variable, default: null } satisfies VariableReference;
      const member = enumerationMember(node, scope);
      if (member === null) throw new NotLiteral(node);
      return member;
    }
    default:
      throw new NotLiteral(node);
  }
}

/** `GpuGroup.ADA_24`, or the same after the SDK's own name. */
function enumerationMember(node: Expression, { enumerations, packages }: Scope): string | null {
  if (node.type !== 'MemberExpression' || node.computed || node.property.type !== 'Identifier') return null;
  const { object } = node;
  const enumeration = object.type === 'Identifier' ? enumerations.get(object.name) : memberOfPackage(object, packages);
  const members = enumeration === undefined ? undefined : ENUMERATIONS.get(enumeration);
  return members !== undefined && Object.hasOwn(members, node.property.name) ? (members[node.property.name] ?? null) : null;
}

/** `secret`, or `sdk.secret`. */
function isSecret(node: Expression, { secrets, packages }: Scope): boolean {
  return node.type === 'Identifier' ? secrets.has(node.name) : memberOfPackage(node, packages) === 'secret';
}

/** `GpuType` of `sdk.GpuType`. */
function memberOfPackage(node: Expression, packages: ReadonlySet<string>): string | undefined {
  if (node.type !== 'MemberExpression' || node.computed || node.property.type !== 'Identifier') return undefined;
  return node.object.type === 'Identifier' && packages.has(node.object.name) ? node.property.name : undefined;
}

/** `process.env.NAME` and `process.env['NAME']`. */
function variableOf(node: Expression): string | null {
  if (node.type !== 'MemberExpression' || node.object.type !== 'MemberExpression') return null;
  const { object } = node;
  const isEnvironment =
    object.object.type === 'Identifier' &&
    object.object.name === 'process' &&
    object.property.type === 'Identifier' &&
    object.property.name === 'env';
  if (!isEnvironment) return null;
  if (node.property.type === 'Identifier' && !node.computed) return node.property.name;
  return node.property.type === 'Literal' && typeof node.property.value === 'string' ? node.property.value : null;
}
