/** Which key may do what (scopes of proto KeyScope). Pure. */
import { assertNever, CapstanError } from '../../lib/errors.ts';
import { KeyScope, type EndpointEntry } from '../../proto/gen/capstan/v1/control.ts';
import type { Key } from '../directory/directory.ts';
import { printable } from '../http/ids.ts';

/** `read` looks at jobs and counts; `take` reads a stream, which takes its chunks; `call` makes or changes jobs. */
export type Access = 'read' | 'take' | 'call';

/**
 * Null when the key may do this with the endpoint. An endpoint of another account is not there;
 * a key whose scope is too small is refused with 401.
 */
export function refusal(key: Key, endpointId: string, endpoint: EndpointEntry | undefined, access: Access): CapstanError | null {
  if (endpoint === undefined || endpoint.accountId !== key.accountId) {
    return noEndpoint(endpointId);
  }
  switch (key.scope) {
    case KeyScope.ALL:
    case KeyScope.OPERATOR:
      return null;
    case KeyScope.ENDPOINTS:
      if (key.endpointIds.has(endpoint.id)) return null;
      return new CapstanError('PERMISSION_DENIED', `this key is not good for the endpoint ${endpoint.id}`);
    case KeyScope.ENVIRONMENT:
      if (key.environment === endpoint.environment) return null;
      return new CapstanError('PERMISSION_DENIED', `this key is good for the environment ${key.environment} only`);
    case KeyScope.READ_ONLY:
      if (access === 'read') return null;
      return new CapstanError(
        'PERMISSION_DENIED',
        access === 'take' ? 'this key may only read, and a read of a stream takes its chunks' : 'this key may only read',
      );
    case KeyScope.UNSPECIFIED:
    case KeyScope.UNRECOGNIZED:
      return new CapstanError('PERMISSION_DENIED', 'this key has no scope that the gateway knows');
    default:
      return assertNever(key.scope);
  }
}

/** Whether a key may do everything in its account. */
export function ownsAccount({ scope }: Key): boolean {
  return scope === KeyScope.ALL || scope === KeyScope.OPERATOR;
}

export function noEndpoint(id: string): CapstanError {
  return new CapstanError('NOT_FOUND', `endpoint ${printable(id)} does not exist`);
}
