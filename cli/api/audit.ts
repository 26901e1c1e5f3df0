/** The audit log, as the gateway returns it. */
import type { GatewayClient } from '../../client/gateway-client.ts';
import { LIST_AUDIT, type AuditFilter, type AuditRow } from '../../client/graphql/gen/operations.ts';

export type { AuditFilter, AuditRow };

export interface AuditQuery {
  readonly account: string | null;
  readonly filter: AuditFilter;
  /** The id to continue before; null for the newest. */
  readonly before: string | null;
  readonly limit: number;
}

/** Returns entries, newest first, and the id to continue before; null after the last. */
export async function auditPage(
  client: GatewayClient,
  wanted: AuditQuery,
): Promise<{ readonly entries: readonly AuditRow[]; readonly next: string | null }> {
  return (await client.query(LIST_AUDIT, wanted)).audit;
}
