/**
 * Validates a worker's response to an HTTP request: an invalid response becomes 500, with the reason in the worker's
 * log.
 */
import { ResponseValidator } from '../../lib/response-validator.ts';
import type { HttpCall, HttpEvents, HttpRequest } from './runtime.ts';

/** Sits between a worker and its caller's side. Responses of every runtime pass through it. */
export class ValidatedResponse implements HttpEvents {
  readonly #events: HttpEvents;
  readonly #onInvalid: (reason: string) => void;
  readonly #validator: ResponseValidator;
  #call: HttpCall | undefined;
  /** The caller's side has received its end; later data of the worker is dropped. */
  #ended = false;

  /** `onInvalid` receives a line for the endpoint's log. */
  constructor({ method, url, upgrade = false }: HttpRequest, events: HttpEvents, onInvalid: (line: string) => void) {
    this.#events = events;
    this.#onInvalid = (reason) => onInvalid(`the response to ${method} ${pathOf(url)} is invalid: ${reason}`);
    this.#validator = new ResponseValidator({ method, upgrade });
  }

  /** The call of this response; it is aborted once the response is invalid. */
  attach(call: HttpCall): void {
    if (this.#ended) call.abort(false);
    else this.#call = call;
  }

  head(status: number, headers: readonly (readonly [string, string])[], body: Buffer, ended: boolean): void {
    if (this.#ended) return;
    const head = this.#validator.head(status, headers, body.length, ended);
    if (head.kind === 'valid') {
      this.#ended = ended;
      this.#events.head(status, head.headers, body, ended);
      return;
    }
    this.#refuse(head.reason);
    const text = Buffer.from(JSON.stringify({ error: 'Internal Server Error', detail: head.reason }));
    const own = { 'content-type': 'application/json; charset=utf-8', 'content-length': String(text.length) };
    this.#events.head(500, Object.entries(own), text, true);
  }

  body(bytes: Buffer, ended: boolean): void {
    if (this.#ended) return;
    const reason = this.#validator.body(bytes.length, ended);
    if (reason === null) {
      this.#ended = ended;
      this.#events.body(bytes, ended);
      return;
    }
    this.#refuse(reason);
    this.#events.failed('INTERNAL', reason, false);
  }

  credit(bytes: number): void {
    if (!this.#ended) this.#events.credit(bytes);
  }

  failed(...failure: Parameters<HttpEvents['failed']>): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#events.failed(...failure);
  }

  #refuse(reason: string): void {
    this.#ended = true;
    this.#onInvalid(reason);
    this.#call?.abort(false);
  }
}

/** Without the query, which may contain values that must not be logged. */
function pathOf(url: string): string {
  const path = url.slice(url.indexOf('/', url.indexOf('://') + 3));
  return path.split('?', 1)[0] ?? path;
}
