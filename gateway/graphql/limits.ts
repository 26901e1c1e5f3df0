/** Limits the depth and size of a query, before it is validated and before any call of the scheduler. Pure. */
import {
  Kind,
  Lexer,
  Source,
  TokenKind,
  type DocumentNode,
  type FragmentDefinitionNode,
  type OperationDefinitionNode,
  type SelectionSetNode,
} from 'graphql';

import { CapstanError } from '../../lib/errors.ts';

const MAX_DEPTH = 20;
/** Fields; those of a fragment count wherever it is spread. */
const MAX_FIELDS = 1_000;
/** Root fields: each is at least one call of the scheduler. */
const MAX_ROOT_FIELDS = 20;
/** Fragments are compared with each other, and operations with the fragments that they spread. */
const MAX_FRAGMENTS = 50;
const MAX_OPERATIONS = 50;
/** Pairs of fields that select the same place in the response. */
const MAX_COMPARISONS = 5_000;
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
 * @throws CapstanError INVALID_ARGUMENT naming the limit. The document may still be invalid: validation compares each field with
 * every other one of the same place in the response, and each fragment with every other one.
 */
export function checkLimits({ definitions }: DocumentNode): void {
  const operations: OperationDefinitionNode[] = [];
  const fragments = new Map<string, FragmentDefinitionNode>();
  let ofFragments = 0;
  for (const definition of definitions) {
    if (definition.kind === Kind.OPERATION_DEFINITION) operations.push(definition);
    if (definition.kind !== Kind.FRAGMENT_DEFINITION) continue;
    fragments.set(definition.name.value, definition);
    ofFragments += 1;
  }
  if (operations.length > MAX_OPERATIONS) throw refused(`has more than ${MAX_OPERATIONS} operations`);
  if (ofFragments > MAX_FRAGMENTS) throw refused(`has more than ${MAX_FRAGMENTS} fragments`);
  const used = new Set<string>();
  let comparisons = 0;
  const check = (set: SelectionSetNode, within: Set<string>, rootFields: number): void => {
    const count: Count = { fragments, used, within, rootFields, fields: 0, root: 0, comparisons: 0 };
    measure(set, { depth: 1, place: newPlace() }, count);
    comparisons += count.comparisons;
  };
  for (const { selectionSet } of operations) check(selectionSet, new Set(), MAX_ROOT_FIELDS);
  // Validation examines a fragment that no operation spreads, too.
  for (const [name, { selectionSet }] of fragments) if (!used.has(name)) check(selectionSet, new Set([name]), Infinity);
  if (comparisons > MAX_COMPARISONS) throw refused(`selects the same fields more than ${MAX_COMPARISONS} times`);
}

/** A place in the response, with those below it by their names. */
interface Place {
  /** Fields of the query that select it. */
  fields: number;
  readonly below: Map<string, Place>;
}

function newPlace(): Place {
  return { fields: 0, below: new Map() };
}

interface Position {
  readonly depth: number;
  readonly place: Place;
}

/** The counts of one operation, or of one fragment that none spreads. */
interface Count {
  readonly fragments: ReadonlyMap<string, FragmentDefinitionNode>;
  /** Fragments that are spread somewhere. */
  readonly used: Set<string>;
  /** Fragments that are being spread. */
  readonly within: Set<string>;
  readonly rootFields: number;
  fields: number;
  root: number;
  /** Pairs of fields with the same place in the response. */
  comparisons: number;
}

function measure(set: SelectionSetNode, { depth, place }: Position, count: Count): void {
  if (depth > MAX_DEPTH) throw refused(`is deeper than ${MAX_DEPTH} levels`);
  for (const selection of set.selections) {
    switch (selection.kind) {
      case Kind.FIELD: {
        countField(count);
        if (depth === 1) count.root += 1;
        if (count.root > count.rootFields) throw refused(`selects more than ${MAX_ROOT_FIELDS} root fields`);
        const name = (selection.alias ?? selection.name).value;
        const selected = place.below.get(name) ?? newPlace();
        place.below.set(name, selected);
        count.comparisons += selected.fields;
        selected.fields += 1;
        if (selection.selectionSet !== undefined) measure(selection.selectionSet, { depth: depth + 1, place: selected }, count);
        break;
      }
      case Kind.INLINE_FRAGMENT:
        // Each one is visited, though it selects nothing itself.
        countField(count);
        measure(selection.selectionSet, { depth, place }, count);
        break;
      case Kind.FRAGMENT_SPREAD: {
        const { value: name } = selection.name;
        const fragment = count.fragments.get(name);
        countField(count);
        // Validation rejects a fragment that spreads itself.
        if (fragment === undefined || count.within.has(name)) break;
        count.used.add(name);
        count.within.add(name);
        measure(fragment.selectionSet, { depth, place }, count);
        count.within.delete(name);
        break;
      }
      default:
    }
  }
}

function countField(count: Count): void {
  count.fields += 1;
  if (count.fields > MAX_FIELDS) throw refused(`selects more than ${MAX_FIELDS} fields`);
}

function refused(why: string): CapstanError {
  return new CapstanError('INVALID_ARGUMENT', `query: ${why}`, { field: 'query' });
}
