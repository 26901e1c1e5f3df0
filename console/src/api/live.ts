/** Keeps what a page shows up to date. The one place that knows how: by polling, while the page is visible. */
import { QueryClient, useMutation, useQuery, useQueryClient, type UseMutationResult, type UseQueryResult } from '@tanstack/react-query';

import { ApiError } from './request.ts';

const POLL_MS = 3_000;
const MAX_RETRIES = 1;

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

/** Reads `key` and again every few seconds. `everyMs` false reads once. */
export function useLive<T>(
  key: readonly unknown[],
  read: (signal: AbortSignal) => Promise<T>,
  everyMs: number | false = POLL_MS,
): UseQueryResult<T> {
  return useQuery<T>({ queryKey: key, queryFn: ({ signal }) => read(signal), refetchInterval: everyMs });
}

/** An action of the user. Everything shown is read again after it. */
export function useAction<A, T>(act: (argument: A) => Promise<T>): UseMutationResult<T, Error, A> {
  const queries = useQueryClient();
  return useMutation<T, Error, A>({ mutationFn: act, onSuccess: () => queries.invalidateQueries() });
}
