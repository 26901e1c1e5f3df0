/**
 * A response of an endpoint as lines of JSON, so that no header and no byte of it is the gateway's own response to a browser:
 *
 *   {"kind":"head","status":200,"headers":[["content-type","text/html"]]}
 *   {"kind":"body","bytes":"<base64>"}       any number
 *   {"kind":"end","why":"COMPLETE"}          or SIZE, TIME: cut off by a limit; BROKEN with `error`: by the endpoint
 *
 * An empty line is a sign of life.
 */
import type { CapstanError } from '../../lib/errors.ts';
import { CALLER_DISCONNECTED } from '../../lib/http-messages.ts';
import { errorAnswer } from '../lb/answer.ts';
import type { Accounted } from '../lb/load-balancer.ts';

/** As in nginx: the caller disconnected before the response. */
const CALLER_GONE = 499;
const KEEP_ALIVE_MS = 15_000;

export interface EnvelopeLimits {
  /** Bytes of the body that are passed on. */
  readonly mostBytes: number;
  /** Time from the request to the end of the response, ms. */
  readonly mostMs: number;
}

export interface EnvelopeOptions extends EnvelopeLimits {
  /** The method of the request was HEAD: bytes of a body are dropped. */
  readonly headOnly: boolean;
  /** Returns false when the reader is too slow. */
  readonly write: (line: string) => boolean;
  readonly close: () => void;
}

type End = { readonly why: 'COMPLETE' | 'SIZE' | 'TIME' } | { readonly why: 'BROKEN'; readonly error: string };

export class Envelope implements Accounted {
  readonly #options: EnvelopeOptions;
  readonly #limit: NodeJS.Timeout;
  readonly #alive: NodeJS.Timeout;
  #status = CALLER_GONE;
  #hasHead = false;
  #bytes = 0;
  #over = false;
  route = '';
  onDrain: () => void = () => undefined;
  onGone: (why: string) => void = () => undefined;
  onOver: () => void = () => undefined;

  constructor(options: EnvelopeOptions) {
    this.#options = options;
    this.#limit = setTimeout(() => this.#cut('TIME'), options.mostMs);
    this.#alive = setInterval(() => options.write('\n'), KEEP_ALIVE_MS);
  }

  get status(): number {
    return this.#status;
  }

  head(status: number, headers: string[]): void {
    if (this.#over) return;
    this.#status = status;
    this.#hasHead = true;
    const pairs = headers.flatMap((name, place) => (place % 2 === 0 ? [[name, headers[place + 1] ?? '']] : []));
    this.#write({ kind: 'head', status, headers: pairs });
  }

  write(bytes: Buffer): boolean {
    if (this.#over || this.#options.headOnly || bytes.length === 0) return true;
    const kept = bytes.subarray(0, this.#options.mostBytes - this.#bytes);
    this.#bytes += kept.length;
    const isFast = this.#write({ kind: 'body', bytes: kept.toString('base64') });
    if (kept.length < bytes.length) this.#cut('SIZE');
    return isFast;
  }

  end(bytes: Buffer): void {
    this.write(bytes);
    this.#finish({ why: 'COMPLETE' });
  }

  fail(error: CapstanError): void {
    if (this.#hasHead) {
      this.#finish({ why: 'BROKEN', error: error.message });
      return;
    }
    const { status, headers, body } = errorAnswer(error);
    this.head(status, Object.entries(headers).flat());
    this.end(Buffer.from(body));
  }

  /** The reader disconnected. */
  gone(): void {
    if (this.#over) return;
    this.#stop();
    this.onGone(CALLER_DISCONNECTED);
    this.onOver();
  }

  #cut(why: 'SIZE' | 'TIME'): void {
    if (this.#over) return;
    this.#finish({ why });
    this.onGone('the console reads no more of the response');
  }

  #finish(end: End): void {
    if (this.#over) return;
    this.#stop();
    this.#write({ kind: 'end', ...end });
    this.#options.close();
    this.onOver();
  }

  #stop(): void {
    this.#over = true;
    clearTimeout(this.#limit);
    clearInterval(this.#alive);
  }

  #write(line: object): boolean {
    return this.#options.write(`${JSON.stringify(line)}\n`);
  }
}
