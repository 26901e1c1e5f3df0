/** Calls of the gateway. All addresses are relative to the console's own, so that prefixes and proxies do not matter. */

import { parseExact } from '../../../lib/exact-json.ts';
import { noteAway } from './freshness.ts';
import type { Operation } from './graphql/gen/operations.ts';

/** Time limit of a request with its response, ms: the gateway ends its own calls after 10 s. */
const LIMIT_MS = 12_000;
/** Code of an error of a request that was not answered in time. */
export const LATE = 'LATE';
/** Time limit of a request that the gateway holds until something comes, and of downloads, ms. */
export const LONG_LIMIT_MS = 330_000;

/** Path of the console with a trailing slash. Scripts are in `assets/`, one level below it. */
export const BASE_PATH = new URL(import.meta.env.DEV ? './' : '../', import.meta.env.DEV ? document.baseURI : import.meta.url).pathname;

/** Refusal of a call; `field` names the argument that was refused. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly field: string | undefined;
  readonly hint: string | undefined;

  constructor(status: number, message: string, details: { code?: string; field?: string | undefined; hint?: string | undefined } = {}) {
    super(message);
    this.name = 'ApiError';
    this.status = status;
    this.code = details.code ?? '';
    this.field = details.field;
    this.hint = details.hint;
  }
}

type SignedOutListener = (reason: string) => void;
let onSignedOut: SignedOutListener | undefined;

/** Sets the function that is called when the gateway no longer accepts the session. */
export function listenForSignOut(listener: SignedOutListener): void {
  onSignedOut = listener;
}

export interface SendOptions {
  readonly method?: string;
  readonly body?: string;
  readonly signal?: AbortSignal | undefined;
  /** Time limit of the request and of its response's body, ms. */
  readonly limitMs?: number;
}

/** Sends a request below `api/`. Throws ApiError for every status from 400, and with status 0 if there is no response in time. */
export async function send(path: string, { limitMs = LIMIT_MS, signal, ...init }: SendOptions = {}): Promise<Response> {
  const limit = AbortSignal.timeout(limitMs);
  const headers: Record<string, string> = { 'capstan-console': BASE_PATH.replace(/\/$/, '') };
  if (init.body !== undefined) headers['content-type'] = 'application/json';
  let response: Response;
  try {
    response = await fetch(`${BASE_PATH}api/${path}`, {
      ...init,
      headers,
      signal: signal === undefined ? limit : AbortSignal.any([signal, limit]),
      credentials: 'same-origin',
      cache: 'no-store',
    });
  } catch (error) {
    if (signal?.aborted === true) throw error;
    const isLate = limit.aborted;
    const reason = isLate ? `The gateway did not answer within ${limitMs / 1_000} s.` : 'The gateway cannot be reached.';
    noteAway(reason);
    throw new ApiError(0, reason, { code: isLate ? LATE : '', hint: 'The page tries again by itself.' });
  }
  if (response.ok) return response;
  const refusal = readRefusal(response.status, await response.text());
  // The same status says that the key may not do this: only the session itself tells.
  if (response.status === 401 && path !== 'session') await checkSession();
  throw refusal;
}

/** Shows the sign-in page if the gateway no longer accepts the session. */
export async function checkSession(): Promise<void> {
  try {
    await send('session');
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) onSignedOut?.(error.message);
  }
}

/** Reads a problem document, GraphQL's errors or `{error}`; anything else is shown by its status only. */
function readRefusal(status: number, text: string): ApiError {
  const body = parse(text) as Record<string, unknown> | undefined;
  const errors = body?.['errors'];
  if (Array.isArray(errors) && errors.length > 0) return graphqlError(status, errors[0] as GraphqlFailure);
  for (const key of ['detail', 'error', 'title']) {
    const message = body?.[key];
    if (typeof message === 'string') return new ApiError(status, message);
  }
  return new ApiError(status, `The gateway returned status ${status}.`);
}

export function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

interface GraphqlFailure {
  readonly message: string;
  readonly extensions?: { readonly code?: string; readonly status?: number; readonly field?: string; readonly hint?: string };
}

function graphqlError(status: number, { message, extensions }: GraphqlFailure): ApiError {
  const { code = '', field, hint } = extensions ?? {};
  return new ApiError(extensions?.status ?? status, message, { code, field, hint });
}

/** Runs one GraphQL operation. An error of any field fails the whole. */
export async function graphql<Result, Variables>(
  query: Operation<Result, Variables>,
  variables: Variables,
  signal?: AbortSignal,
): Promise<Result> {
  const response = await send('graphql', {
    method: 'POST',
    body: JSON.stringify({ query, variables }),
    signal,
  });
  const { data, errors } = (await response.json()) as { data: Result; errors?: GraphqlFailure[] };
  const first = errors?.[0];
  if (first !== undefined) throw graphqlError(200, first);
  return data;
}

/** Calls the public HTTP API of an endpoint and reads its JSON, with all digits of its integers. */
export async function callEndpoint<T>(path: string, init: SendOptions = {}): Promise<T> {
  const response = await send(`v2/${path}`, init);
  return parseExact(await response.text()) as T;
}
