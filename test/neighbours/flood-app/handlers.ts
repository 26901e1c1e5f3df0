/** What a tenant runs while a neighbour floods the service. */

export function echo(input: unknown): unknown {
  return input;
}

/** Prints lines to search. */
export function chatter(input: { readonly lines: number }): number {
  for (let n = 0; n < input.lines; n += 1) console.log(`line ${n} ${'x'.repeat(80)}`);
  return input.lines;
}
