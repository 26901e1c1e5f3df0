/** What needs attention now, as a gateway lists it. */
import { CapstanError } from '../../lib/errors.ts';
import type { GatewayClient } from './gateway-client.ts';

/** One incident: a cause with its effects. */
export interface AttentionRow {
  readonly kind: string;
  readonly severity: 'CRITICAL' | 'WARNING';
  /** What it is about, as people call it. */
  readonly subject: string;
  /** ISO 8601; null if unknown. */
  readonly since: string | null;
  readonly endpoint: string | null;
  readonly node: string | null;
  /** Begins with the subject. */
  readonly message: string;
  /** Page and section of the docs. */
  readonly runbook: string;
  readonly actions: readonly { readonly label: string; readonly command: string }[];
  /** What follows from it. */
  readonly effects: readonly Omit<AttentionRow, 'actions' | 'effects'>[];
}

export interface AttentionList {
  /** The most urgent first. */
  readonly items: readonly AttentionRow[];
  /** Number of items that are not listed. */
  readonly omitted: number;
}

const FIELDS = 'kind severity subject since endpoint node message runbook';
const QUERY = `{ attention { omitted items { ${FIELDS} actions { label command } effects { ${FIELDS} } } } }`;

/** Null when the key does not cover the whole account. */
export async function listAttention(client: GatewayClient): Promise<AttentionList | null> {
  try {
    return (await client.query<{ attention: AttentionList }>(QUERY)).attention;
  } catch (error) {
    if (error instanceof CapstanError && error.code === 'PERMISSION_DENIED') return null;
    throw error;
  }
}
