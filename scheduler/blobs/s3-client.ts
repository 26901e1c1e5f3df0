/**
 * Requests to S3-compatible storage: signed, bounded in time, and repeated while the storage is busy or away.
 *
 * | Response | Becomes |
 * |---|---|
 * | 404 | a missing object, or UNAVAILABLE if it is the bucket that is missing |
 * | 429, 500, 502, 503, 504, no connection, no response in time, bytes that were damaged on the way | another try; then UNAVAILABLE |
 * | anything else | UNAVAILABLE with the status and the storage's code |
 *
 * Messages name the status, the code and the object; signatures and keys are in headers only, which no message holds.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { Readable } from 'node:stream';

import { AwsClient } from 'aws4fetch';
import { Agent, request, type Dispatcher } from 'undici';

import { CapstanError } from '../../lib/errors.ts';
import type { S3Config } from '../config.ts';

/** Delays before the second, third and fourth try, ms; each is lengthened by up to its half, by chance. */
const RETRY_MS = [100, 400, 1_200];
/** Limits of a connection's making, and of a pause in a response or between a request and its response, ms. */
const CONNECT_MS = 5_000;
const PAUSE_MS = 20_000;
const BUSY = new Set([429, 500, 502, 503, 504]);
/** The body did not match its checksum or length: it was damaged on the way. */
const DAMAGED = new Set(['BadDigest', 'XAmzContentSHA256Mismatch', 'IncompleteBody', 'RequestTimeout']);
/** Bytes of an error's document that are read. */
const ERROR_BYTES = 4_096;

export interface S3Request {
  readonly method: 'GET' | 'HEAD' | 'PUT' | 'DELETE';
  /** Name in the bucket; empty for the bucket itself. */
  readonly key: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  /** Opens the body anew for each try. Its length and SHA-256 are in the headers. */
  readonly body?: () => AsyncIterable<Uint8Array>;
}

export interface S3Response {
  readonly headers: ReadonlyMap<string, string>;
  /** Must be consumed or destroyed. */
  readonly body: Dispatcher.ResponseData['body'];
}

/** Outcome of one try. */
type Try =
  | { readonly kind: 'success'; readonly response: S3Response }
  | { readonly kind: 'missing' }
  | { readonly kind: 'failure'; readonly error: CapstanError; readonly isTemporary: boolean };

export class S3Client {
  readonly #aws: AwsClient;
  readonly #agent = new Agent({ connect: { timeout: CONNECT_MS }, headersTimeout: PAUSE_MS, bodyTimeout: PAUSE_MS });
  readonly #base: string;
  readonly #onFault: (error: unknown) => void;
  readonly bucket: string;

  /** @param onFault called with each failure of the storage, for a log: callers of the service are not told the cause. */
  constructor({ endpoint, bucket, region, accessKeyId, secretAccessKey }: S3Config, onFault: (error: unknown) => void) {
    this.#aws = new AwsClient({ accessKeyId, secretAccessKey, region, service: 's3' });
    this.#base = `${endpoint.replace(/\/+$/, '')}/${bucket}`;
    this.bucket = bucket;
    this.#onFault = onFault;
  }

  /** Returns the response if it is a success; null if the object does not exist, or the condition of a write is not met. @throws CapstanError UNAVAILABLE. */
  async send(sent: S3Request): Promise<S3Response | null> {
    for (let attempt = 0; ; attempt += 1) {
      const tried = await this.#try(sent);
      if (tried.kind === 'success') return tried.response;
      if (tried.kind === 'missing') return null;
      const delay = tried.isTemporary ? RETRY_MS[attempt] : undefined;
      if (delay === undefined) {
        this.#onFault(tried.error);
        throw tried.error;
      }
      await pause(delay * (1 + Math.random() / 2));
    }
  }

  /** Does the same for a request whose response has no body of interest. */
  async ask(sent: S3Request): Promise<S3Response | null> {
    const response = await this.send(sent);
    await response?.body.dump();
    return response;
  }

  close(): Promise<void> {
    return this.#agent.destroy();
  }

  async #try(sent: S3Request): Promise<Try> {
    let received: Dispatcher.ResponseData;
    try {
      received = await this.#once(sent);
    } catch (cause) {
      // A source that fails midway, such as a file that is gone, looks the same; it fails again.
      const error = new CapstanError('UNAVAILABLE', 'the artifact store is unreachable', { retryAfterMs: 1_000, cause });
      return { kind: 'failure', error, isTemporary: true };
    }
    const { statusCode: status, body } = received;
    if (status >= 200 && status < 300) return { kind: 'success', response: { headers: headersOf(received), body } };
    const reason = await reasonOf(body);
    if (status === 404 && reason !== 'NoSuchBucket') return { kind: 'missing' };
    // A conditional write of what is there already.
    if (status === 412 && sent.method === 'PUT') return { kind: 'missing' };
    const code = reason === '' ? '' : ` (${reason})`;
    const error = new CapstanError('UNAVAILABLE', `the artifact store responded with status ${status}${code}`, {
      retryAfterMs: 1_000,
      cause: new Error(`${sent.method} ${sent.key} in bucket ${this.bucket}`),
    });
    return { kind: 'failure', error, isTemporary: BUSY.has(status) || DAMAGED.has(reason) };
  }

  async #once({ method, key, query = {}, headers = {}, body }: S3Request): Promise<Dispatcher.ResponseData> {
    const search = new URLSearchParams(query).toString();
    const url = `${this.#base}${key === '' ? '' : `/${key}`}${search === '' ? '' : `?${search}`}`;
    // Signed without the body: its hash is in the headers, and a stream can be sent only once.
    const signed = await this.#aws.sign(url, { method, headers });
    return request(signed.url, {
      method,
      headers: Object.fromEntries(signed.headers),
      body: body === undefined ? null : Readable.from(body(), { objectMode: false }),
      dispatcher: this.#agent,
    });
  }
}

function headersOf({ headers }: Dispatcher.ResponseData): ReadonlyMap<string, string> {
  return new Map(Object.entries(headers).flatMap(([name, value]) => (typeof value === 'string' ? [[name, value] as const] : [])));
}

/** Returns the code in an error's document; empty without one. */
async function reasonOf(body: Readable): Promise<string> {
  let text = '';
  try {
    for await (const piece of body) {
      text += String(piece);
      if (text.length > ERROR_BYTES) break;
    }
  } catch {
    // The status says enough.
    return '';
  }
  return /<Code>([A-Za-z0-9]{1,64})<\/Code>/.exec(text)?.[1] ?? '';
}
