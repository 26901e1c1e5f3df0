/** Where the account is told of incidents, as the gateway returns it: never with whole addresses. */
import type { GatewayClient } from './gateway-client.ts';

export interface AlertChannelRow {
  readonly id: string;
  readonly kind: 'WEBHOOK' | 'EMAIL';
  /** Without secrets. */
  readonly address: string;
  readonly wholeService: boolean;
  /** ISO 8601. */
  readonly createdAt: string;
  /** Incidents whose begin it was told, and whose end it was not. */
  readonly open: number;
  /** Why the last message was not delivered; null if it was. */
  readonly failure: string | null;
}

const CHANNEL = 'id kind address wholeService createdAt open failure';

export async function listAlertChannels(client: GatewayClient): Promise<readonly AlertChannelRow[]> {
  return (await client.query<{ alertChannels: AlertChannelRow[] }>(`{ alertChannels { ${CHANNEL} } }`)).alertChannels;
}

export async function addAlertChannel(client: GatewayClient, channel: Pick<AlertChannelRow, 'kind' | 'address'>): Promise<AlertChannelRow> {
  const query = `mutation ($kind: AlertChannelKind!, $address: String!) { added: addAlertChannel(kind: $kind, address: $address) { ${CHANNEL} } }`;
  return (await client.query<{ added: AlertChannelRow }>(query, channel)).added;
}

/** Returns why the message was not delivered; null if it was. */
export async function testAlertChannel(client: GatewayClient, id: string): Promise<string | null> {
  return (await client.query<{ error: string | null }>('mutation ($id: ID!) { error: testAlertChannel(id: $id) }', { id })).error;
}

export async function removeAlertChannel(client: GatewayClient, id: string): Promise<AlertChannelRow> {
  const query = `mutation ($id: ID!) { removed: removeAlertChannel(id: $id) { ${CHANNEL} } }`;
  return (await client.query<{ removed: AlertChannelRow }>(query, { id })).removed;
}
