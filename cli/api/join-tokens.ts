/** Join tokens, as the gateway returns them. */
import type { GatewayClient } from './gateway-client.ts';

export interface JoinTokenRow {
  readonly id: string;
  /** The cell that nodes join with it. */
  readonly cell: string;
  readonly name: string;
  /** ISO 8601. */
  readonly createdAt: string | null;
  /** ISO 8601; null means that it does not expire. */
  readonly expiresAt: string | null;
  /** Null means no limit. */
  readonly maxUses: number | null;
  readonly uses: number;
}

const TOKEN = 'id cell name createdAt expiresAt maxUses uses';

export async function listJoinTokens(client: GatewayClient): Promise<JoinTokenRow[]> {
  return (await client.query<{ joinTokens: JoinTokenRow[] }>(`{ joinTokens { ${TOKEN} } }`)).joinTokens;
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
  const query = `mutation ($name: String, $expiresInS: Int, $maxUses: Int, $neverExpires: Boolean, $cell: String) {
    created: createJoinToken(name: $name, expiresInS: $expiresInS, maxUses: $maxUses, neverExpires: $neverExpires, cell: $cell) { plaintext token { ${TOKEN} } } }`;
  return (await client.query<{ created: { plaintext: string; token: JoinTokenRow } }>(query, { ...request })).created;
}

export async function revokeJoinToken(client: GatewayClient, id: string): Promise<JoinTokenRow> {
  const query = `mutation ($id: ID!) { revoked: revokeJoinToken(id: $id) { ${TOKEN} } }`;
  return (await client.query<{ revoked: JoinTokenRow }>(query, { id })).revoked;
}
