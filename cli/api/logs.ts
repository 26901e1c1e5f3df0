/** Searches log lines by GraphQL. */
import type { GatewayClient } from '../../client/gateway-client.ts';
import { SEARCH_LOGS, type LogFilter, type LogPage, type LogRow } from '../../client/graphql/gen/operations.ts';

export type { LogPage, LogRow };

/** Undefined values accept all lines. */
export type LogSearch = LogFilter;

export async function searchLogs(
  client: GatewayClient,
  endpoint: string,
  filter: LogSearch,
  { signal, ...page }: { readonly limit: number; readonly cursor: string | null; readonly waitMs?: number; readonly signal?: AbortSignal },
): Promise<LogPage> {
  return (await client.query(SEARCH_LOGS, { endpoint, filter, ...page }, signal)).searchLogs;
}
