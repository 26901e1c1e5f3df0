/** What can go wrong, by consequence: the service refused, the service was not reached, the job did not complete. */

/** The service's problem document (WIRE.md section 1, Errors). */
export interface Problem {
  readonly status: number;
  readonly title?: string;
  readonly detail?: string;
}

/** The service refused the call; trying the same again will not help, or was tried often enough. */
export class CapstanApiError extends Error {
  readonly status: number;
  readonly problem: Problem;

  constructor(call: string, problem: Problem) {
    super(
      `${call}: ${problem.status}${problem.title === undefined ? '' : ` ${problem.title}`}${problem.detail === undefined ? '' : `: ${problem.detail}`}`,
    );
    this.name = 'CapstanApiError';
    this.status = problem.status;
    this.problem = problem;
  }
}

/** No answer came, or none that could be read; `cause` says why. */
export class ConnectionError extends Error {
  constructor(call: string, cause: unknown) {
    super(`${call}: ${reasonOf(cause)}`, { cause });
    this.name = 'ConnectionError';
  }
}

/** The job ended without a result: FAILED (the function's message), TIMED_OUT or CANCELLED. */
export class JobError extends Error {
  readonly jobId: string;
  readonly status: string;

  constructor(jobId: string, status: string, error: string | undefined) {
    super(`job ${jobId} ${status}${error === undefined ? '' : `: ${error}`}`);
    this.name = 'JobError';
    this.jobId = jobId;
    this.status = status;
  }
}

/** fetch says `fetch failed` and keeps the reason in its cause. */
function reasonOf(thrown: unknown): string {
  if (!(thrown instanceof Error)) return String(thrown);
  if (thrown.cause instanceof Error && thrown.cause.message !== '') return thrown.cause.message;
  if (thrown.cause instanceof Error && 'code' in thrown.cause) return String(thrown.cause.code);
  return thrown.message;
}
