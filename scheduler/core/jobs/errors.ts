/** Errors of jobs and webhooks that the core alone reports. */
import { CapstanError } from '../../../lib/errors.ts';

/** Error of a job that a purge of its queue ended. */
export const PURGED_ERROR = 'purged from the queue';
/** Error of a job that the deletion of its endpoint ended. */
export const ENDPOINT_DELETED_ERROR = 'the endpoint was deleted';

/** Error of a job whose last attempt ended with its worker. `charged` may exceed the limit. */
export function lastAttemptError(how: string, charged: number, maxAttempts: number): string {
  return `${how} (attempt ${Math.min(charged, maxAttempts)} of ${maxAttempts})`;
}

export function webhookNotFound(id: string): CapstanError {
  return new CapstanError('NOT_FOUND', `webhook ${id} does not exist: it was delivered, or failed more than a day ago`);
}

/** `state`: of a job that has ended, without its prefix. */
export function notRetryable(job: string, state: string | null): CapstanError {
  const why = state === null ? 'has not ended' : `is ${state}`;
  return new CapstanError('CONFLICT', `job ${job} ${why}; only a FAILED or TIMED_OUT job can be retried`);
}

/** The submission was made before, and its job is deleted: another submission would run it twice. */
export function resultExpired(job: string): CapstanError {
  const message = `Idempotency-Key: job ${job} was submitted with it and has been deleted`;
  return new CapstanError('IDEMPOTENCY_EXPIRED', message, { field: 'Idempotency-Key', jobId: job });
}

export function otherBody(): CapstanError {
  return new CapstanError('IDEMPOTENCY_MISMATCH', 'Idempotency-Key: was used with a different request body', { field: 'Idempotency-Key' });
}
