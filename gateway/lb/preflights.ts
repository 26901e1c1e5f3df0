/**
 * CORS preflights of endpoints that require a key. A browser sends none with them, so where the application answers them itself, they reach
 * it without one: without a body, cookies and Authorization, and few at a time for each caller.
 */
import type { IncomingMessage } from 'node:http';

import { CapstanError } from '../../lib/errors.ts';
import { EndpointKind } from '../../proto/gen/capstan/v1/common.ts';
import type { Endpoint } from '../directory/directory.ts';
import { isPreflight } from '../http/origins.ts';

/** Preflights of one address, and of all, that may wait for a response. */
const MAX_OF_PEER = 8;
const MAX_OPEN = 256;

/** Whether a request without a key is a preflight that the endpoint's application answers. `hasRoute`: the endpoint has an OPTIONS route there. */
export function reachesApplication({ method, headers }: IncomingMessage, endpoint: Endpoint | undefined, hasRoute: () => boolean): boolean {
  if (endpoint?.kind !== EndpointKind.LOAD_BALANCED || !isPreflight(method, headers) || headers.origin === undefined) return false;
  const hasBody = headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
  return !hasBody && (endpoint.routes.length === 0 || hasRoute());
}

export class OpenPreflights {
  readonly #open = new Map<string, number>();
  #all = 0;

  /** Counts one; returns the function that ends it. @throws CapstanError RATE_LIMITED */
  enter(peer: string): () => void {
    const own = this.#open.get(peer) ?? 0;
    if (own >= MAX_OF_PEER || this.#all >= MAX_OPEN)
      throw new CapstanError('RATE_LIMITED', 'too many preflights without a key wait for a response', { retryAfterMs: 1_000 });
    this.#open.set(peer, own + 1);
    this.#all += 1;
    let isOpen = true;
    return () => {
      if (!isOpen) return;
      isOpen = false;
      this.#all -= 1;
      const left = (this.#open.get(peer) ?? 1) - 1;
      if (left === 0) this.#open.delete(peer);
      else this.#open.set(peer, left);
    };
  }
}
