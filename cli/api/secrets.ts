/** Secrets of the account, as the gateway returns them: never with their values. */
import type { GatewayClient } from '../../client/gateway-client.ts';
import { DELETE_SECRET, LIST_SECRETS, SET_SECRET, type SecretRow } from '../../client/graphql/gen/operations.ts';

export type { SecretRow };

export async function listSecrets(client: GatewayClient): Promise<readonly SecretRow[]> {
  return (await client.query(LIST_SECRETS, {})).secrets;
}

export async function setSecret(
  client: GatewayClient,
  secret: { readonly name: string; readonly environment: string | null; readonly value: string },
): Promise<SecretRow> {
  return (await client.query(SET_SECRET, secret)).setSecret;
}

export async function deleteSecret(
  client: GatewayClient,
  secret: { readonly name: string; readonly environment: string | null },
): Promise<SecretRow> {
  return (await client.query(DELETE_SECRET, secret)).deleteSecret;
}
