/** Finds the job id of a request: a path segment, `?id=`, or JSON `{"id":…}`. */
import type { FastifyRequest } from 'fastify';

import { CapstanError } from '../../../lib/errors.ts';
import { isId, printable } from '../../directory/ids.ts';
import { ID_RULE } from '../schemas.ts';

/** The job's id, or why there is none. */
export function jobIdOf(request: FastifyRequest): string | CapstanError {
  const { jobId } = request.params as { jobId?: string };
  let id: unknown = jobId ?? (request.query as { id?: string }).id;
  if (id === undefined) {
    // On a route without a schema for its body, a body that could not be read arrives as an error.
    if (request.body instanceof CapstanError) return request.body;
    id = (request.body as { id?: unknown } | null | undefined)?.id;
  }
  if (id === undefined || id === '') {
    return new CapstanError('INVALID_ARGUMENT', `id: ${ID_RULE}`, { field: 'id' });
  }
  if (typeof id !== 'string') return new CapstanError('INVALID_ARGUMENT', 'id: must be a string', { field: 'id' });
  if (!isId(id)) return new CapstanError('NOT_FOUND', `job ${printable(id)} does not exist`);
  return id;
}
