/** Parses durations: 90s, 30m, 12h, 7d. */
import { CapstanError } from '../../lib/errors.ts';

const UNITS = { s: 1, m: 60, h: 3_600, d: 86_400 } as const;

/** Returns seconds; null when no duration is given. @throws CapstanError INVALID_ARGUMENT. */
export function readDuration(field: string, text: string | undefined): number | null {
  if (text === undefined) return null;
  const [, count = '', unit = ''] = /^([1-9]\d{0,6})([smhd])$/.exec(text) ?? [];
  const seconds = Number(count) * (UNITS[unit as keyof typeof UNITS] ?? 0);
  if (count === '' || seconds > 2_147_483_647)
    throw new CapstanError('INVALID_ARGUMENT', `${field}: must be a number followed by s, m, h or d, such as 12h`, { field });
  return seconds;
}
