/** `@capstan/sdk`: calls to queue endpoints (SPEC.md, Python SDK, in the manners of TypeScript). */
export {
  Endpoint,
  type CallOptions,
  type EndpointOptions,
  type Health,
  type Policy,
  type S3Config,
  type SubmitOptions,
  type SyncOptions,
} from './endpoint.ts';
export { CapstanApiError, ConnectionError, JobError, type Problem } from './errors.ts';
export { Job, type JobSnapshot, type JobStatus } from './job.ts';
export { defaultRetryPolicy, type RetryPolicy } from './retry.ts';
