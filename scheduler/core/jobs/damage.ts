/** Errors for payloads that the store cannot return as they were sent. */
import { CapstanError } from '../../../lib/errors.ts';
import { isDamaged, type Damaged } from '../ports/stored-payload.ts';
import type { WholeJob } from '../ports/store.ts';

/** The message names the code, because it is also the error of a job. @param what of the job, for example its output. */
export function payloadDamaged(what: string, job: string, { damaged }: Damaged): CapstanError {
  return new CapstanError('PAYLOAD_DAMAGED', `PAYLOAD_DAMAGED: the ${what} of job ${job} is damaged in the store: ${damaged}`, {
    jobId: job,
  });
}

/** The error of a job that ends because its input is damaged. */
export function damagedInput(job: string, damaged: Damaged): string {
  return payloadDamaged('input', job, damaged).message;
}

/** Returns why a job's output cannot be read; null if it can. */
export function damageOfOutput({ job, output }: WholeJob): CapstanError | null {
  return isDamaged(output) ? payloadDamaged('output', job.id, output) : null;
}

/** Returns why a job's chunks cannot be read; null if they can. */
export function damageOfStream({ job, chunks }: WholeJob): CapstanError | null {
  const damaged = chunks.find(isDamaged);
  return damaged === undefined ? null : payloadDamaged('stream', job.id, damaged);
}
