/** Parses options that name a time: a duration before now, or RFC 3339. */
import { CapstanError } from '../../lib/errors.ts';
import { textOption } from '../../terminal/options.ts';
import type { Invocation } from './command.ts';
import { readDuration } from './duration.ts';

/** Returns ms since 1970; undefined when no time is given. @throws CapstanError INVALID_ARGUMENT. */
export function readTime(options: Invocation['options'], name: string): number | undefined {
  const text = textOption(options, name);
  if (text === undefined) return undefined;
  if (/^\d+[smhd]$/.test(text)) return Date.now() - (readDuration(`--${name}`, text) ?? 0) * 1_000;
  const at = Date.parse(text);
  if (!Number.isNaN(at)) return at;
  throw new CapstanError('INVALID_ARGUMENT', `--${name}: must be a duration such as 30m, or an RFC 3339 time`, { field: `--${name}` });
}
