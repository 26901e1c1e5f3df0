/** Patterns of test files by the set's name. */
export const sets: Readonly<Record<'isolation' | 'tool' | 'cluster' | 'clients' | 'faults' | 'benches', readonly string[]>>;
/** Patterns for ava, by the arguments it was called with. */
export function filesFor(args: readonly string[]): readonly string[];
