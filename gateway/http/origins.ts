/** Decides which web origins may call, and the CORS headers for them (Fetch standard). Pure. */
import type { IncomingHttpHeaders } from 'node:http';

const MAX_AGE_S = '600';
const USUAL_HEADERS = 'Authorization, Content-Type, Idempotency-Key';
/** A list of names of headers. */
const NAMES = /^[\w!#$%&'*+.^`|~, -]{1,2048}$/;
const METHOD = /^[A-Z]{1,20}$/i;

export class Origins {
  readonly #all: boolean;
  readonly #named: ReadonlySet<string>;

  /** `*` stands for all. */
  constructor(list: readonly string[]) {
    this.#all = list.includes('*');
    this.#named = new Set(list);
  }

  /** The operator listed no origin: no CORS headers are sent. */
  get isEmpty(): boolean {
    return this.#named.size === 0;
  }

  /**
   * Returns the headers of a response to a request with these headers. `exposed`: response headers that the page may
   * read.
   */
  headersFor({ origin }: IncomingHttpHeaders, exposed: string): Readonly<Record<string, string>> {
    const vary: Record<string, string> = this.#all ? {} : { vary: 'Origin' };
    if (!this.allows(origin)) return vary;
    return { ...vary, 'access-control-allow-origin': this.#all ? '*' : origin, 'access-control-expose-headers': exposed };
  }

  /** Whether it is a page that may call. */
  allows(origin: string | undefined): origin is string {
    return origin !== undefined && (this.#all || this.#named.has(origin));
  }

  /** Whether the operator listed it by name: its pages may send cookies. */
  names(origin: string | undefined): boolean {
    return origin !== undefined && origin !== '*' && this.#named.has(origin);
  }
}

/** A preflight request has no key. */
export function isPreflight(method: string | undefined, headers: IncomingHttpHeaders): boolean {
  return method === 'OPTIONS' && headers['access-control-request-method'] !== undefined;
}

/**
 * Headers that a page may send. Headers that clients add have no effect on the service, so all requested ones are
 * allowed.
 */
export function preflightHeaders(headers: IncomingHttpHeaders, methods: string | null): Readonly<Record<string, string>> {
  const wanted = headers['access-control-request-headers'] ?? '';
  const method = headers['access-control-request-method'] ?? '';
  return {
    'access-control-allow-methods': methods ?? (METHOD.test(method) ? method : 'GET'),
    'access-control-allow-headers': NAMES.test(wanted) ? wanted : USUAL_HEADERS,
    'access-control-max-age': MAX_AGE_S,
  };
}
