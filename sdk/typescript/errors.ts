/** Errors by cause: an invalid declaration, an error response, no response, a job that did not complete. */

/** The problem document of the service. */
export interface Problem {
  readonly status: number;
  readonly title?: string;
  readonly detail?: string;
}

/** Base of every error of this package. */
export class CapstanError extends Error {
  override name = 'CapstanError';
}

/** A declaration breaks a rule; the message names the setting and the rule. */
export class DeclarationError extends CapstanError {
  override name = 'DeclarationError';
}

/** The service returned an error that retries do not fix, or that persisted after all retries. */
export class CapstanApiError extends CapstanError {
  override name = 'CapstanApiError';
  readonly status: number;
  readonly problem: Problem;
  /** Number of attempts. */
  readonly attempts: number;

  constructor(call: string, problem: Problem, attempts = 1) {
    const detail = detailOf(problem);
    super(
      `${call}: ${problem.status}${problem.title === undefined ? '' : ` ${problem.title}`}${detail === undefined ? '' : `: ${detail}`}`,
    );
    this.status = problem.status;
    this.problem = problem;
    this.attempts = attempts;
  }
}

/** Returns the detail without the title that it begins with: `not found: job x does not exist` is a detail. */
export function detailOf({ title, detail }: Problem): string | undefined {
  const prefix = title === undefined ? '' : `${title.toLowerCase()}: `;
  return detail?.startsWith(prefix) === true ? detail.slice(prefix.length) : detail;
}

/** 401: the API key is missing, unknown, revoked or not allowed to do this. */
export class AuthenticationError extends CapstanApiError {
  override name = 'AuthenticationError';
}

/** 404: the endpoint or job does not exist, or is already deleted. */
export class NotFoundError extends CapstanApiError {
  override name = 'NotFoundError';
}

/** 409: the job's state does not allow it. */
export class ConflictError extends CapstanApiError {
  override name = 'ConflictError';
}

/** 429, after every retry. */
export class RateLimitedError extends CapstanApiError {
  override name = 'RateLimitedError';
}

/** Returns the error class of an error response. */
export function apiError(call: string, problem: Problem, attempts: number): CapstanApiError {
  switch (problem.status) {
    case 401:
      return new AuthenticationError(call, problem, attempts);
    case 404:
      return new NotFoundError(call, problem, attempts);
    case 409:
      return new ConflictError(call, problem, attempts);
    case 429:
      return new RateLimitedError(call, problem, attempts);
    default:
      return new CapstanApiError(call, problem, attempts);
  }
}

/** There was no readable response; `cause` has the reason. */
export class ConnectionError extends CapstanError {
  override name = 'ConnectionError';

  constructor(message: string, cause: unknown) {
    super(message, { cause });
  }
}

/** The deadline of the call has passed. A submitted job continues. */
export class TimeoutError extends CapstanError {
  override name = 'TimeoutError';
  /** Present once it is known. */
  readonly jobId: string | undefined;

  constructor(message: string, jobId?: string) {
    super(message);
    this.jobId = jobId;
  }
}

/** The job ended without a result: FAILED (with the function's message), TIMED_OUT or CANCELLED. */
export class JobError extends CapstanError {
  override name = 'JobError';
  readonly jobId: string;
  readonly status: string;
  /** The function's own message, if any. */
  readonly error: string | undefined;

  constructor(jobId: string, status: string, error: string | undefined) {
    super(`job ${jobId} ${status}${error === undefined ? '' : `: ${error}`}`);
    this.jobId = jobId;
    this.status = status;
    this.error = error;
  }
}

/** The function threw an error, or the job's workers were lost. */
export class JobFailedError extends JobError {
  override name = 'JobFailedError';
}

/** The job was cancelled or purged. */
export class JobCancelledError extends JobError {
  override name = 'JobCancelledError';
}

/** The job exceeded its executionTimeout. */
export class JobTimedOutError extends JobError {
  override name = 'JobTimedOutError';
}

/** Returns the error of a job that ended without COMPLETED. */
export function jobError(jobId: string, status: string, error: string | undefined): JobError {
  switch (status) {
    case 'CANCELLED':
      return new JobCancelledError(jobId, status, error);
    case 'TIMED_OUT':
      return new JobTimedOutError(jobId, status, error);
    default:
      return new JobFailedError(jobId, status, error);
  }
}

/** A function of another endpoint threw an error; the message is its own. */
export class RemoteError extends CapstanError {
  override name = 'RemoteError';
  readonly functionName: string;
  readonly endpointName: string;
  /** The job that ran the function, at a queue-based endpoint. */
  readonly jobId: string | undefined;
  /** HTTP status of the response, at a load-balanced endpoint. */
  readonly status: number | undefined;

  constructor(
    message: string,
    from: { readonly functionName: string; readonly endpointName: string; readonly jobId?: string; readonly status?: number },
    cause?: unknown,
  ) {
    super(message, cause === undefined ? {} : { cause });
    this.functionName = from.functionName;
    this.endpointName = from.endpointName;
    this.jobId = from.jobId;
    this.status = from.status;
  }
}

/** A call of another endpoint's function could not be sent; the message names what is missing or the broken rule. */
export class DispatchError extends CapstanError {
  override name = 'DispatchError';
}

/** Returns the reason of an error of fetch: its message is `fetch failed`, and its cause has the reason. */
export function reasonOf(thrown: unknown): string {
  if (!(thrown instanceof Error)) return String(thrown);
  if (thrown.cause instanceof Error && thrown.cause.message !== '') return thrown.cause.message;
  if (thrown.cause instanceof Error && 'code' in thrown.cause) return String(thrown.cause.code);
  return thrown.message;
}
