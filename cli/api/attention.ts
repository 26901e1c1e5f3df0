/** What needs attention now, as a gateway lists it. */
import { CapstanError } from '../../lib/errors.ts';
import type { GatewayClient } from './gateway-client.ts';

export interface AttentionRow {
  readonly kind: string;
  /** ISO 8601; null if unknown. */
  readonly since: string | null;
  readonly endpoint: string | null;
  readonly node: string | null;
  readonly message: string;
  /** Page and section of the docs. */
  readonly runbook: string;
}

export interface AttentionList {
  /** The most urgent first. */
  readonly items: readonly AttentionRow[];
  /** Number of items that are not listed. */
  readonly omitted: number;
}

const QUERY = '{ attention { omitted items { kind since endpoint node message runbook } } }';

/** Null when the key does not cover the whole account. */
export async function listAttention(client: GatewayClient): Promise<AttentionList | null> {
  try {
    return (await client.query<{ attention: AttentionList }>(QUERY)).attention;
  } catch (error) {
    if (error instanceof CapstanError && error.code === 'PERMISSION_DENIED') return null;
    throw error;
  }
}
