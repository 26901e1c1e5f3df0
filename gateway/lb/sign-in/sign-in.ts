/**
 * Signs browsers in to endpoints: a page on the endpoint's own host takes the key once, and a cookie of that host stands for it. Pages of other
 * origins, those of other endpoints included, cannot use it (own-requests.ts).
 */
import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';

import { CapstanError, errorTable } from '../../../lib/errors.ts';
import { ENDPOINT_ID } from '../../../lib/endpoint-names.ts';
import { keyText, type Authenticator } from '../../auth/authenticate.ts';
import { noEndpoint, refusal } from '../../directory/permission.ts';
import type { Lookup } from '../../lookup/lookup.ts';
import { isId } from '../../directory/ids.ts';
import { toCapstanError, tooLarge } from '../../http/problem.ts';
import type { LbAddress } from '../../http/lb-address.ts';
import { originOf, peerOfRequest, type RequestHead, type TrustedProxies } from '../../http/forwarded.ts';
import { presentedKey, type Presented } from '../../auth/presented-key.ts';
import { setSignInCookie, signInCookie } from './cookie.ts';
import { isOwnRequest } from './own-requests.ts';
import { otherAddressPage, returnPath, SIGN_IN_HEADERS, SIGN_IN_PATH, SIGN_OUT_PATH, signInPage } from './page.ts';
import { SignInTokens } from './token.ts';

export interface SignInDeps {
  readonly authenticator: Pick<Authenticator, 'authenticate'>;
  readonly lookup: Pick<Lookup, 'endpoint'>;
  readonly proxies: TrustedProxies;
  readonly gatewayToken: string;
  /** Domain of load-balanced endpoints. */
  readonly domain: string;
  /** Wall clock, ms. */
  readonly wall?: () => number;
}

/** How long a sign-in lasts, s. */
const LASTS_S = 12 * 3_600;
const MAX_FORM_BYTES = 8_192;
const FORM = 'application/x-www-form-urlencoded';

export class SignIn {
  readonly #deps: SignInDeps;
  readonly #tokens: SignInTokens;
  readonly #wall: () => number;

  constructor(deps: SignInDeps) {
    this.#deps = deps;
    this.#tokens = new SignInTokens(deps.gatewayToken);
    this.#wall = deps.wall ?? Date.now;
  }

  /** Where a request has its key. The cookie counts on the endpoint's own host only, and only from its own pages. */
  presented({ method, headers, socket }: RequestHead, { endpointId, pathForm }: LbAddress): Presented {
    return presentedKey(headers, () => {
      if (pathForm) return undefined;
      const origin = originOf({ headers, socket }, this.#deps.proxies);
      const token = signInCookie(headers.cookie, origin);
      if (token === undefined || !isOwnRequest(method ?? 'GET', headers, origin)) return undefined;
      return this.#tokens.read(token, endpointId, this.#wall())?.hash;
    });
  }

  /** Returns true when the request is for the pages of the sign-in: it is handled here. */
  take(request: IncomingMessage, response: ServerResponse, { endpointId, target, pathForm }: LbAddress): boolean {
    if (pathForm || !target.startsWith('/.capstan/')) return false;
    const [path = ''] = target.split('?');
    if (path !== SIGN_IN_PATH && path !== SIGN_OUT_PATH) return false;
    if (request.method === 'POST') {
      this.#post(request, endpointId, path)
        .then(({ to, cookie }) => response.writeHead(303, { location: to, 'set-cookie': cookie, 'cache-control': 'no-store' }).end())
        .catch((thrown: unknown) => this.#refuse(request, response, thrown));
      return true;
    }
    const to = returnPath(new URLSearchParams(target.slice(path.length + 1)).get('to') ?? '/');
    this.#send(request, response, 200, signInPage(to, ''));
    return true;
  }

  /** Responds to a page without a key: with the sign-in, or with the address where that is. */
  ask(request: IncomingMessage, response: ServerResponse, { endpointId, target, pathForm }: LbAddress): void {
    const to = returnPath(target);
    if (!pathForm) this.#send(request, response, 401, signInPage(to, ''));
    else this.#send(request, response, 401, otherAddressPage(this.#addressOf(request, endpointId, to)));
  }

  /** Whether it is a browser that opens a page without a key, and there is a host at which it can sign in: a name is none. */
  canAsk(request: IncomingMessage, address: LbAddress): boolean {
    const { method, headers } = request;
    const isPage = (method === 'GET' || method === 'HEAD') && headers.accept?.includes('text/html') === true;
    const hasHost = !address.pathForm || ENDPOINT_ID.test(address.endpointId);
    return isPage && hasHost && this.presented(request, address).kind !== 'header';
  }

  #addressOf(request: IncomingMessage, endpointId: string, to: string): string {
    const { scheme, authority } = originOf(request, this.#deps.proxies);
    const port = /:\d+$/.exec(authority)?.[0] ?? '';
    return `${scheme}://${endpointId}.${this.#deps.domain}${port}${to}`;
  }

  async #post(request: IncomingMessage, endpointId: string, path: string): Promise<{ to: string; cookie: string }> {
    const { authenticator, lookup, proxies } = this.#deps;
    const origin = originOf(request, proxies);
    if (!isOwnRequest('POST', request.headers, origin))
      throw new CapstanError('PERMISSION_DENIED', 'Origin: must be the endpoint’s own host; open its page and sign in there', {
        field: 'Origin',
      });
    if (path === SIGN_OUT_PATH) return { to: SIGN_IN_PATH, cookie: setSignInCookie('', origin, 0) };
    if ((request.headers['content-type'] ?? '').split(';')[0]?.trim().toLowerCase() !== FORM)
      throw new CapstanError('INVALID_ARGUMENT', `Content-Type: must be ${FORM}`, { field: 'Content-Type' });
    const form = new URLSearchParams(await formOf(request));
    const header = `Bearer ${form.get('key') ?? ''}`;
    const peer = peerOfRequest(request, proxies);
    const key = await authenticator.authenticate(header, peer);
    if (key.hash.length === 0) throw new CapstanError('UNAUTHENTICATED', 'a worker’s token cannot sign in; use an API key');
    const endpoint = isId(endpointId) ? await lookup.endpoint(endpointId, key.accountId) : undefined;
    const refused = endpoint === undefined ? noEndpoint(endpointId) : refusal(key, endpointId, endpoint, 'call');
    if (refused !== null) throw refused;
    const hash = createHash('sha256').update(keyText(header), 'utf8').digest('hex');
    const until = this.#wall() + LASTS_S * 1_000;
    const cookie = setSignInCookie(this.#tokens.issue({ hash, endpointId, until }), origin, LASTS_S);
    return { to: returnPath(form.get('to') ?? '/'), cookie };
  }

  #refuse(request: IncomingMessage, response: ServerResponse, thrown: unknown): void {
    const error = toCapstanError(thrown);
    this.#send(request, response, errorTable[error.code].http, signInPage('/', error.message));
    request.resume();
  }

  #send({ method }: IncomingMessage, response: ServerResponse, status: number, text: string): void {
    if (response.headersSent || response.destroyed) return;
    const length = String(Buffer.byteLength(text));
    const challenge = status === 401 ? { 'www-authenticate': 'Bearer' } : {};
    response.writeHead(status, { ...SIGN_IN_HEADERS, ...challenge, 'content-length': length }).end(method === 'HEAD' ? '' : text);
  }
}

/** Reads the body of a form. @throws CapstanError if it is too large. */
async function formOf(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of request as AsyncIterable<Buffer>) {
    size += part.length;
    if (size > MAX_FORM_BYTES) throw tooLarge(MAX_FORM_BYTES);
    parts.push(part);
  }
  return Buffer.concat(parts).toString('utf8');
}
