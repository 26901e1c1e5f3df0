/** Secrets of the account, as the gateway returns them: never with their values. */
import type { GatewayClient } from './gateway-client.ts';

export interface SecretRow {
  readonly name: string;
  /** Null: for every environment. */
  readonly environment: string | null;
  /** ISO 8601. */
  readonly createdAt: string;
  readonly changedAt: string;
  /** `<environment>/<endpoint>`. */
  readonly usedBy: readonly string[];
}

const SECRET = 'name environment createdAt changedAt usedBy';

export async function listSecrets(client: GatewayClient): Promise<readonly SecretRow[]> {
  return (await client.query<{ secrets: SecretRow[] }>(`{ secrets { ${SECRET} } }`)).secrets;
}

export async function setSecret(
  client: GatewayClient,
  secret: { readonly name: string; readonly environment: string | null; readonly value: string },
): Promise<SecretRow> {
  const query = `mutation ($name: String!, $environment: String, $value: String!) {
    setSecret(name: $name, environment: $environment, value: $value) { ${SECRET} } }`;
  return (await client.query<{ setSecret: SecretRow }>(query, secret)).setSecret;
}

export async function deleteSecret(
  client: GatewayClient,
  secret: { readonly name: string; readonly environment: string | null },
): Promise<SecretRow> {
  const query = `mutation ($name: String!, $environment: String) { deleteSecret(name: $name, environment: $environment) { ${SECRET} } }`;
  return (await client.query<{ deleteSecret: SecretRow }>(query, secret)).deleteSecret;
}
