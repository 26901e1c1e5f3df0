/** Formats ages in tables: `45s`, `12m`, `5h`, `3d`. Pure. */

const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
] as const;

/**
 * Returns the time since an ISO 8601 timestamp, in its largest whole unit; empty without one, or when it is not valid.
 */
export function ageOf(moment: string | null, nowMs: number = Date.now()): string {
  const ms = moment === null ? Number.NaN : Math.max(0, nowMs - Date.parse(moment));
  return Number.isNaN(ms) ? '' : ageOfMs(ms);
}

/** The same of a duration, ms. */
export function ageOfMs(ms: number): string {
  const [unit, size] = UNITS.find(([, length]) => ms >= length) ?? ['s', 1000];
  return `${Math.floor(ms / size)}${unit}`;
}
