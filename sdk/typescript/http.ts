/** One call of the HTTP API: JSON in, JSON out, with retries. */
import type { Deadline } from './deadline.ts';
import { apiError, ConnectionError, reasonOf, TimeoutError, type Problem } from './errors.ts';
import { parseExact } from './exact-json.ts';
import { jsonText, NotJson } from './json-values.ts';
import type { RouteMethod } from './routes.ts';
import { isRetryable, pauseBefore, type RetryPolicy } from './retry.ts';
import { currentTraceHeaders } from './trace.ts';
import { noteRetry, unreachable } from './unreachable.ts';

/** Longest timer, ms. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export interface Connection {
  /** Without a trailing slash. */
  readonly baseUrl: string;
  readonly apiKey: string;
  readonly fetch: typeof globalThis.fetch;
  readonly retry: RetryPolicy;
  /** Timeout of one attempt, ms, in addition to the wait that it requests. */
  readonly timeoutMs: number;
}

export interface CallRequest {
  readonly method: RouteMethod;
  readonly path: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | undefined;
  /** How long the service may hold the response, ms. */
  readonly waitMs?: number;
  /** The time after which no further attempt is made. */
  readonly deadline?: Deadline;
  /** Statuses of success; by default only 200. */
  readonly accepts?: (status: number) => boolean;
  /** Statuses that are retried; 429 and 5xx by default. */
  readonly repeats?: (status: number) => boolean;
  /** False when a call whose response was lost must not be repeated. */
  readonly againWhenUnreachable?: boolean;
}

/** The accepted response, read as text. */
export interface Answer {
  readonly headers: Headers;
  readonly text: string;
}

/**
 * Makes the call and returns the parsed response.
 * @throws what `exchange` throws; ConnectionError when the response is not JSON.
 */
export async function call<T>(connection: Connection, request: CallRequest): Promise<T> {
  return parsed(request, await exchange(connection, request)) as T;
}

/** @throws ConnectionError when the response is not JSON. */
export function parsed({ method, path }: CallRequest, { text }: Answer): unknown {
  try {
    return parseExact(text);
  } catch (cause) {
    throw new ConnectionError(`${method} ${path}: the response is not JSON: ${reasonOf(cause)}`, cause);
  }
}

/**
 * Makes the call until a response is accepted. Retries after 429, 5xx and broken connections.
 * @throws CapstanApiError, ConnectionError, TimeoutError; the signal's reason when it is aborted.
 */
export function exchange(connection: Connection, request: CallRequest): Promise<Answer> {
  return exchangeWith(connection, request, async (response) => ({ headers: response.headers, text: await response.text() }));
}

/** As `exchange`. `read` is part of the attempt: an error that it throws counts as a broken connection. */
export async function exchangeWith<T>(connection: Connection, request: CallRequest, read: (response: Response) => Promise<T>): Promise<T> {
  const name = `${request.method} ${request.path}`;
  const body = request.body === undefined ? undefined : jsonBody(request.body);
  for (let attempt = 0; ; attempt += 1) {
    request.signal?.throwIfAborted();
    const outcome = await tryOnce(connection, request, read, { body, name, attempts: attempt + 1 });
    if ('value' in outcome) return outcome.value;
    request.signal?.throwIfAborted();
    const left = request.deadline?.leftToAnswerMs ?? Number.POSITIVE_INFINITY;
    if (left === 0) throw new TimeoutError(`${name}: no response within ${request.deadline?.limitMs ?? 0} ms`);
    const pause = outcome.again ? pauseBefore(connection.retry, attempt, outcome.retryAfter, Math.random()) : null;
    // A pause that leaves no time for another attempt would only delay the error.
    if (pause === null || pause >= left) throw outcome.error;
    if (attempt === 0) noteRetry(connection.baseUrl, outcome.error, connection.retry.retries);
    await sleep(pause, request.signal);
  }
}

/** @throws NotJson */
function jsonBody(body: unknown): string {
  try {
    return jsonText(body, '');
  } catch (error) {
    throw error instanceof NotJson ? new NotJson(`the input is not JSON: ${error.message}`, { cause: error }) : error;
  }
}

type Outcome<T> = { readonly value: T } | { readonly error: Error; readonly again: boolean; readonly retryAfter: string | null };

async function tryOnce<T>(
  connection: Connection,
  request: CallRequest,
  read: (response: Response) => Promise<T>,
  { body, name, attempts }: { readonly body: string | undefined; readonly name: string; readonly attempts: number },
): Promise<Outcome<T>> {
  const limit = Math.min(connection.timeoutMs + (request.waitMs ?? 0), request.deadline?.leftToAnswerMs ?? Number.POSITIVE_INFINITY);
  const controller = new AbortController();
  const timer = setTimeout(
    () => controller.abort(new Error(`no response within ${Math.round(limit)} ms`)),
    Math.min(limit, LONGEST_TIMER_MS),
  );
  try {
    const response = await connection.fetch(connection.baseUrl + request.path, {
      method: request.method,
      headers: {
        authorization: `Bearer ${connection.apiKey}`,
        ...currentTraceHeaders(),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...request.headers,
      },
      ...(body === undefined ? {} : { body }),
      signal: request.signal === undefined ? controller.signal : AbortSignal.any([request.signal, controller.signal]),
      // The key must not be sent to another address.
      redirect: 'manual',
    });
    const { status, headers } = response;
    if ((request.accepts ?? isOk)(status)) return { value: await read(response) };
    const error = apiError(name, problemOf(status, await response.text(), headers.get('location')), attempts);
    return { error, again: (request.repeats ?? isRetryable)(status), retryAfter: headers.get('retry-after') };
  } catch (cause) {
    return { error: unreachable(name, connection.baseUrl, cause), again: request.againWhenUnreachable ?? true, retryAfter: null };
  } finally {
    clearTimeout(timer);
  }
}

/** Clients of the queue API treat only 200 as success. */
function isOk(status: number): boolean {
  return status === 200;
}

function problemOf(status: number, text: string, location: string | null): Problem {
  const leads = `the response is a redirect to ${location ?? 'another URL'}; redirects are not followed, because they would disclose the key`;
  const fallback = status >= 300 && status < 400 ? { detail: leads } : {};
  try {
    const parsed = JSON.parse(text) as { readonly title?: unknown; readonly detail?: unknown } | null;
    return {
      status,
      ...(typeof parsed?.title === 'string' ? { title: parsed.title } : {}),
      ...(typeof parsed?.detail === 'string' ? { detail: parsed.detail } : fallback),
    };
  } catch {
    return { status, ...fallback }; // Possibly a proxy's page; the status is sufficient.
  }
}

/** Throws the signal's reason when it is aborted. */
export function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const finish = (): void => {
      signal?.removeEventListener('abort', abort);
      resolve();
    };
    const timer = setTimeout(finish, ms);
    const abort = (): void => {
      clearTimeout(timer);
      reject(signal?.reason instanceof Error ? signal.reason : new Error('aborted', { cause: signal?.reason }));
    };
    signal?.addEventListener('abort', abort, { once: true });
  });
}
