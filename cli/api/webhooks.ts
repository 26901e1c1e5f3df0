/** Undelivered webhooks and the secret that signs them, as the gateway returns them. */
import type { GatewayClient } from '../../client/gateway-client.ts';
import {
  GET_WEBHOOK_SECRET,
  LIST_WEBHOOKS,
  REDELIVER_WEBHOOK,
  ROTATE_WEBHOOK_SECRET,
  type ListWebhooksResult,
  type WebhookFields,
} from '../../client/graphql/gen/operations.ts';

export interface WebhookRow {
  /** The webhook-id that the receiver sees. */
  readonly id: string;
  readonly endpointId: string;
  readonly url: string;
  readonly state: 'pending' | 'failed';
  /** Failed attempts. */
  readonly tries: number;
  /** ISO 8601; null when it was given up. */
  readonly nextTry: string | null;
  /** When a webhook that was given up is deleted, ISO 8601. */
  readonly keptUntil: string | null;
  /** Why the last attempt failed. */
  readonly error: string;
}

const PAGE = 1_000;

export async function listWebhooks(client: GatewayClient): Promise<WebhookRow[]> {
  const rows: WebhookRow[] = [];
  for (let after: string | null = null; ;) {
    const { webhooks: page }: ListWebhooksResult = await client.query(LIST_WEBHOOKS, { after, limit: PAGE });
    rows.push(...page.webhooks.map(webhookOf));
    // Prevents an endless loop with a server that returns the same cursor again.
    if (page.next === null || page.next === after) return rows;
    after = page.next;
  }
}

export async function redeliverWebhook(client: GatewayClient, id: string): Promise<void> {
  await client.query(REDELIVER_WEBHOOK, { id });
}

export async function webhookSecret(client: GatewayClient): Promise<string> {
  return (await client.query(GET_WEBHOOK_SECRET, {})).webhookSecret;
}

/** `previousUntil`: ISO 8601, null when there was no earlier secret. */
export async function rotateWebhookSecret(
  client: GatewayClient,
): Promise<{ readonly secret: string; readonly previousUntil: string | null }> {
  return (await client.query(ROTATE_WEBHOOK_SECRET, {})).rotated;
}

function webhookOf({ id, endpoint, url, state, tries, dueAt, error }: WebhookFields): WebhookRow {
  const failed = state === 'FAILED';
  return {
    id,
    endpointId: endpoint,
    url,
    state: failed ? 'failed' : 'pending',
    tries,
    nextTry: failed ? null : dueAt,
    keptUntil: failed ? dueAt : null,
    error: error ?? '',
  };
}
