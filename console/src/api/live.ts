/** Keeps what a page shows up to date: by the stream of changes where there is one, else by polling while the page is visible. */
import { QueryClient, useMutation, useQuery, useQueryClient, type UseMutationResult, type UseQueryResult } from '@tanstack/react-query';

import { isLive, onChange, type Change } from './events.ts';
import { ApiError } from './request.ts';

const POLL_MS = 3_000;
/** For queries that the stream announces: what it does not cover is shown at the latest after this, ms. */
const LIVE_POLL_MS = 30_000;
const MAX_RETRIES = 1;

/** Kinds of queries that change with endpoints: the first part of their key; the second is the endpoint, if it is one. */
const OF_ENDPOINTS: ReadonlySet<unknown> = new Set(['endpoints', 'attention', 'endpoint', 'jobs', 'job', 'health']);

export const client = new QueryClient({
  defaultOptions: {
    queries: {
      refetchIntervalInBackground: false,
      // The service may be on this host or in this house: what the browser knows of its connection does not matter.
      networkMode: 'always',
      // A refusal stays one; the next poll is the retry of everything else.
      retry: (count, error) => count < MAX_RETRIES && !(error instanceof ApiError && error.status >= 400 && error.status < 500),
      staleTime: 1_000,
    },
    mutations: { networkMode: 'always' },
  },
});

/** Reads what a change concerns again: at once in the visible tab, when it is shown in the others. */
onChange((change) => {
  void client.invalidateQueries({
    predicate: ({ queryKey }) => isConcerned(queryKey, change),
    refetchType: document.visibilityState === 'visible' ? 'active' : 'none',
  });
});

function isConcerned([kind, endpoint]: readonly unknown[], { kind: what, endpoints, removed }: Change): boolean {
  if (!OF_ENDPOINTS.has(kind)) return false;
  if (what === 'all' || kind === 'endpoints' || kind === 'attention') return true;
  return endpoints.some(({ id }) => id === endpoint) || removed.some((id) => id === endpoint);
}

/** Reads `key` and again when it may have changed. `everyMs` false reads once. */
export function useLive<T>(
  key: readonly unknown[],
  read: (signal: AbortSignal) => Promise<T>,
  everyMs: number | false = POLL_MS,
): UseQueryResult<T> {
  const interval = (): number | false =>
    everyMs === false ? false : OF_ENDPOINTS.has(key[0]) && isLive() ? Math.max(everyMs, LIVE_POLL_MS) : everyMs;
  return useQuery<T>({ queryKey: key, queryFn: ({ signal }) => read(signal), refetchInterval: interval });
}

/** An action of the user. Everything shown is read again after it. */
export function useAction<A, T>(act: (argument: A) => Promise<T>): UseMutationResult<T, Error, A> {
  const queries = useQueryClient();
  return useMutation<T, Error, A>({ mutationFn: act, onSuccess: () => queries.invalidateQueries() });
}
