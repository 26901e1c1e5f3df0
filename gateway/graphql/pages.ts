/** Pages of lists that several cells return. */
import { whole } from './endpoint-form.ts';

export type Optional<T> = T | null | undefined;

/** A page of a list, ordered by id. */
export interface Page {
  readonly after?: Optional<string>;
  readonly limit?: Optional<number>;
}

export function pageOf({ after, limit }: Page): { afterId: string; limit: number } {
  return { afterId: after ?? '', limit: whole('limit', limit ?? 0) };
}

/** The page of a list that each cell returned in order of id. */
export function firstOf<T extends { readonly id: string }>({ limit }: Page, found: T[]): T[] {
  const ordered = found.toSorted((a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0));
  const most = limit ?? 0;
  return most === 0 ? ordered : ordered.slice(0, most);
}
