/** What filters of log lines share between agents and schedulers. */
import { RE2JS, RE2JSException } from 're2js';

import { CapstanError } from './errors.ts';

/** Levels from the least to the most severe. A line without one counts as `info`. */
export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export const LOG_STREAMS = ['stdout', 'stderr', 'system'] as const;

/** Longest RE2 expression, characters. */
export const MAX_PATTERN = 1_000;
/** Most instructions of a compiled expression: a line takes time in proportion to them. */
const MAX_INSTRUCTIONS = 2_000;

/** Returns the compiled expression; its matching takes linear time. Throws INVALID_ARGUMENT. */
export function compilePattern(pattern: string): RE2JS {
  if (pattern.length > MAX_PATTERN)
    throw new CapstanError('INVALID_ARGUMENT', `pattern: must have at most ${MAX_PATTERN} characters`, { field: 'pattern' });
  try {
    const compiled = RE2JS.compile(pattern);
    if (compiled.programSize() <= MAX_INSTRUCTIONS) return compiled;
  } catch (error) {
    if (!(error instanceof RE2JSException)) throw error;
    throw new CapstanError('INVALID_ARGUMENT', `pattern: not a valid RE2 expression (${error.message})`, { field: 'pattern' });
  }
  throw new CapstanError('INVALID_ARGUMENT', 'pattern: has too many repetitions; shorten the counts in braces', { field: 'pattern' });
}
