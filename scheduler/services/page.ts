/** Paginates lists in order of id. */

/** Limit of entries per page. */
const MAX_PAGE = 1_000;

export interface PageRequest {
  /** Entries with a greater id; empty: from the first. */
  readonly afterId: string;
  /** 0: all entries. */
  readonly limit: number;
}

/** Returns the requested entries, in order of id. */
export function pageOf<Entry extends { readonly id: string }>(entries: readonly Entry[], { afterId, limit }: PageRequest): Entry[] {
  const sorted = entries.toSorted((a, b) => (a.id < b.id ? -1 : 1));
  const first = afterId === '' ? 0 : sorted.findIndex(({ id }) => id > afterId);
  if (first < 0) return [];
  return sorted.slice(first, limit === 0 ? sorted.length : first + Math.min(limit, MAX_PAGE));
}
