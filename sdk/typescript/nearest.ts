/** Finds the known word that is nearest to a misspelt one. Pure. */

/** Characters that may differ. */
const MAX = 2;

/** Returns undefined when none is near. */
export function nearest(word: string, known: Iterable<string>): string | undefined {
  let best: { readonly word: string; readonly distance: number } | undefined;
  for (const each of known) {
    const distance = distanceOf(word.toLowerCase(), each.toLowerCase());
    if (distance <= MAX && distance < (best?.distance ?? MAX + 1)) best = { word: each, distance };
  }
  return best?.word;
}

/** Counts inserted, deleted and changed characters. */
function distanceOf(a: string, b: string): number {
  let above = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row += 1) {
    const next = [row];
    for (let column = 1; column <= b.length; column += 1) {
      const changed = (above[column - 1] ?? 0) + (a[row - 1] === b[column - 1] ? 0 : 1);
      next.push(Math.min(changed, (above[column] ?? 0) + 1, (next[column - 1] ?? 0) + 1));
    }
    above = next;
  }
  return above[b.length] ?? 0;
}
