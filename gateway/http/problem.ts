/** Errors as problem documents: `{"status","title","detail"}` with the matching HTTP status. */
import type { FastifyReply } from 'fastify';

import { CapstanError, errorTable, isErrorCode, retryAfterS } from '../../lib/errors.ts';
import { errnoOf } from '../../lib/to-error.ts';
import { INTERNAL_ERROR } from '../../lib/http-messages.ts';
import { refusalAsOpenAi, type OpenAiError } from './openai-errors.ts';
import { drain, type DrainLimits } from './drain.ts';

export const JSON_TYPE = 'application/json; charset=utf-8';

/** Reading this much of the body lets the client keep using the connection. */
const DRAIN: DrainLimits = { bytes: 64 * 1024 * 1024, ms: 30_000 };

/** The document's text. */
export function problemText(status: number, title: string, message: string, jobId?: string): string {
  return JSON.stringify({ status, title, detail: `${title.toLowerCase()}: ${message}`, ...(jobId === undefined ? {} : { id: jobId }) });
}

/** Sends the error. `headers` are sent in addition to those of the code. */
export function sendProblem(reply: FastifyReply, error: CapstanError, headers?: Readonly<Record<string, string>>): void {
  if (reply.sent) return;
  const entry = errorTable[error.code];
  if (isOpenAiPath(reply.request.url)) {
    if (entry.http === 401) reply.header('www-authenticate', 'Bearer');
    if (headers !== undefined) reply.headers(headers);
    sendOpenAiError(reply, refusalAsOpenAi(error));
    return;
  }
  drain(reply.request.raw, DRAIN);
  // The framework closes the connection after a body that it did not read to the end; `drain` reads it.
  reply.removeHeader('connection');
  reply.code(entry.http).header('content-type', JSON_TYPE);
  const retryAfter = retryAfterS(error);
  if (retryAfter !== null) reply.header('retry-after', String(retryAfter));
  if (entry.http >= 500) reply.header('x-request-id', reply.request.id);
  if (entry.http === 401) reply.header('www-authenticate', 'Bearer');
  if (error.code === 'UNSUPPORTED_MEDIA_TYPE') reply.header('accept', 'application/json').header('accept-encoding', 'identity');
  closeAfterTimeout(reply, entry.http);
  if (headers !== undefined) reply.headers(headers);
  reply.send(problemText(entry.http, entry.title, error.message, error.jobId));
}

/** Clients of the OpenAI API expect its shape of errors in every case. */
export function sendOpenAiError(reply: FastifyReply, error: OpenAiError): void {
  if (reply.sent) return;
  drain(reply.request.raw, DRAIN);
  reply.removeHeader('connection');
  reply.code(error.status).header('content-type', JSON_TYPE);
  closeAfterTimeout(reply, error.status);
  if (error.retryAfterS !== null) reply.header('retry-after', String(error.retryAfterS));
  if (!error.mayRetry) reply.header('x-should-retry', 'false');
  if (error.status >= 500 && !reply.hasHeader('x-request-id')) reply.header('x-request-id', reply.request.id);
  reply.send(error.text);
}

/** The rest of a body that arrived too slowly is not read. */
export function closeAfterTimeout(reply: FastifyReply, status: number): void {
  if (status === 408) reply.header('connection', 'close');
}

function isOpenAiPath(url: string): boolean {
  return /^\/v2\/[^/?]+\/openai(?:[/?]|$)/.test(url);
}

/** Sends the error that was thrown. Internal errors go to the error handler, which logs them. */
export function sendFailure(reply: FastifyReply, thrown: unknown): void {
  const error = toCapstanError(thrown);
  if (error.code !== 'INTERNAL') sendProblem(reply, error);
  else if (!reply.sent) reply.send(error);
}

/** Converts an error of any kind, or a code of the framework, to a CapstanError. */
export function toCapstanError(thrown: unknown): CapstanError {
  if (thrown instanceof CapstanError) return thrown;
  const code = frameworkCode(thrown);
  switch (code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return new CapstanError('PAYLOAD_TOO_LARGE', 'body: exceeded the max body size', { field: 'body' });
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return new CapstanError('UNSUPPORTED_MEDIA_TYPE', 'Content-Type: must be application/json', { field: 'Content-Type' });
    case 'FST_ERR_BAD_URL':
      return new CapstanError('INVALID_ARGUMENT', 'path: is not a valid URL path', { field: 'path' });
    case 'FST_ERR_MAX_PARAM_LENGTH':
      return new CapstanError('NOT_FOUND', 'path: an id in it is too long', { field: 'path' });
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
    case 'ECONNRESET':
    case 'ECONNABORTED':
      return new CapstanError('INVALID_ARGUMENT', 'body: ended before it was complete', { field: 'body' });
    default:
      return new CapstanError('INTERNAL', INTERNAL_ERROR, { cause: thrown });
  }
}

/** Returns the error for a body above the route's limit. */
export function tooLarge(maxBytes: number): CapstanError {
  return new CapstanError('PAYLOAD_TOO_LARGE', `body: exceeded max body size of ${sizeText(maxBytes)}`, { field: 'body' });
}

/** Returns a size as "10MiB", the format that existing clients know, for whole numbers only. */
function sizeText(bytes: number): string {
  const MiB = 1024 * 1024;
  return bytes % MiB === 0 ? `${bytes / MiB}MiB` : `${bytes} bytes`;
}

function frameworkCode(thrown: unknown): string {
  const code = errnoOf(thrown) ?? '';
  return isErrorCode(code) ? '' : code;
}
