/** Errors on the hosts of load-balanced endpoints: `{error, detail}` with the matching status. */
import type { IncomingMessage, ServerResponse } from 'node:http';

import { errorTable, retryAfterS, type CapstanError } from '../../lib/errors.ts';
import { drain, type DrainLimits } from '../http/drain.ts';

/** Limits for draining a body after a refusal on the host of an endpoint. */
export const DRAIN: DrainLimits = { bytes: 4 * 1024 * 1024, ms: 5_000 };

/** The same after a response of a function or server that has not waited for the body. */
export const EARLY_DRAIN: DrainLimits = { bytes: 64 * 1024 * 1024, ms: 30_000 };

/** Returns status, headers and body of an error, also for responses on a bare socket. */
export function errorAnswer(error: CapstanError): { status: number; title: string; headers: Record<string, string>; body: string } {
  const { http: status, title } = errorTable[error.code];
  const body = JSON.stringify({ error: title, detail: error.message });
  const headers: Record<string, string> = {
    'content-type': 'application/json; charset=utf-8',
    'cache-control': 'no-store',
    'content-length': String(Buffer.byteLength(body)),
  };
  if (status === 401) headers['www-authenticate'] = 'Bearer';
  if (status === 405) headers['allow'] = error.field ?? '';
  const retryAfter = retryAfterS(error);
  if (status === 408) headers['connection'] = 'close';
  if (retryAfter !== null) headers['retry-after'] = String(retryAfter);
  return { status, title, headers, body };
}

/** Responds with the error, unless a response has begun. */
export function sendError(request: IncomingMessage, response: ServerResponse, error: CapstanError): void {
  if (response.headersSent || response.destroyed) return;
  const { status, headers, body } = errorAnswer(error);
  response.writeHead(status, headers).end(request.method === 'HEAD' ? '' : body);
  // The rest of a body that arrived too slowly is not read.
  if (status !== 408) drain(request, DRAIN);
}
