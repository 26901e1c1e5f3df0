/** Verifies a node's token, which the scheduler signed, without asking the scheduler. */
import { createHmac, timingSafeEqual } from 'node:crypto';

import { CapstanError } from '../../lib/errors.ts';

/**
 * Returns the node of a token, `<node id>.<wall clock of its end, ms>.<signature>`.
 * @throws CapstanError UNAUTHENTICATED, without the token in its message.
 */
export function nodeOf(token: string, gatewayToken: string, wall: number): string {
  const [node = '', until = '', signature = '', ...more] = token.split('.');
  const wanted = createHmac('sha256', gatewayToken).update(`invoke.${node}.${until}`).digest();
  const given = Buffer.from(signature, 'base64url');
  const fits = more.length === 0 && given.length === wanted.length && timingSafeEqual(given, wanted);
  if (!fits) throw new CapstanError('UNAUTHENTICATED', 'the node token is not valid');
  if (!(Number(until) > wall)) throw new CapstanError('UNAUTHENTICATED', 'the node token has expired');
  return node;
}
