/** `@capstan/sdk`: declare endpoints and call them. */
export {
  EndpointClient,
  type CallOptions,
  type EndpointOptions,
  type Health,
  type Policy,
  type S3Config,
  type SubmitOptions,
  type SyncOptions,
} from './client.ts';
export { Declaration, endpoint, type Checked, type JobContext, type RouteOptions } from './declaration.ts';
export { Endpoint, type EndpointConstructor } from './endpoint.ts';
export {
  AuthenticationError,
  CapstanApiError,
  CapstanError,
  ConflictError,
  ConnectionError,
  DeclarationError,
  DispatchError,
  JobCancelledError,
  JobError,
  JobFailedError,
  JobTimedOutError,
  NotFoundError,
  RateLimitedError,
  RemoteError,
  TimeoutError,
  type Problem,
} from './errors.ts';
export { CpuInstanceType, CudaVersion, DataCenter, GpuType, ServerlessScalerType } from './former-names.ts';
export { declarationOf, type AnyFunction, type FunctionDeclaration } from './functions.ts';
export { GpuGroup, type ScalerType } from './gpus.ts';
export { Job, type JobSnapshot, type JobStatus, type WaitOptions } from './job.ts';
export { checkApplication, declarations, forgetDeclarations } from './registry.ts';
export { remote, remoteClass, type RemoteFunction, type RemoteGenerator, type RemoteOptions } from './remote.ts';
export { defaultRetryPolicy, type RetryPolicy } from './retry.ts';
export { secret } from './secret.ts';
export { InputError, type StandardSchema } from './schema.ts';
export type { ServerWebSocket } from './server-websocket.ts';
export type { CheckedSettings, EndpointSettings } from './settings.ts';
