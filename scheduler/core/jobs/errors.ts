/** Errors that several requests share. */
import { CapstanError } from '../../../lib/errors.ts';

export function endpointNotFound(id: string): CapstanError {
  return new CapstanError('NOT_FOUND', `endpoint ${id} does not exist`);
}

export function jobNotFound(job: string): CapstanError {
  return new CapstanError('NOT_FOUND', `job ${job} does not exist, or its ttl or retention has expired`);
}

export function webhookNotFound(id: string): CapstanError {
  return new CapstanError('NOT_FOUND', `webhook ${id} does not exist: it was delivered, or failed more than a day ago`);
}
