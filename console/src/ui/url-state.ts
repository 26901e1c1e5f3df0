/** What a page shows is in its address: Back returns to it, and whoever receives the address sees the same. */
import { navigate, useHistoryState, useSearch } from 'wouter-preact/use-browser-location';

/** `push`: Back returns to the state before. `replace`: for fields that change with each key that is pressed. */
export type HistoryUpdate = 'push' | 'replace';
export type Change<Name extends string> = (changes: Readonly<Partial<Record<Name, string>>>, how?: HistoryUpdate) => void;

/** Returns the values of these parameters of the address, and a function that changes some. A default is not in the address. */
export function useUrlState<Name extends string>(
  defaults: Readonly<Record<Name, string>>,
): readonly [Readonly<Record<Name, string>>, Change<Name>] {
  const search = new URLSearchParams(useSearch());
  const names = Object.keys(defaults) as Name[];
  const values = Object.fromEntries(names.map((name) => [name, search.get(name) ?? defaults[name]])) as Record<Name, string>;
  const change: Change<Name> = (changes, how = 'push') => {
    const next = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries(changes) as [Name, string][]) {
      if (value === defaults[name]) next.delete(name);
      else next.set(name, value);
    }
    go(next, how);
  };
  return [values, change];
}

/** Returns `value` if it is one of `allowed`, else the first of these: anyone can write an address. */
export function oneOf<T extends string>(value: string, allowed: readonly [T, ...T[]]): T {
  return allowed.find((each) => each === value) ?? allowed[0];
}

/** The parameter that says where the page of a list begins; a change of the filter removes it. */
export const PAGE = 'after';

export interface Pages {
  /** Where the page begins; null: the first one. */
  readonly after: string | null;
  readonly newer: () => void;
  readonly older: (next: string) => void;
}

/** The address has where the page begins; the entry of the browser's history has where the pages before it begin. */
export function usePages(): Pages {
  const after = new URLSearchParams(useSearch()).get(PAGE);
  const entry = useHistoryState<{ readonly begins?: readonly string[] } | null>();
  const begins = entry?.begins ?? [];
  const show = (begin: string | undefined, before: readonly string[]): void => {
    const next = new URLSearchParams(location.search);
    if (begin === undefined) next.delete(PAGE);
    else next.set(PAGE, begin);
    go(next, 'push', { begins: before });
  };
  return {
    after,
    newer: () => show(begins.at(-1), begins.slice(0, -1)),
    older: (next) => show(next, after === null ? [] : [...begins, after]),
  };
}

function go(next: URLSearchParams, how: HistoryUpdate, state: unknown = null): void {
  const query = next.toString();
  const to = `${location.pathname}${query === '' ? '' : `?${query}`}`;
  if (to !== `${location.pathname}${location.search}`) navigate(to, { replace: how === 'replace', state });
}
