/** What callers are told when a call of the scheduler failed. */
import { CapstanError } from '../../lib/errors.ts';
import { fromServiceError, isNamed } from '../../lib/grpc-errors.ts';

/** Refusals of the scheduler as they are; what the connection itself says (addresses, its inner states) is for the log, as the cause. */
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

/** The scheduler, for now. */
export function unavailable(message: string, cause?: unknown): CapstanError {
  return new CapstanError('UNAVAILABLE', message, { retryAfterMs: 1000, cause });
}
