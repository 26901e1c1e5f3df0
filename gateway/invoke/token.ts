/** Whether a node may serve requests here: the scheduler gave it a token that this gateway can check by itself. */
import { createHmac, timingSafeEqual } from 'node:crypto';

import { CapstanError } from '../../lib/errors.ts';

/**
 * The node behind a token, `<node id>.<wall clock of its end, ms>.<signature>`.
 * @throws CapstanError UNAUTHENTICATED, never showing the token.
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
