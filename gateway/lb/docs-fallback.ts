/** Replaces an application's 404 by something of this service. */
import type { CapstanError } from '../../lib/errors.ts';
import type { Responder } from './exchange.ts';

export class FallbackResponder implements Responder {
  readonly #inner: Responder;
  readonly #send: () => void;
  #isReplaced = false;

  /** `send`: sends the replacement. */
  constructor(inner: Responder, send: () => void) {
    this.#inner = inner;
    this.#send = send;
  }

  head(status: number, headers: string[]): void {
    this.#isReplaced = status === 404;
    if (!this.#isReplaced) this.#inner.head(status, headers);
  }

  write(bytes: Buffer): boolean {
    return this.#isReplaced || this.#inner.write(bytes);
  }

  end(bytes: Buffer): void {
    if (this.#isReplaced) this.#send();
    else this.#inner.end(bytes);
  }

  fail(error: CapstanError): void {
    if (error.code === 'NOT_FOUND') this.#send();
    else this.#inner.fail(error);
  }
}
