/** What happened within the range of a plot, beside its series. Pure. */

export interface Mark {
  /** ms since 1970. */
  readonly at: number;
  readonly kind: 'deployment' | 'scaling';
  readonly label: string;
}

/** The marks within a step of `stepS` seconds, as text; empty without any. */
export function marksWithin(marks: readonly Mark[], at: number, stepS: number): string {
  return marks
    .filter((mark) => mark.at >= at && mark.at < at + stepS * 1_000)
    .map(({ label }) => label)
    .join('; ');
}
