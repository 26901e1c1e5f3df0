/**
 * Tries to deliver webhooks: reads the delivery, signs it, posts it, and reports the result. The core decides when and
 * how often (scheduler/core/webhooks/webhooks.ts). Every try has its own connection, so that each is resolved and
 * checked anew, and none fails because the receiver closes an idle connection.
 */
import { Readable } from 'node:stream';

import type { Dispatcher } from 'undici';

import { CapstanError } from '../../lib/errors.ts';
import type { Span } from '../../lib/telemetry/tracing.ts';
import { errnoOf, messageOf } from '../../lib/to-error.ts';
import { traceHeaders } from '../../lib/trace-context.ts';
import type { ReadableBlob } from '../blobs/file-store.ts';
import type { HookRow } from '../store/store.ts';
import { AddressRefused, guardedConnector } from './connector.ts';
import type { AddressGuard } from './guard.ts';
import type { Resolve } from './resolver.ts';
import { signatureHeaders } from './signature.ts';
import { damageOfHook, isWhole, webhookBodyOf, type WebhookBody } from './webhook-body.ts';

export type TryResult =
  | { readonly result: 'delivered' | 'gone' }
  /** `error`: one line for users, without the URL's path or any credentials. `refused`: the address is not allowed. */
  | { readonly result: 'failed'; readonly error: string; readonly refused: boolean };

export interface SenderOptions {
  readonly hook: (id: string) => Promise<HookRow | null>;
  readonly openBlob: (id: string) => Promise<ReadableBlob>;
  /** Returns the secrets that sign an account's webhooks. */
  readonly secrets: (account: string) => Promise<readonly string[]>;
  readonly guardOf: (account: string) => AddressGuard;
  /** Returns the decrypted URL of a delivery. */
  readonly urlOf: (hook: HookRow) => string;
  readonly resolve: Resolve;
  /** Wall clock, ms. */
  readonly now: () => number;
  /** Starts the span of a try. */
  readonly span: (hook: HookRow) => Span;
  /** Connect timeout, ms. */
  readonly connectMs: number;
  /** Timeout of a try, ms; plus a second for each MiB of the payload. */
  readonly totalMs: number;
  readonly userAgent: string;
  readonly tried: (id: string, result: TryResult) => void;
  /** Called on an internal error. */
  readonly onFault: (error: unknown, id: string) => void;
}

/** The target of a try, and the addresses that its account may reach. */
interface Target {
  readonly url: string;
  readonly guard: AddressGuard;
}

const SMALL_BODY = 65_536;
const MEBIBYTE = 1024 * 1024;

export class WebhookSender {
  readonly #options: SenderOptions;
  readonly #underWay = new Map<AbortController, Promise<void>>();

  constructor(options: SenderOptions) {
    this.#options = options;
  }

  /** Starts a try. Its result is reported later, unless the try is cancelled. */
  deliver(id: string): void {
    const stop = new AbortController();
    const done = this.#try(id, stop).then((result) => {
      this.#underWay.delete(stop);
      if (stop.signal.reason !== cancelled) this.#options.tried(id, result);
    });
    this.#underWay.set(stop, done);
  }

  /** Cancels the tries in progress; no more results are reported. */
  async cancel(): Promise<void> {
    const ending = [...this.#underWay.values()];
    for (const stop of this.#underWay.keys()) stop.abort(cancelled);
    await Promise.all(ending);
  }

  async #try(id: string, stop: AbortController): Promise<TryResult> {
    try {
      const hook = await this.#options.hook(id);
      if (hook === null) return { result: 'gone' };
      if (!isWhole(hook)) return failed(`PAYLOAD_DAMAGED: ${damageOfHook(hook) ?? ''}`);
      const url = this.#options.urlOf(hook);
      const body = webhookBodyOf(hook, url, this.#options.openBlob);
      const timestamp = Math.floor(this.#options.now() / 1_000);
      const headers = await signatureHeaders(await this.#options.secrets(hook.account), id, timestamp, body);
      const span = this.#options.span(hook);
      if (span.trace !== '') Object.assign(headers, traceHeaders(span.trace));
      const result = await this.#post({ url, guard: this.#options.guardOf(hook.account) }, headers, body, stop);
      if (result.result === 'failed') span.fail(result.error);
      span.end();
      return result;
    } catch (error) {
      if (error instanceof CapstanError && error.code === 'PAYLOAD_DAMAGED') return failed(`${error.code}: ${error.message}`);
      if (stop.signal.reason !== cancelled) this.#options.onFault(error, id);
      return failed('internal error: see the log of the scheduler');
    }
  }

  async #post({ url: address, guard }: Target, own: Record<string, string>, body: WebhookBody, stop: AbortController): Promise<TryResult> {
    const { resolve, connectMs, totalMs, userAgent } = this.#options;
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
          ...own,
        },
        body: await contentOf(body),
        signal: stop.signal,
      });
      ignoreBody(response.body);
      if (response.statusCode === 200) return { result: 'delivered' };
      return failed(`the receiver responded with status ${response.statusCode}, not 200`);
    } catch (error) {
      const cause = stop.signal.reason === timedOut ? timedOut : error;
      return failed(reasonOf(cause, { allowedMs, connectMs }), cause instanceof AddressRefused);
    } finally {
      clearTimeout(timer);
      await client.destroy();
    }
  }
}

const cancelled = new Error('cancelled');
const timedOut = new Error('timed out');

function failed(error: string, refused = false): TryResult {
  return { result: 'failed', error, refused };
}

/** Sends a small body in one write with its headers. */
async function contentOf(body: WebhookBody): Promise<Buffer | Readable> {
  if (body.size > SMALL_BODY) return Readable.from(body.pieces(), { objectMode: false });
  const pieces: Uint8Array[] = [];
  for await (const piece of body.pieces()) pieces.push(piece);
  return Buffer.concat(pieces);
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
