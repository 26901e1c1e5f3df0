/** Checks the filter of a request for log lines before it is sent to nodes. */
import { CapstanError } from '../../lib/errors.ts';
import { compilePattern, LOG_LEVELS, LOG_STREAMS } from '../../lib/log-filter.ts';
import type { LogFilter } from '../../proto/gen/capstan/v1/common.ts';

const MAX_ID = 128;
const MAX_CONTAINS = 1_000;

/** Throws INVALID_ARGUMENT, which names the field and the rule. */
export function checkedLogFilter(filter: LogFilter): LogFilter {
  const { jobId, releaseId, stream, level, contains, pattern, after, before } = filter;
  atMost('job', jobId, MAX_ID);
  atMost('release', releaseId, MAX_ID);
  atMost('contains', contains, MAX_CONTAINS);
  oneOf('stream', stream, LOG_STREAMS);
  oneOf('level', level, LOG_LEVELS);
  for (const position of [after, before]) if (position !== undefined) atMost('cursor', position.workerId, MAX_ID);
  if (pattern !== '') compilePattern(pattern);
  return filter;
}

function atMost(field: string, text: string, most: number): void {
  if (text.length > most) throw new CapstanError('INVALID_ARGUMENT', `${field}: must have at most ${most} characters`, { field });
}

function oneOf(field: string, text: string, values: readonly string[]): void {
  if (text !== '' && !values.includes(text))
    throw new CapstanError('INVALID_ARGUMENT', `${field}: must be one of ${values.join(', ')}`, { field });
}
