/** Limits the depth and size of a query, before it is validated and before any call of the scheduler. Pure. */
import { Kind, Lexer, Source, TokenKind, type DocumentNode, type FragmentDefinitionNode, type SelectionSetNode } from 'graphql';

import { CapstanError } from '../../lib/errors.ts';

const MAX_DEPTH = 20;
/** Fields; those of a fragment count wherever it is spread. */
const MAX_FIELDS = 1_000;
/** Root fields: each is at least one call of the scheduler. */
const MAX_ROOT_FIELDS = 20;
/** Tokens of the query's text. */
const MAX_TOKENS = 5_000;
/** Brackets open at once, including those of arguments. */
const MAX_BRACKETS = 64;

/**
 * Checks the text before it is parsed, because the parser recurses at each bracket.
 * @throws CapstanError INVALID_ARGUMENT naming the limit, GraphQLError when the text is not GraphQL.
 */
export function checkText(query: string): void {
  const lexer = new Lexer(new Source(query));
  let open = 0;
  for (let tokens = 0, token = lexer.advance(); token.kind !== TokenKind.EOF; token = lexer.advance()) {
    tokens += 1;
    if (tokens > MAX_TOKENS) throw refused(`has more than ${MAX_TOKENS} tokens`);
    switch (token.kind) {
      case TokenKind.BRACE_L:
      case TokenKind.BRACKET_L:
      case TokenKind.PAREN_L:
        open += 1;
        if (open > MAX_BRACKETS) throw refused(`is nested deeper than ${MAX_BRACKETS} brackets`);
        break;
      case TokenKind.BRACE_R:
      case TokenKind.BRACKET_R:
      case TokenKind.PAREN_R:
        open -= 1;
        break;
      default:
    }
  }
}

/**
 * @throws CapstanError INVALID_ARGUMENT naming the limit. The document may still be invalid: validation takes time
 * quadratic in the fields.
 */
export function checkLimits(document: DocumentNode): void {
  const fragments = new Map<string, FragmentDefinitionNode>();
  for (const definition of document.definitions) {
    if (definition.kind === Kind.FRAGMENT_DEFINITION) fragments.set(definition.name.value, definition);
  }
  for (const definition of document.definitions) {
    if (definition.kind !== Kind.OPERATION_DEFINITION) continue;
    measure(definition.selectionSet, 1, { fragments, within: new Set(), fields: 0, root: 0 });
  }
}

/** The counts of one operation. */
interface Count {
  readonly fragments: ReadonlyMap<string, FragmentDefinitionNode>;
  /** Fragments that are being spread. */
  readonly within: Set<string>;
  fields: number;
  root: number;
}

function measure(set: SelectionSetNode, depth: number, count: Count): void {
  if (depth > MAX_DEPTH) throw refused(`is deeper than ${MAX_DEPTH} levels`);
  for (const selection of set.selections) {
    switch (selection.kind) {
      case Kind.FIELD: {
        count.fields += 1;
        if (depth === 1) count.root += 1;
        if (count.fields > MAX_FIELDS) throw refused(`selects more than ${MAX_FIELDS} fields`);
        if (count.root > MAX_ROOT_FIELDS) throw refused(`selects more than ${MAX_ROOT_FIELDS} root fields`);
        if (selection.selectionSet !== undefined) measure(selection.selectionSet, depth + 1, count);
        break;
      }
      case Kind.INLINE_FRAGMENT:
        measure(selection.selectionSet, depth, count);
        break;
      case Kind.FRAGMENT_SPREAD: {
        const { value: name } = selection.name;
        const fragment = count.fragments.get(name);
        // Validation rejects a fragment that spreads itself.
        if (fragment === undefined || count.within.has(name)) break;
        count.fields += 1;
        if (count.fields > MAX_FIELDS) throw refused(`selects more than ${MAX_FIELDS} fields`);
        count.within.add(name);
        measure(fragment.selectionSet, depth, count);
        count.within.delete(name);
        break;
      }
      default:
    }
  }
}

function refused(why: string): CapstanError {
  return new CapstanError('INVALID_ARGUMENT', `query: ${why}`, { field: 'query' });
}
