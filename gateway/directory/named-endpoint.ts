/** Which endpoint a name means to a key. Pure. */
import { CapstanError } from '../../lib/errors.ts';
import type { Endpoint, Key } from './directory.ts';
import { printable } from './ids.ts';
import { covers } from './permission.ts';

/** Ids that the message of an ambiguous name lists. */
const LISTED = 20;

/** Returns those that the key covers: a name means nothing else to it, so that responses do not reveal the others. */
export function coveredBy(key: Key, named: readonly Endpoint[]): readonly Endpoint[] {
  return named.filter((endpoint) => covers(key, endpoint));
}

/**
 * Returns the only endpoint of a name that the key covers, else one that it does not; undefined when there is none.
 * @throws CapstanError CONFLICT with the ids when there are several.
 */
export function endpointMeant(key: Key, name: string, named: readonly Endpoint[]): Endpoint | undefined {
  const covered = coveredBy(key, named);
  // One that the key does not cover is refused with 401, as it is by its id.
  if (covered.length < 2) return covered[0] ?? named[0];
  const ids = covered.slice(0, LISTED).map(({ id, environment }) => `${id} in ${environment}`);
  const more = covered.length > LISTED ? ` and ${covered.length - LISTED} more` : '';
  throw new CapstanError('CONFLICT', `endpoint ${printable(name)} is ambiguous; use an id: ${ids.join(', ')}${more}`, {
    field: 'endpoint',
  });
}
