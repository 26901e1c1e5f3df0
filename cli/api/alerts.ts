/** Where the account is told of incidents, as the gateway returns it: never with whole addresses. */
import type { GatewayClient } from '../../client/gateway-client.ts';
import {
  ADD_ALERT_CHANNEL,
  LIST_ALERT_CHANNELS,
  REMOVE_ALERT_CHANNEL,
  TEST_ALERT_CHANNEL,
  type AlertChannelRow,
} from '../../client/graphql/gen/operations.ts';

export type { AlertChannelRow };

export async function listAlertChannels(client: GatewayClient): Promise<readonly AlertChannelRow[]> {
  return (await client.query(LIST_ALERT_CHANNELS, {})).alertChannels;
}

export async function addAlertChannel(client: GatewayClient, channel: Pick<AlertChannelRow, 'kind' | 'address'>): Promise<AlertChannelRow> {
  return (await client.query(ADD_ALERT_CHANNEL, channel)).added;
}

/** Returns why the message was not delivered; null if it was. */
export async function testAlertChannel(client: GatewayClient, id: string): Promise<string | null> {
  return (await client.query(TEST_ALERT_CHANNEL, { id })).error;
}

export async function removeAlertChannel(client: GatewayClient, id: string): Promise<AlertChannelRow> {
  return (await client.query(REMOVE_ALERT_CHANNEL, { id })).removed;
}
