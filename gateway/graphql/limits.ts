/** How deep and how large a query may be: counted before anything is asked of the scheduler. Pure. */
import { Kind, type DocumentNode, type FragmentDefinitionNode, type SelectionSetNode } from 'graphql';

import { CapstanError } from '../../proto/errors.ts';

export const MAX_DEPTH = 20;
/** Fields, those of a fragment counted wherever it is spread. */
export const MAX_FIELDS = 1_000;
/** Root fields: each is at least one call of the scheduler. */
export const MAX_ROOT_FIELDS = 20;
/** Tokens of the query's text. */
export const MAX_TOKENS = 5_000;

/** @throws CapstanError INVALID_ARGUMENT naming the limit. The document has been validated: fragments do not spread themselves. */
export function checkLimits(document: DocumentNode): void {
  const fragments = new Map<string, FragmentDefinitionNode>();
  for (const definition of document.definitions) {
    if (definition.kind === Kind.FRAGMENT_DEFINITION) fragments.set(definition.name.value, definition);
  }
  for (const definition of document.definitions) {
    if (definition.kind !== Kind.OPERATION_DEFINITION) continue;
    const count = { fields: 0, root: 0 };
    measure(definition.selectionSet, 1, fragments, count);
  }
}

function measure(
  set: SelectionSetNode,
  depth: number,
  fragments: ReadonlyMap<string, FragmentDefinitionNode>,
  count: { fields: number; root: number },
): void {
  if (depth > MAX_DEPTH) throw refused(`is deeper than ${MAX_DEPTH} levels`);
  for (const selection of set.selections) {
    switch (selection.kind) {
      case Kind.FIELD: {
        count.fields += 1;
        if (depth === 1) count.root += 1;
        if (count.fields > MAX_FIELDS) throw refused(`asks for more than ${MAX_FIELDS} fields`);
        if (count.root > MAX_ROOT_FIELDS) throw refused(`asks for more than ${MAX_ROOT_FIELDS} fields at its root`);
        if (selection.selectionSet !== undefined) measure(selection.selectionSet, depth + 1, fragments, count);
        break;
      }
      case Kind.INLINE_FRAGMENT:
        measure(selection.selectionSet, depth, fragments, count);
        break;
      case Kind.FRAGMENT_SPREAD: {
        const fragment = fragments.get(selection.name.value);
        if (fragment !== undefined) measure(fragment.selectionSet, depth, fragments, count);
        break;
      }
      default:
    }
  }
}

function refused(why: string): CapstanError {
  return new CapstanError('INVALID_ARGUMENT', `query: ${why}`, { field: 'query' });
}
