/** Decides what a key may do (scopes of proto KeyScope). Pure. */
import { assertNever, CapstanError } from '../../lib/errors.ts';
import { endpointNotFound } from '../../lib/job-errors.ts';
import { KeyScope } from '../../proto/gen/capstan/v1/control.ts';
import type { Endpoint, Key } from './directory.ts';
import { printable } from './ids.ts';

/**
 * `read` reads jobs by their ids, and counts; `list` lists jobs; `take` reads a stream, which consumes its chunks; `call` creates jobs, or
 * changes jobs by their ids; `purge` changes all jobs of an endpoint.
 */
export type Access = 'read' | 'list' | 'take' | 'call' | 'purge';

/**
 * Returns null when the key may do this with the endpoint. An endpoint of another account does not exist for the key; a
 * key whose scope is too small gets 401.
 */
export function refusal(key: Key, endpointId: string, endpoint: Endpoint | undefined, access: Access): CapstanError | null {
  // An account lives in one cell: a name that two cells have would be of two accounts.
  if (endpoint === undefined || endpoint.accountId !== key.accountId || endpoint.cell !== key.cell) {
    return noEndpoint(endpointId);
  }
  switch (key.scope) {
    case KeyScope.ALL:
    case KeyScope.OPERATOR:
      return null;
    case KeyScope.ENDPOINTS:
      if (key.endpointIds.has(endpoint.id)) return null;
      return new CapstanError('PERMISSION_DENIED', `this key does not cover the endpoint ${endpointId}`);
    case KeyScope.ENVIRONMENT:
      if (key.environment !== endpoint.environment)
        return new CapstanError('PERMISSION_DENIED', `this key covers only the environment ${key.environment}`);
      return concernsAllJobs(access) && key.workerOf !== undefined && key.workerOf !== endpoint.id ? notOfWorker() : null;
    case KeyScope.READ_ONLY:
      if (access === 'read' || access === 'list') return null;
      return new CapstanError(
        'PERMISSION_DENIED',
        access === 'take' ? 'this key is read-only, and reading a stream consumes its chunks' : 'this key is read-only',
      );
    case KeyScope.UNSPECIFIED:
    case KeyScope.UNRECOGNIZED:
      return new CapstanError('PERMISSION_DENIED', 'this key has a scope that this gateway does not support');
    default:
      return assertNever(key.scope);
  }
}

/** A worker reads the jobs that it submitted to other endpoints: it knows their ids. The others are those of their callers. */
function concernsAllJobs(access: Access): boolean {
  return access === 'list' || access === 'purge';
}

function notOfWorker(): CapstanError {
  return new CapstanError('PERMISSION_DENIED', "a worker's token lists and purges the jobs of its own endpoint only; name a job by its id");
}

/** Whether the endpoint exists for the key and is within its scope, whatever the access. */
export function covers(key: Key, endpoint: Endpoint): boolean {
  return refusal(key, endpoint.id, endpoint, 'read') === null;
}

/** Whether a key may do everything in its account. */
export function ownsAccount({ scope }: Key): boolean {
  return scope === KeyScope.ALL || scope === KeyScope.OPERATOR;
}

export function noEndpoint(id: string): CapstanError {
  return endpointNotFound(printable(id));
}
