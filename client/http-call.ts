/**
 * Sends one HTTP request with Node's own client: loading a client with pools would take a quarter of a command's start.
 */
import { request as plainRequest, type ClientRequest, type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { text as textOf } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';

export interface HttpRequest {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'PATCH';
  readonly headers: Readonly<Record<string, string>>;
  /** A body in pieces needs a content-length header. */
  readonly body?: string | AsyncIterable<Buffer>;
  /** Longest time without a byte in either direction, ms. */
  readonly idleMs: number;
  /** Ends the request, which then rejects. */
  readonly signal?: AbortSignal | undefined;
}

export interface HttpReply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

/** Rejects with the system's or the TLS error when there is no complete response. */
export async function callHttp(url: string, request: HttpRequest): Promise<HttpReply> {
  const response = await openHttp(url, request);
  return { status: response.statusCode ?? 0, headers: response.headers, text: await textOf(response) };
}

/** Resolves with the response once its head is there; its body is to be read. */
export async function openHttp(url: string, { method, headers, body, idleMs, signal }: HttpRequest): Promise<IncomingMessage> {
  const { request } = url.startsWith('https:') ? await import('node:https') : { request: plainRequest };
  const sent = request(url, { method, headers, signal });
  sent.setTimeout(idleMs, () => sent.destroy(new Error(`no data for ${idleMs} ms`)));
  const answer = answerTo(sent);
  // A response that arrives before the body was sent is final: an error in sending the rest is ignored.
  const failure = typeof body === 'object' ? failureOf(pipeline(Readable.from(body), sent)) : new Promise<never>(() => undefined);
  if (typeof body !== 'object') sent.end(body);
  return Promise.race([answer, failure]);
}

function answerTo(sent: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    sent.once('response', resolve);
    sent.on('error', reject);
  });
}

/** Rejects when the work rejects; never resolves. */
function failureOf(work: Promise<void>): Promise<never> {
  return new Promise((_resolve, reject) => {
    work.catch(reject);
  });
}
