/** Errors of jobs and endpoints that several parts report in the same words. */
import { CapstanError } from './errors.ts';

/** Error of a job whose handler ran longer than its executionTimeout. */
export const EXECUTION_TIMEOUT_ERROR = 'executionTimeout exceeded';
/** Why an attempt or a request ended: its worker was drained. */
export const WORKER_STOPPED = 'the worker was stopped';
/** Why nothing can be placed, where no node rejected it. */
export const NO_NODE = 'no node is connected';

export function endpointNotFound(id: string): CapstanError {
  return new CapstanError('NOT_FOUND', `endpoint ${id} does not exist`);
}

export function jobNotFound(job: string): CapstanError {
  return new CapstanError('NOT_FOUND', `job ${job} does not exist, or its ttl or retention has expired`);
}
