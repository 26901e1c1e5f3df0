/** One call of the HTTP API: JSON in, JSON out, with retries. */
import { CapstanApiError, ConnectionError, type Problem } from './errors.ts';
import { isRetryable, pauseBefore, type RetryPolicy } from './retry.ts';

export interface Connection {
  /** Without a slash at its end. */
  readonly baseUrl: string;
  readonly apiKey: string;
  readonly fetch: typeof globalThis.fetch;
  readonly retry: RetryPolicy;
}

export interface CallRequest {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Calls and gives the parsed answer. Tries again after 429, 5xx and broken connections.
 * @throws CapstanApiError, ConnectionError; the signal's reason when it is raised.
 */
export async function call<T>(connection: Connection, request: CallRequest): Promise<T> {
  const name = `${request.method} ${request.path}`;
  const body = request.body === undefined ? undefined : JSON.stringify(request.body);
  for (let attempt = 0; ; attempt += 1) {
    request.signal?.throwIfAborted();
    const outcome = await tryOnce<T>(connection, request, body, name);
    if ('value' in outcome) return outcome.value;
    request.signal?.throwIfAborted();
    const pause = outcome.again ? pauseBefore(connection.retry, attempt, outcome.retryAfter, Math.random()) : null;
    if (pause === null) throw outcome.error;
    await sleep(pause, request.signal);
  }
}

type Outcome<T> = { readonly value: T } | { readonly error: Error; readonly again: boolean; readonly retryAfter: string | null };

async function tryOnce<T>(connection: Connection, request: CallRequest, body: string | undefined, name: string): Promise<Outcome<T>> {
  let status: number;
  let retryAfter: string | null;
  let text: string;
  try {
    const response = await connection.fetch(connection.baseUrl + request.path, {
      method: request.method,
      headers: {
        authorization: `Bearer ${connection.apiKey}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...request.headers,
      },
      ...(body === undefined ? {} : { body }),
      ...(request.signal === undefined ? {} : { signal: request.signal }),
    });
    status = response.status;
    retryAfter = response.headers.get('retry-after');
    text = await response.text();
  } catch (cause) {
    return { error: new ConnectionError(name, cause), again: true, retryAfter: null };
  }
  if (status !== 200) return { error: new CapstanApiError(name, problemOf(status, text)), again: isRetryable(status), retryAfter };
  try {
    return { value: JSON.parse(text) as T };
  } catch (cause) {
    return { error: new ConnectionError(`${name}: the answer is not JSON`, cause), again: false, retryAfter: null };
  }
}

function problemOf(status: number, text: string): Problem {
  try {
    const parsed = JSON.parse(text) as { readonly title?: unknown; readonly detail?: unknown } | null;
    return {
      status,
      ...(typeof parsed?.title === 'string' ? { title: parsed.title } : {}),
      ...(typeof parsed?.detail === 'string' ? { detail: parsed.detail } : {}),
    };
  } catch {
    return { status }; // a proxy's page, perhaps: the status says what there is to say
  }
}

function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
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
