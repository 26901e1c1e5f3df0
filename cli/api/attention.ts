/** What needs attention now, as a gateway lists it. */
import { CapstanError } from '../../lib/errors.ts';
import type { GatewayClient } from '../../client/gateway-client.ts';
import { LIST_ATTENTION, type ListAttentionResult, type AttentionRow } from '../../client/graphql/gen/operations.ts';

export type { AttentionRow };

/** The most urgent first. */
export type AttentionList = ListAttentionResult['attention'];

/** Null when the key does not cover the whole account. */
export async function listAttention(client: GatewayClient): Promise<AttentionList | null> {
  try {
    return (await client.query(LIST_ATTENTION, {})).attention;
  } catch (error) {
    if (error instanceof CapstanError && error.code === 'PERMISSION_DENIED') return null;
    throw error;
  }
}
