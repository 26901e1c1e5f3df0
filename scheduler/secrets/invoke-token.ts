/**
 * What a node shows gateways: signed with the gateway token, which scheduler and gateways share, so
 * that a gateway needs to ask nobody. It ends by itself; the scheduler hands out new ones in time.
 */
import { createHmac } from 'node:crypto';

/** How long a token is good, ms. */
export const INVOKE_TOKEN_MS = 3_600_000;

/** The token of a node, `<node id>.<wall clock of its end, ms>.<signature>`. Secret. */
export function invokeToken(gatewayToken: string, node: string, wall: number): string {
  const claim = `${node}.${wall + INVOKE_TOKEN_MS}`;
  return `${claim}.${createHmac('sha256', gatewayToken).update(`invoke.${claim}`).digest('base64url')}`;
}
