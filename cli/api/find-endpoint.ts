/** Finds an endpoint by its id or its name. */
import type { EndpointRow } from './endpoint-row.ts';
import { ToolError } from '../../terminal/tool-error.ts';

/** @throws CapstanError NOT_FOUND; INVALID_ARGUMENT when several environments have an endpoint of this name. */
export function findEndpoint(endpoints: readonly EndpointRow[], wanted: string): EndpointRow {
  const byId = endpoints.find(({ id }) => id === wanted);
  if (byId !== undefined) return byId;
  const named = endpoints.filter(({ name }) => name === wanted);
  const [first] = named;
  if (first === undefined)
    throw new ToolError('NOT_FOUND', `endpoint ${wanted} not found`, 'To list the endpoints: capstan endpoints list', {
      field: 'endpoint',
    });
  if (named.length === 1) return first;
  const places = named.map(({ id, environment }) => `${id} in ${environment}`).join(', ');
  throw new ToolError(
    'INVALID_ARGUMENT',
    `endpoint: ${JSON.stringify(wanted)} is ambiguous; use an ID: ${places}`,
    `Or name its environment: --env ${named[0]?.environment ?? ''}`,
    { field: 'endpoint' },
  );
}
