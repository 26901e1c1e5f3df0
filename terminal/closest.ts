/** Finds the known word that is closest to a misspelt one. Pure. */

/** At most one mistake in four characters. */
const LETTERS_A_SLIP = 4;

/** Returns the nearest known word; null when none is near. Case and underscores do not count. */
export function closest(word: string, known: readonly string[]): string | null {
  const typed = plain(word);
  const ranked = known
    .map((each) => ({ each, slips: distance(typed, plain(each)) }))
    .filter(({ each, slips }) => slips <= Math.max(1, Math.floor(Math.min(typed.length, plain(each).length) / LETTERS_A_SLIP)))
    .sort((a, b) => a.slips - b.slips);
  return ranked[0]?.each ?? null;
}

function plain(word: string): string {
  return word.toLowerCase().replaceAll(/[_-]/g, '');
}

/** Counts inserted, deleted, changed and transposed characters (optimal string alignment). */
function distance(a: string, b: string): number {
  let older: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row += 1) {
    const next = [row];
    for (let column = 1; column <= b.length; column += 1) {
      const same = a[row - 1] === b[column - 1];
      let least = Math.min((last[column] ?? 0) + 1, (next[column - 1] ?? 0) + 1, (last[column - 1] ?? 0) + (same ? 0 : 1));
      const swapped = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      if (swapped) least = Math.min(least, (older[column - 2] ?? 0) + 1);
      next.push(least);
    }
    older = last;
    last = next;
  }
  return last[b.length] ?? 0;
}
