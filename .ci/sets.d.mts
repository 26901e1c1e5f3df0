/** Patterns of test files by the set's name. */
export const sets: Readonly<
  Record<'sandbox' | 'escapes' | 'tool' | 'cluster' | 'clients' | 'faults' | 'apps' | 'parameters' | 'sdk' | 'benches', readonly string[]>
>;
/** Patterns for ava, by the arguments it was called with. */
export function filesFor(args: readonly string[]): readonly string[];
/** CAPSTAN_ISOLATION of a run of ava with these arguments. */
export function levelFor(args: readonly string[]): 'auto' | 'none';
