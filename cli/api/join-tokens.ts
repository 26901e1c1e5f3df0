/** Join tokens, as the gateway returns them. */
import type { GatewayClient } from '../../client/gateway-client.ts';
import { CREATE_JOIN_TOKEN, LIST_JOIN_TOKENS, REVOKE_JOIN_TOKEN, type JoinTokenRow } from '../../client/graphql/gen/operations.ts';

export type { JoinTokenRow };

export async function listJoinTokens(client: GatewayClient): Promise<readonly JoinTokenRow[]> {
  return (await client.query(LIST_JOIN_TOKENS, {})).joinTokens;
}

/**
 * Only this result contains the token's plaintext. A null time means 24 hours unless `neverExpires`, a null number 100, a null cell
 * that of the client's own key.
 */
export async function createJoinToken(
  client: GatewayClient,
  request: {
    readonly name: string;
    readonly expiresInS: number | null;
    readonly maxUses: number | null;
    readonly neverExpires: boolean;
    readonly cell: string | null;
  },
): Promise<{ readonly plaintext: string; readonly token: JoinTokenRow }> {
  return (await client.query(CREATE_JOIN_TOKEN, request)).created;
}

export async function revokeJoinToken(client: GatewayClient, id: string): Promise<JoinTokenRow> {
  return (await client.query(REVOKE_JOIN_TOKEN, { id })).revoked;
}
