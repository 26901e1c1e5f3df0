/** The expressions of a TypeScript or JavaScript file that may declare endpoints, and the names that hold and export their values. */
import type { CallExpression, Class, Expression, NewExpression, Statement } from 'oxc-parser';

import type { Callable } from '../signatures/exports.ts';

/** The expressions of a statement, each with the variable that receives its value. */
export function expressionsOf(statement: Statement): { readonly expression: Expression; readonly variable: string | null }[] {
  switch (statement.type) {
    case 'ExpressionStatement':
      return [assigned(statement.expression)];
    case 'VariableDeclaration':
      return statement.declarations.flatMap(({ id, init }) =>
        init === null ? [] : [{ expression: init, variable: id.type === 'Identifier' ? id.name : null }],
      );
    case 'ExportNamedDeclaration':
      return statement.declaration?.type === 'VariableDeclaration' ? expressionsOf(statement.declaration) : [];
    case 'ExportDefaultDeclaration':
      return statement.declaration.type.endsWith('Declaration')
        ? []
        : [{ expression: statement.declaration as Expression, variable: null }];
    default:
      return [];
  }
}

/** `exports.embed = …` also names its value. */
function assigned(expression: Expression): { readonly expression: Expression; readonly variable: string | null } {
  if (expression.type !== 'AssignmentExpression') return { expression, variable: null };
  const { left, right } = expression;
  const name = left.type === 'MemberExpression' && !left.computed && left.property.type === 'Identifier' ? left.property.name : null;
  return { expression: right, variable: name };
}

/** Names that `export { … }` and `exports.name = …` export unchanged. */
export function exportedNames(body: readonly Statement[]): Set<string> {
  const names = new Set<string>();
  for (const statement of body) {
    if (statement.type === 'ExportNamedDeclaration' && statement.source === null) {
      for (const { local, exported } of statement.specifiers) {
        if (local.type === 'Identifier' && exported.type === 'Identifier' && local.name === exported.name) names.add(local.name);
      }
    } else if (statement.type === 'ExpressionStatement' && statement.expression.type === 'AssignmentExpression') {
      const { variable } = assigned(statement.expression);
      if (variable !== null) names.add(variable);
    }
  }
  return names;
}

/** Returns the calls within a node, at any depth. */
export function callsWithin(node: unknown): readonly (NewExpression | CallExpression)[] {
  if (typeof node !== 'object' || node === null) return [];
  const inner = Object.values(node).flatMap((each: unknown) => callsWithin(each));
  const { type } = node as { readonly type?: unknown };
  return type === 'CallExpression' || type === 'NewExpression' ? [node as CallExpression, ...inner] : inner;
}

export function isFunctionNode(node: Expression): node is Expression & (Callable | Class) {
  return node.type === 'ArrowFunctionExpression' || node.type === 'FunctionExpression' || node.type === 'ClassExpression';
}

export function isClassNode(node: Callable | Class): node is Class {
  return node.type === 'ClassDeclaration' || node.type === 'ClassExpression';
}

/** An expression without parentheses, types and `await`. */
export function bare(node: Expression): Expression {
  switch (node.type) {
    case 'ParenthesizedExpression':
    case 'TSAsExpression':
    case 'TSSatisfiesExpression':
    case 'TSNonNullExpression':
    case 'AwaitExpression':
      return bare(node.type === 'AwaitExpression' ? node.argument : node.expression);
    default:
      return node;
  }
}
