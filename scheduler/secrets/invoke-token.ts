/**
 * A node's credential at gateways: signed with the gateway token, which scheduler and gateways share, so that a gateway
 * can verify it alone. It expires; the scheduler sends new ones in time.
 */
import { createHmac } from 'node:crypto';

/** Lifetime of a token, ms. */
export const INVOKE_TOKEN_MS = 3_600_000;

/** Returns the token of a node, `<node id>.<wall clock of its expiry, ms>.<signature>`. Secret. */
export function invokeToken(gatewayToken: string, node: string, wall: number): string {
  const claim = `${node}.${wall + INVOKE_TOKEN_MS}`;
  return `${claim}.${createHmac('sha256', gatewayToken).update(`invoke.${claim}`).digest('base64url')}`;
}
