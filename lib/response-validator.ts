/**
 * Validates the HTTP responses of user code (functions and servers) before any byte reaches a caller. The agent uses it
 * so that the developer sees the reason in the endpoint's log, the gateway because it does not trust agents, and the
 * development server so that a response behaves as in a deployment.
 *
 * The rules, by RFC 9110 and RFC 9112:
 *
 * | Part | Rule |
 * |---|---|
 * | status | an integer from 200 to 599; 101 only for a request that asked for an upgrade |
 * | header names | tokens |
 * | header values | visible ASCII, spaces, tabs and the bytes 0x80 to 0xFF; characters beyond Latin-1 are refused, since no encoding is agreed for them |
 * | content-length | at most one, digits only, equal to the body's length, never beside transfer-encoding |
 * | transfer-encoding | chunked only; the gateway frames the body again |
 * | hop-by-hop headers | removed, with those that Connection names |
 * | all headers together | at most 64 KiB |
 */

export type HeaderPair = readonly [name: string, value: string];

/** Headers of one connection (RFC 9110, section 7.6.1), which are never forwarded. */
export const HOP_BY_HOP: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'expect',
]);

export const MAX_HEAD_BYTES = 64 * 1024;

const TOKEN = /^[!#$%&'*+\-.^_`|~\w]+$/;
const VALUE = /^[\t\u0020-\u007e\u0080-\u00ff]*$/;
const DIGITS = /^\d{1,15}$/;
const SHOWN_CHARACTERS = 64;

/** The facts of the request that a validator needs. */
export interface AnsweredRequest {
  readonly method: string;
  /** The caller requested an upgrade (WebSocket). */
  readonly upgrade: boolean;
}

export type ValidatedHead =
  /** The headers that may be forwarded. */
  { readonly kind: 'valid'; readonly headers: HeaderPair[] } | { readonly kind: 'invalid'; readonly reason: string };

/** Validates one response: its head once, then every part of its body. */
export class ResponseValidator {
  readonly #request: AnsweredRequest;
  #hasHead = false;
  /** Required length of the body, bytes; undefined when only its end determines it. */
  #length: number | undefined;
  #received = 0;

  constructor(request: AnsweredRequest) {
    this.#request = request;
  }

  /** Validates a head and the part of the body that came with it. */
  head(status: number, headers: readonly HeaderPair[], bytes: number, ended: boolean): ValidatedHead {
    if (this.#hasHead) return invalid('the response has a second head');
    this.#hasHead = true;
    const wrong = statusViolation(status, this.#request.upgrade) ?? headersViolation(headers);
    if (wrong !== null) return invalid(wrong);
    const framing = this.#readFraming(status, headers) ?? this.body(bytes, ended);
    if (framing !== null) return invalid(framing);
    return { kind: 'valid', headers: endToEnd(status, headers) };
  }

  /** Returns why the body must not be forwarded any further, or null. */
  body(bytes: number, ended: boolean): string | null {
    if (!this.#hasHead) return 'the response has a body before its head';
    this.#received += bytes;
    if (this.#length === undefined) return null;
    if (this.#received > this.#length) return `the response body is longer than its content-length of ${this.#length} bytes`;
    if (ended && this.#received < this.#length) {
      return `the response body has ${this.#received} bytes, but its content-length is ${this.#length}`;
    }
    return null;
  }

  /** Determines the required length of the body. Returns a violation, or null. */
  #readFraming(status: number, headers: readonly HeaderPair[]): string | null {
    const lengths = valuesOf(headers, 'content-length');
    const codings = valuesOf(headers, 'transfer-encoding');
    const [length] = lengths;
    if (codings.length > 1 || (codings[0] !== undefined && codings[0].trim().toLowerCase() !== 'chunked')) {
      return 'the header transfer-encoding must be absent or chunked';
    }
    if (length === undefined) {
      if (status === 205) this.#length = 0;
      return null;
    }
    if (codings.length > 0) return 'the headers content-length and transfer-encoding must not be combined';
    if (lengths.length > 1) return 'the header content-length must occur once';
    if (!DIGITS.test(length.trim())) return `the header content-length must be a number of bytes, not ${shown(length)}`;
    if (status === 205 && Number(length) > 0) return 'a response with status 205 must have no body';
    if (hasBody(this.#request.method, status)) this.#length = Number(length);
    return null;
  }
}

/** False for responses whose body is not sent, whatever their headers say. */
export function hasBody(method: string, status: number): boolean {
  return method !== 'HEAD' && status !== 204 && status !== 304 && status >= 200;
}

function statusViolation(status: number, upgrade: boolean): string | null {
  if (status === 101) return upgrade ? null : 'the status 101 is allowed only for upgrade requests';
  if (Number.isInteger(status) && status >= 200 && status <= 599) return null;
  return `the status of a response must be an integer from 200 to 599, not ${shown(status)}`;
}

function headersViolation(headers: readonly HeaderPair[]): string | null {
  let bytes = 0;
  for (const [name, value] of headers) {
    if (typeof name !== 'string' || !TOKEN.test(name)) return `the header name ${shown(name)} is not a token (RFC 9110, section 5.6.2)`;
    if (typeof value !== 'string' || !VALUE.test(value)) {
      return `the value of the header ${shown(name)} has characters that are not allowed (RFC 9110, section 5.5); encode them`;
    }
    bytes += name.length + value.length + 4;
  }
  return bytes > MAX_HEAD_BYTES ? `the headers of a response must have at most ${MAX_HEAD_BYTES} bytes, not ${bytes}` : null;
}

function endToEnd(status: number, headers: readonly HeaderPair[]): HeaderPair[] {
  const named = new Set(valuesOf(headers, 'connection').flatMap((value) => value.toLowerCase().split(/[\s,]+/)));
  return headers.filter(([name]) => {
    const lower = name.toLowerCase();
    if (HOP_BY_HOP.has(lower) || named.has(lower)) return false;
    // RFC 9110, section 8.6: not with these statuses.
    return lower !== 'content-length' || (status !== 101 && status !== 204);
  });
}

function valuesOf(headers: readonly HeaderPair[], wanted: string): string[] {
  return headers.flatMap(([name, value]) => (name.length === wanted.length && name.toLowerCase() === wanted ? [value] : []));
}

function invalid(reason: string): ValidatedHead {
  return { kind: 'invalid', reason };
}

/** Formats a value of user code for a message: escaped and truncated. */
function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? typeof value;
  return text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}…` : text;
}
