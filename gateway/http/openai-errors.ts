/** Errors in the shape of the OpenAI API: `{"error":{"message","type","param","code"}}` with an HTTP status. Pure. */
import { assertNever, errorTable, retryAfterS, type CapstanError, type ErrorCode } from '../../lib/errors.ts';
import { EXECUTION_TIMEOUT_ERROR } from '../../lib/job-errors.ts';
import { JobState } from '../../proto/gen/capstan/v1/common.ts';
import type { Job } from '../../proto/gen/capstan/v1/jobs.ts';

/** An error in the shape of the OpenAI API. */
export class OpenAiError extends Error {
  readonly status: number;
  readonly type: string;
  readonly param: string | null;
  readonly code: string | null;
  /** Whole seconds, for the header Retry-After. */
  readonly retryAfterS: number | null;
  /** False when OpenAI clients must not retry by themselves, because that would create another job. */
  readonly mayRetry: boolean;

  constructor(
    status: number,
    message: string,
    more: Partial<Pick<OpenAiError, 'type' | 'param' | 'code' | 'retryAfterS' | 'mayRetry'>> = {},
  ) {
    super(message);
    this.name = 'OpenAiError';
    this.status = status;
    this.type = more.type ?? (status >= 500 ? 'server_error' : 'invalid_request_error');
    this.param = more.param ?? null;
    this.code = more.code ?? null;
    this.retryAfterS = more.retryAfterS ?? null;
    this.mayRetry = more.mayRetry ?? true;
  }

  /** The document. */
  get text(): string {
    const { message, type, param, code } = this;
    return JSON.stringify({ error: { message, type, param, code } });
  }
}

/** A refusal of the service itself. */
export function refusalAsOpenAi(error: CapstanError): OpenAiError {
  const { http } = errorTable[error.code];
  return new OpenAiError(http, error.message, {
    type: http === 429 ? 'rate_limit_error' : http >= 500 ? 'server_error' : 'invalid_request_error',
    param: error.field ?? null,
    code: codes[error.code] ?? null,
    retryAfterS: retryAfterS(error),
  });
}

const codes: Partial<Record<ErrorCode, string>> = {
  UNAUTHENTICATED: 'invalid_api_key',
  PERMISSION_DENIED: 'insufficient_permissions',
  NOT_FOUND: 'not_found',
  METHOD_NOT_ALLOWED: 'method_not_allowed',
  PAYLOAD_TOO_LARGE: 'body_too_large',
  UNSUPPORTED_MEDIA_TYPE: 'unsupported_media_type',
  RATE_LIMITED: 'rate_limit_exceeded',
  UNAVAILABLE: 'unavailable',
  DEADLINE_EXCEEDED: 'unavailable',
};

/** Returns the error of a job without a result; null for a completed one. */
export function jobAsOpenAi(job: Job): OpenAiError | null {
  switch (job.state) {
    case JobState.COMPLETED:
      return null;
    case JobState.FAILED:
      return new OpenAiError(500, workerMessage(job.error ?? 'the job failed'), { code: 'handler_error', mayRetry: false });
    case JobState.TIMED_OUT:
      return new OpenAiError(504, job.error ?? EXECUTION_TIMEOUT_ERROR, { code: 'timeout', mayRetry: false });
    case JobState.CANCELLED:
      return new OpenAiError(500, job.error ?? 'the job was cancelled', { code: 'cancelled', mayRetry: false });
    case JobState.IN_QUEUE:
    case JobState.IN_PROGRESS:
      return new OpenAiError(503, 'the gateway is closing', { code: 'unavailable', retryAfterS: 1 });
    case JobState.UNSPECIFIED:
    case JobState.UNRECOGNIZED:
      return new OpenAiError(500, 'the scheduler sent a job without a state');
    default:
      return assertNever(job.state);
  }
}

/** The error of a foreign worker is a JSON text that contains the message. */
function workerMessage(error: string): string {
  if (!error.startsWith('{')) return error;
  try {
    const { error_message: message } = JSON.parse(error) as { error_message?: unknown };
    return typeof message === 'string' ? message : error;
  } catch {
    // Invalid JSON is a plain message.
    return error;
  }
}

/**
 * Returns the error that the handler yielded or returned: `{"error":…}`, or the form of vLLM,
 * `{"object":"error","message","type","param","code"}`. Null for anything else.
 */
export function yieldedError(value: unknown): OpenAiError | null {
  if (!isRecord(value)) return null;
  const flat = value['object'] === 'error';
  const inner = flat ? value : value['error'];
  if (typeof inner === 'string') return new OpenAiError(statusIn(value) ?? 500, inner, { code: 'handler_error', mayRetry: false });
  if (!isRecord(inner)) return null;
  const { message, type, param, code } = inner;
  const status = statusIn(inner) ?? statusIn(value) ?? (type === 'invalid_request_error' || type === 'BadRequestError' ? 400 : 500);
  return new OpenAiError(status, typeof message === 'string' ? message : JSON.stringify(inner), {
    ...(typeof type === 'string' ? { type } : {}),
    param: typeof param === 'string' ? param : null,
    code: typeof code === 'string' ? code : status >= 500 ? 'handler_error' : null,
    mayRetry: false,
  });
}

/** The same for the first server-sent event of a text. */
export function yieldedEventError(text: string): OpenAiError | null {
  const data = /^(?:event:[^\n]*\n)?data: ?(\{.*)$/m.exec(text)?.[1];
  if (data === undefined || !/"error"/.test(data)) return null;
  try {
    return yieldedError(JSON.parse(data));
  } catch {
    // An incomplete event is passed on unchanged.
    return null;
  }
}

function statusIn(record: Readonly<Record<string, unknown>>): number | null {
  for (const key of ['code', 'status', 'status_code']) {
    const value = record[key];
    if (typeof value === 'number' && Number.isInteger(value) && value >= 400 && value <= 599) return value;
  }
  return null;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
