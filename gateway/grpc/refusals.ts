/** Converts failed calls of the scheduler into the errors that callers receive. */
import { CapstanError } from '../../lib/errors.ts';
import { fromServiceError, isNamed } from '../../lib/grpc-errors.ts';

/**
 * Refusals of the scheduler are passed on unchanged. Messages of the connection (addresses, internal states) are for
 * the log, as the cause.
 */
export function schedulerRefusal(thrown: unknown): CapstanError {
  const error = fromServiceError(thrown);
  if (isNamed(thrown)) return error;
  switch (error.code) {
    case 'UNAVAILABLE':
      return unavailable('the scheduler is unreachable', thrown);
    case 'DEADLINE_EXCEEDED':
      return unavailable('the scheduler did not respond in time', thrown);
    default:
      return error;
  }
}

/** Returns the error of an unavailable scheduler; the caller may retry after 1 s. */
export function unavailable(message: string, cause?: unknown): CapstanError {
  return new CapstanError('UNAVAILABLE', message, { retryAfterMs: 1000, cause });
}
