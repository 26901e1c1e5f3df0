/** Keeps what a page shows up to date: by the stream of changes where there is one, else by polling while the page is visible. */
import { QueryClient, useMutation, useQuery, useQueryClient, type UseMutationResult, type UseQueryResult } from '@tanstack/react-query';

import { isLive, onChange, type Change } from './events.ts';
import { noteFailure, noteResponse } from './freshness.ts';
import { ApiError, LATE } from './request.ts';

const POLL_MS = 3_000;
/** For queries that the stream announces: what it does not cover is shown at the latest after this, ms. */
const LIVE_POLL_MS = 60_000;
/** An endpoint of which the stream said nothing for this long is quiet, ms: its plots stay as they are. */
const QUIET_MS = 60_000;
const MAX_RETRIES = 1;

/** Kinds of queries that change with endpoints: the first part of their key; the second is the endpoint, if it is one. */
const OF_ENDPOINTS: ReadonlySet<unknown> = new Set(['endpoints', 'endpoint', 'jobs', 'job', 'health']);

/** Kinds of queries that show whether nodes are connected, and what they reported. */
const OF_NODES: ReadonlySet<unknown> = new Set(['nodes', 'node', 'nodes-summary', 'node-names']);

/** Kinds of queries that follow what an endpoint does, step by step. */
const OF_ACTIVITY: ReadonlySet<unknown> = new Set(['history']);
/** When the stream last said something of an endpoint, by id. */
const changedAt = new Map<string, number>();

export const client = new QueryClient({
  defaultOptions: {
    queries: {
      refetchIntervalInBackground: false,
      // The service may be on this host or in this house: what the browser knows of its connection does not matter.
      networkMode: 'always',
      // A refusal stays one, and who waited for the time limit is told; the next poll is the retry of everything else.
      retry: (count, error) => count < MAX_RETRIES && isAway(error) && !(error instanceof ApiError && error.code === LATE),
      staleTime: 1_000,
    },
    mutations: { networkMode: 'always' },
  },
});

/** Reads what a change concerns again: at once in the visible tab, when it is shown in the others. */
onChange((change) => {
  noteActivity(change);
  void client.invalidateQueries({
    predicate: ({ queryKey }) => isConcerned(queryKey, change),
    refetchType: document.visibilityState === 'visible' ? 'active' : 'none',
  });
});

/** Reads plots of endpoints that were quiet at once; while they are busy, these poll. */
function noteActivity({ endpoints }: Change): void {
  const now = performance.now();
  for (const { id } of endpoints) {
    if (isQuiet(id)) void client.invalidateQueries({ predicate: ({ queryKey: [kind, of] }) => OF_ACTIVITY.has(kind) && of === id });
    changedAt.set(id, now);
  }
}

/** Whether the gateway or the scheduler did not answer: a refusal stays one. */
function isAway(error: unknown): boolean {
  return error !== null && !(error instanceof ApiError && error.status >= 400 && error.status < 500);
}

function isQuiet(endpoint: unknown): boolean {
  return performance.now() - (changedAt.get(String(endpoint)) ?? Number.NEGATIVE_INFINITY) > QUIET_MS;
}

function isConcerned([kind, endpoint]: readonly unknown[], { kind: what, endpoints, removed }: Change): boolean {
  if (!OF_ENDPOINTS.has(kind)) return false;
  if (what === 'all' || kind === 'endpoints') return true;
  return endpoints.some(({ id }) => id === endpoint) || removed.some((id) => id === endpoint);
}

/** Reads `key` and again when it may have changed. `everyMs` false reads once. */
export function useLive<T>(
  key: readonly unknown[],
  read: (signal: AbortSignal) => Promise<T>,
  everyMs: number | false = POLL_MS,
): UseQueryResult<T> {
  const interval = ({ state }: { state: { error: unknown } }): number | false => {
    if (everyMs === false) return false;
    // What was away is looked for more often, and so is everything while no stream says what changes.
    if (isAway(state.error)) return POLL_MS;
    if (!isLive()) return everyMs;
    const isAnnounced = OF_ENDPOINTS.has(key[0]) || (OF_ACTIVITY.has(key[0]) && isQuiet(key[1]));
    return isAnnounced ? Math.max(everyMs, LIVE_POLL_MS) : everyMs;
  };
  const queryFn = async ({ signal }: { signal: AbortSignal }): Promise<T> => {
    try {
      const data = await read(signal);
      noteResponse();
      return data;
    } catch (error) {
      if (!signal.aborted && isAway(error)) noteFailure(error instanceof Error ? error.message : String(error));
      throw error;
    }
  };
  return useQuery<T>({ queryKey: key, queryFn, refetchInterval: interval });
}

/** Reads all queries about nodes again: no stream announces what happens to nodes. */
export function refreshNodes(): void {
  void client.invalidateQueries({ predicate: ({ queryKey: [kind] }) => OF_NODES.has(kind) });
}

/** An action of the user. Everything shown is read again after it. */
export function useAction<A, T>(act: (argument: A) => Promise<T>): UseMutationResult<T, Error, A> {
  const queries = useQueryClient();
  return useMutation<T, Error, A>({ mutationFn: act, onSuccess: () => queries.invalidateQueries() });
}
