/**
 * One POST to an address of a user: webhooks of jobs and of alerts. Every one has its own connection, so that each is resolved and
 * checked anew, and none fails because the receiver closes an idle connection.
 */
import type { Readable } from 'node:stream';

import type { Dispatcher } from 'undici';

import { errnoOf, messageOf } from '../../lib/to-error.ts';
import { AddressRefused, guardedConnector } from './connector.ts';
import type { AddressGuard } from './guard.ts';
import type { Resolve } from './resolver.ts';

export type PostResult =
  | { readonly result: 'delivered' }
  /** `error`: one line for users, without the URL's path or any credentials. `refused`: the address is not allowed. */
  | { readonly result: 'failed'; readonly error: string; readonly refused: boolean };

/** The target, and the addresses that its account may reach. */
export interface PostTarget {
  readonly url: string;
  readonly guard: AddressGuard;
}

export interface PostBody {
  readonly headers: Readonly<Record<string, string>>;
  readonly size: number;
  readonly content: () => Promise<Buffer | Readable>;
}

export interface PostOptions {
  readonly resolve: Resolve;
  /** Connect timeout, ms. */
  readonly connectMs: number;
  /** Timeout, ms; plus a second for each MiB of the body. */
  readonly totalMs: number;
  readonly userAgent: string;
  /** Which statuses count as delivered; by default 200 alone. */
  readonly accepts?: (status: number) => boolean;
  /** Cancels it. */
  readonly stop: AbortController;
}

const MEBIBYTE = 1024 * 1024;

/** Posts JSON; redirects are not followed. */
export async function post({ url: address, guard }: PostTarget, body: PostBody, options: PostOptions): Promise<PostResult> {
  const { resolve, connectMs, totalMs, userAgent, stop, accepts = (status: number) => status === 200 } = options;
  const refusal = guard.refusal(address);
  if (refusal !== null) return failed(`the URL ${refusal}`, true);
  const url = new URL(address);
  const allowedMs = totalMs + Math.ceil((body.size / MEBIBYTE) * 1_000);
  // Loaded with the first webhook: it is a tenth of the scheduler's start time.
  const { buildConnector, Client } = await import('undici');
  const timer = setTimeout(() => stop.abort(timedOut), allowedMs);
  const client = new Client(url.origin, {
    connect: guardedConnector(buildConnector, guard, resolve, connectMs),
    pipelining: 0,
    allowH2: false,
    headersTimeout: 0,
    bodyTimeout: 0,
  });
  try {
    const response = await client.request({
      method: 'POST',
      path: `${url.pathname}${url.search}`,
      headers: {
        'content-type': 'application/json',
        'content-length': String(body.size),
        'user-agent': userAgent,
        ...credentials(url),
        ...body.headers,
      },
      body: await body.content(),
      signal: stop.signal,
    });
    ignoreBody(response.body);
    if (accepts(response.statusCode)) return { result: 'delivered' };
    const wanted = options.accepts === undefined ? '200' : 'with success';
    return failed(`the receiver responded with status ${response.statusCode}, not ${wanted}`);
  } catch (error) {
    const cause = stop.signal.reason === timedOut ? timedOut : error;
    return failed(reasonOf(cause, { allowedMs, connectMs }), cause instanceof AddressRefused);
  } finally {
    clearTimeout(timer);
    await client.destroy();
  }
}

const timedOut = new Error('timed out');

export function failed(error: string, refused = false): PostResult {
  return { result: 'failed', error, refused };
}

/** Discards the receiver's response body, whatever its length. */
function ignoreBody(body: Dispatcher.ResponseData['body']): void {
  body.on('error', () => undefined);
  body.destroy();
}

function credentials({ username, password }: URL): Record<string, string> {
  if (username === '' && password === '') return {};
  const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return { authorization: `Basic ${Buffer.from(pair).toString('base64')}` };
}

/** Describes a failed connection or request. */
function reasonOf(error: unknown, { allowedMs, connectMs }: { allowedMs: number; connectMs: number }): string {
  if (error === timedOut) return `no response within ${allowedMs} ms`;
  if (error instanceof AddressRefused) return error.message;
  const code = errnoOf(error);
  switch (code) {
    case 'UND_ERR_CONNECT_TIMEOUT':
      return `no connection within ${connectMs} ms`;
    case 'ECONNREFUSED':
      return 'connection refused';
    case 'ENOTFOUND':
    case 'ENODATA':
      return 'unknown host name';
    case 'ETIMEOUT':
      return 'the name servers do not respond';
    case 'ECONNRESET':
    case 'EPIPE':
    case 'UND_ERR_SOCKET':
      return 'the connection was closed before a response';
    case undefined:
      return messageOf(error);
    default:
      return `${messageOf(error)} (${code})`;
  }
}
