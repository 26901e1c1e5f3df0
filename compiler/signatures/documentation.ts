/** Reads what documents show of a function: the comment of its author, and the defaults of its parameters. */
import type { Expression, Span } from 'oxc-parser';

import { MAX_DEFAULT_LENGTH, MAX_DESCRIPTION_LENGTH } from '../../lib/parameter-schemas.ts';
import type { ParsedModule } from './exports.ts';

const DEEPEST = 10;

/** Returns the text of the JSDoc comment before the statement that holds the function; undefined without one. */
export function commentOf(node: Span, { program, comments, source }: ParsedModule): string | undefined {
  const statement = program.body.find(({ start, end }) => start <= node.start && node.start < end);
  if (statement === undefined) return undefined;
  const comment = comments.findLast(({ type, value, end }) => type === 'Block' && value.startsWith('*') && end <= statement.start);
  if (comment === undefined || source.slice(comment.end, statement.start).trim() !== '') return undefined;
  const text = comment.value
    .slice(1)
    .split('\n')
    .map((line) => line.replace(/^\s*\* ?/, '').trimEnd())
    .join('\n')
    .trim();
  return text === '' ? undefined : text.slice(0, MAX_DESCRIPTION_LENGTH).toWellFormed();
}

/** Returns a default as JSON, where the source shows it. */
export function defaultOf(node: Expression): { readonly defaultValue?: string } {
  const value = valueOf(node, 0);
  const text = value === undefined || value === null ? undefined : JSON.stringify(value);
  return text === undefined || text.length > MAX_DEFAULT_LENGTH ? {} : { defaultValue: text };
}

/** Undefined for what is not a literal. */
function valueOf(node: Expression, depth: number): unknown {
  if (depth > DEEPEST) return undefined;
  switch (node.type) {
    case 'Literal':
      return typeof node.value === 'bigint' || node.value instanceof RegExp ? undefined : node.value;
    case 'TemplateLiteral':
      return node.expressions.length > 0 ? undefined : (node.quasis[0]?.value.cooked ?? undefined);
    case 'UnaryExpression': {
      const value = valueOf(node.argument, depth + 1);
      return node.operator === '-' && typeof value === 'number' ? -value : undefined;
    }
    case 'ArrayExpression': {
      const values = node.elements.map((each) => (each === null || each.type === 'SpreadElement' ? undefined : valueOf(each, depth + 1)));
      return values.includes(undefined) ? undefined : values;
    }
    case 'ObjectExpression': {
      const members: [string, unknown][] = [];
      for (const property of node.properties) {
        if (property.type === 'SpreadElement' || property.computed || property.key.type !== 'Identifier') return undefined;
        const value = valueOf(property.value, depth + 1);
        if (value === undefined) return undefined;
        members.push([property.key.name, value]);
      }
      return Object.fromEntries(members);
    }
    default:
      return undefined;
  }
}
