/** Finds a node by its id or its name. */
import { CapstanError } from '../../lib/errors.ts';
import type { NodeRow } from './nodes.ts';
import { ToolError } from '../../terminal/tool-error.ts';

/** @throws CapstanError NOT_FOUND; INVALID_ARGUMENT when several nodes have this name. */
export function findNode(nodes: readonly NodeRow[], wanted: string): NodeRow {
  const byId = nodes.find(({ id }) => id === wanted);
  if (byId !== undefined) return byId;
  const named = nodes.filter(({ name }) => name === wanted);
  const [first] = named;
  if (first === undefined)
    throw new ToolError('NOT_FOUND', `node ${wanted} not found`, 'To list the nodes: capstan node list', { field: 'node' });
  if (named.length === 1) return first;
  throw new CapstanError(
    'INVALID_ARGUMENT',
    `node: ${JSON.stringify(wanted)} is ambiguous; use an ID: ${named.map(({ id }) => id).join(', ')}`,
    { field: 'node' },
  );
}
