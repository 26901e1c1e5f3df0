/**
 * Asks the gateway of a stack while its parts are being killed: keep-alive connections, and every
 * answer that got lost told apart from those that came.
 */
import { setTimeout as pause } from 'node:timers/promises';

import { Pool } from 'undici';

import type { JobDocument, Stack } from '../support/stack.ts';

const CONNECTIONS = 48;
const RETRY_MS = 250;
/** A part that died with the request has this long to be missed, ms. */
const ANSWER_MS = 10_000;

export interface Request {
  readonly method: 'GET' | 'POST';
  /** Below `/v2`. */
  readonly path: string;
  /** Idempotency-Key; null for none. */
  readonly key?: string | null;
  readonly body?: string | null;
}

export interface Answer {
  readonly status: number;
  readonly document: JobDocument;
  header(name: string): string | undefined;
}

export class Caller {
  readonly #stack: Stack;
  /** Times a request was sent again. */
  resent = 0;
  #pool: { readonly origin: string; readonly pool: Pool } | null = null;
  #closed = false;

  constructor(stack: Stack) {
    this.#stack = stack;
  }

  /** One request; null when its answer got lost. A lost connection, a 5xx and silence are all the same: nobody knows. */
  async ask({ method, path, key = null, body = null }: Request): Promise<Answer | null> {
    if (this.#closed) throw new Error('the caller is closed');
    const headers: Record<string, string> = { authorization: `Bearer ${this.#stack.apiKey}`, 'content-type': 'application/json' };
    if (key !== null) headers['idempotency-key'] = key;
    try {
      const response = await this.#connections().request({ method, path: `/v2${path}`, headers, body });
      const text = await response.body.text();
      if (response.statusCode >= 500) return null;
      const header = (name: string): string | undefined => response.headers[name]?.toString();
      return { status: response.statusCode, document: JSON.parse(text) as JobDocument, header };
    } catch {
      return null;
    }
  }

  /** Asks until there is an answer. */
  async insist(request: Request): Promise<Answer> {
    for (;;) {
      const answer = await this.ask(request);
      if (answer !== null) return answer;
      this.resent += 1;
      await pause(RETRY_MS);
    }
  }

  /** Whatever still asks is refused, so that a failed test ends. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#pool?.pool.destroy();
  }

  /** The gateway has another port after a new start of the whole stack. */
  #connections(): Pool {
    const origin = this.#stack.url;
    if (this.#pool?.origin !== origin) {
      void this.#pool?.pool.destroy();
      const pool = new Pool(origin, { connections: CONNECTIONS, headersTimeout: ANSWER_MS, bodyTimeout: ANSWER_MS });
      this.#pool = { origin, pool };
    }
    return this.#pool.pool;
  }
}

/** The document of an answer that must be 200. */
export function accepted({ status, document }: Answer, what: string): JobDocument {
  if (status !== 200) throw new Error(`${what} answered ${status}: ${JSON.stringify(document)}`);
  return document;
}
