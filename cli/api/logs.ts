/** Searches log lines by GraphQL. */
import type { GatewayClient } from './gateway-client.ts';

export interface LogRow {
  readonly at: string;
  readonly worker: string;
  readonly release: string | null;
  readonly job: string | null;
  readonly attempt: number | null;
  readonly stream: string;
  readonly level: string | null;
  readonly text: string;
  /** JSON text. */
  readonly fields: string | null;
}

/** Undefined values accept all lines. */
export interface LogSearch {
  readonly worker?: string | undefined;
  readonly job?: string | undefined;
  readonly release?: string | undefined;
  readonly stream?: string | undefined;
  readonly level?: string | undefined;
  readonly contains?: string | undefined;
  readonly pattern?: string | undefined;
  readonly sinceMs?: number | undefined;
  readonly untilMs?: number | undefined;
  readonly oldestFirst?: boolean;
}

export interface LogPage {
  /** Oldest first. */
  readonly lines: LogRow[];
  readonly cursor: string | null;
  readonly incomplete: boolean;
  readonly missingNodes: readonly string[];
  /** Nodes whose agents do not know the filter. */
  readonly unfilteredNodes: readonly string[];
}

export async function searchLogs(
  client: GatewayClient,
  endpoint: string,
  filter: LogSearch,
  { signal, ...page }: { readonly limit: number; readonly cursor: string | null; readonly waitMs?: number; readonly signal?: AbortSignal },
): Promise<LogPage> {
  const query = `query ($endpoint: ID!, $filter: LogFilter, $limit: Int, $cursor: String, $waitMs: Int) {
    searchLogs(endpoint: $endpoint, filter: $filter, limit: $limit, cursor: $cursor, waitMs: $waitMs) {
      cursor incomplete missingNodes unfilteredNodes lines { at worker release job attempt stream level text fields } } }`;
  return (await client.query<{ searchLogs: LogPage }>(query, { endpoint, filter, ...page }, signal)).searchLogs;
}
