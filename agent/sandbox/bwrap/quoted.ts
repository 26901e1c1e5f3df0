/** Quotes a word for `sh`. */
export function quoted(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}
