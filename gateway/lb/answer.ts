/** Errors on the hosts of load-balanced endpoints: `{error, detail}` with the matching status (SPEC.md, Error bodies). */
import type { IncomingMessage, ServerResponse } from 'node:http';

import { errorTable, type CapstanError } from '../../proto/errors.ts';

/** Body bytes still read after a refusal, so that the caller gets to see it; then the connection goes. */
const MAX_DRAIN_BYTES = 4 * 1024 * 1024;
const MAX_DRAIN_MS = 5_000;

/** Status, headers and body of an error. Also for answers written on a bare socket. */
export function errorAnswer(error: CapstanError): { status: number; title: string; headers: Record<string, string>; body: string } {
  const { http: status, title } = errorTable[error.code];
  const body = JSON.stringify({ error: title, detail: error.message });
  const headers: Record<string, string> = {
    'content-type': 'application/json; charset=utf-8',
    'content-length': String(Buffer.byteLength(body)),
  };
  if (status === 401) headers['www-authenticate'] = 'Bearer';
  if (status === 405) headers['allow'] = error.field ?? '';
  if (status === 429 || status === 503) headers['retry-after'] = String(Math.max(1, Math.ceil((error.retryAfterMs ?? 1000) / 1000)));
  return { status, title, headers, body };
}

/** Answers with the error, unless an answer has begun. */
export function sendError(request: IncomingMessage, response: ServerResponse, error: CapstanError): void {
  if (response.headersSent || response.destroyed) return;
  const { status, headers, body } = errorAnswer(error);
  response.writeHead(status, headers).end(request.method === 'HEAD' ? '' : body);
  drain(request);
}

/** Reads and drops what is left of a body, within bounds. */
export function drain(request: IncomingMessage): void {
  if (request.complete || request.destroyed) return;
  let left = MAX_DRAIN_BYTES;
  const timer = setTimeout(() => request.destroy(), MAX_DRAIN_MS);
  request.on('data', (chunk: Buffer) => {
    left -= chunk.length;
    if (left < 0) request.destroy();
  });
  request.once('close', () => clearTimeout(timer));
  request.once('end', () => clearTimeout(timer));
  request.resume();
}
