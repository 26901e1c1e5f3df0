/** Errors that several requests share. */
import { CapstanError } from '../../../lib/errors.ts';

export function webhookNotFound(id: string): CapstanError {
  return new CapstanError('NOT_FOUND', `webhook ${id} does not exist: it was delivered, or failed more than a day ago`);
}
