/**
 * Handles load-balanced requests from the socket to a worker and back, without the framework of the queue API, because
 * bodies are passed on as they arrive.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';

import { CapstanError } from '../../lib/errors.ts';
import type { Party, SharedBudget, Reservation } from '../../lib/shared-budget.ts';
import type { Span, Tracing } from '../../lib/telemetry/tracing.ts';
import { traceOf } from '../../lib/trace-context.ts';
import type { UploadMonitor } from '../../lib/upload-monitor.ts';
import { EndpointKind } from '../../proto/gen/capstan/v1/common.ts';
import type { HeaderPair } from '../../lib/response-validator.ts';
import { keyText, type Authenticator } from '../auth/authenticate.ts';
import { noEndpoint, refusal } from '../directory/permission.ts';
import type { GatewayConfig } from '../config.ts';
import type { Endpoint, Key } from '../directory/directory.ts';
import type { Lookup } from '../lookup/lookup.ts';
import { isId, printable } from '../directory/ids.ts';
import { partiesOf } from '../http/request-body.ts';
import { isPreflight, Origins, preflightHeaders } from '../http/origins.ts';
import { PREFIX_HEADER, withLocationBelow } from '../../lib/redirects.ts';
import { CALLER_DISCONNECTED } from '../../lib/http-messages.ts';
import { JSON_TYPE, toCapstanError, tooLarge } from '../http/problem.ts';
import type { AgentLink } from '../invoke/agent-link.ts';
import type { Log } from '../log.ts';
import type { LbMetrics } from '../metrics/lb-metrics.ts';
import { lbAddress, type LbAddress } from '../http/lb-address.ts';
import { sendError } from './answer.ts';
import { sendDocument, sendPage, serverOf } from './docs/answers.ts';
import { documentOf } from './docs/document.ts';
import { FallbackResponder } from './docs-fallback.ts';
import { docsRequested, opensPage } from './docs/requested.ts';
import { withoutCredentials, withoutCredentialsInQuery } from './credentials.ts';
import { BodyFeed } from './body-feed.ts';
import { Exchange, RETAINED_BYTES, type Responder } from './exchange.ts';
import { answerHeaders, callerOf, originOf, peerOfRequest, type RequestHead, type TrustedProxies } from '../http/forwarded.ts';
import type { Pools } from './pools.ts';
import { OpenPreflights, reachesApplication } from './preflights.ts';
import { leavesAuthorization, type Presented } from '../auth/presented-key.ts';
import { pageOnOwnHost } from './own-host.ts';
import { ownHostHeaders, sharedOriginHeaders, tenantHeaders } from './shared-origin.ts';
import type { SignIn } from './sign-in/sign-in.ts';
import { RouteTables, type RouteMatch } from './routes.ts';
import { HttpResponder } from './responders.ts';
import { Upgrades, type Admitted, type HandshakeRewrite } from './upgrades.ts';

export interface LoadBalancerDeps {
  readonly config: GatewayConfig;
  readonly log: Log;
  readonly lookup: Lookup;
  readonly authenticator: Authenticator;
  readonly pools: Pools<AgentLink>;
  readonly proxies: TrustedProxies;
  /** Memory of request bodies. */
  readonly memory: SharedBudget;
  /** Detects bodies that arrive too slowly. */
  readonly uploads: UploadMonitor;
  readonly metrics: LbMetrics;
  readonly tracing: Tracing;
  readonly signIn: SignIn;
}

/** A caller without a key may hold at most this share of the memory for bodies. */
const PEER_FRACTION = 8;

/** A caller's side that says when it is over, and what came of the request. */
export interface Accounted extends Responder {
  readonly status: number;
  /** The route that admitted the request; empty before. */
  route: string;
  onDrain: () => void;
  /** The caller disconnected, or wants no more. */
  onGone: (why: string) => void;
  /** Called once, when all is over. */
  onOver: () => void;
}

interface NewExchange {
  readonly route: RouteMatch;
  readonly responder: Responder;
  /** Null unless the caller opens a WebSocket. */
  readonly rewrite: HandshakeRewrite | null;
  /** Trace context for the function; empty: what the caller sent. */
  readonly trace: string;
  /** A worker has taken the request. */
  readonly onReady: () => void;
}

export class LoadBalancer {
  readonly #deps: LoadBalancerDeps;
  readonly #origins: Origins;
  readonly #routes = new RouteTables();
  readonly #preflights = new OpenPreflights();
  #nextRequest = 1;
  readonly #upgrades: Upgrades;

  constructor(deps: LoadBalancerDeps) {
    this.#deps = deps;
    this.#origins = new Origins(deps.config.corsOrigins);
    this.#upgrades = new Upgrades({
      ...deps,
      origins: this.#origins,
      admit: (...asked) => this.#admit(...asked),
      open: (admitted, responder, rewrite, onReady) => this.#openWebSocket(admitted, { responder, rewrite, onReady }),
      reserve: (request, endpoint) => this.#reserve(request, endpoint),
      errorOf: (thrown, endpointId) => this.#errorOf(thrown, endpointId),
    });
  }

  /**
   * Returns true when the request is for a load-balanced endpoint: it is handled here. `sendScript` sends the script of
   * pages of documentation, which is public and the gateway's own.
   */
  take(request: IncomingMessage, response: ServerResponse, sendScript: () => void): boolean {
    const address = lbAddress(request.headers.host, request.url ?? '/', this.#deps.config.lbDomain);
    if (address === null) return false;
    if (!this.#origins.isEmpty && this.#tellOrigin(request, response, address)) return true;
    if (this.#deps.signIn.take(request, response, address)) return true;
    const known = this.#deps.lookup.knownEndpoint(address.endpointId);
    const page = known === undefined ? undefined : this.#pageOnOwnHost(request, address, known);
    if (page !== undefined) {
      response.writeHead(307, { location: page, vary: 'Sec-Fetch-Dest', 'cache-control': 'no-store' }).end();
      return true;
    }
    const docs = docsRequested(request, address, known, (endpoint, path) => this.#routes.has(endpoint, path));
    const showPage = (status: number): void => {
      const { authority } = originOf(request, this.#deps.proxies);
      sendPage(response, { status, authority, prefix: serverOf(request.url ?? '', address), headOnly: request.method === 'HEAD' });
    };
    if (
      docs?.part === 'script' &&
      (!docs.isFallback || (known?.isPublic !== true && this.#deps.signIn.presented(request, address).kind === 'none'))
    ) {
      sendScript();
      return true;
    }
    if (docs?.part === 'page' && !docs.isFallback) {
      showPage(200);
      return true;
    }
    const begun = performance.now();
    const serve = (endpoint: Endpoint): void => {
      if (docs?.part === 'document') {
        sendDocument(response, documentOf(endpoint, serverOf(request.url ?? '', address)), request.method === 'HEAD');
        return;
      }
      const http = new HttpResponder(request, response);
      http.onOver = () => this.#deps.metrics.answered(endpoint.id, http.status, performance.now() - begun, http.route);
      http.onBroken = (error) => this.#brokeOff(endpoint.id, error);
      const responder = docs === null ? http : new FallbackResponder(http, docs.part === 'page' ? () => showPage(200) : sendScript);
      try {
        this.#serve({ request, endpoint, address }, http, responder);
      } catch (thrown) {
        responder.fail(this.#errorOf(thrown, endpoint.id));
      }
    };
    const isOpen = !(known?.isPublic ?? false) && this.#deps.signIn.presented(request, address).kind === 'none';
    if (isOpen && known !== undefined && reachesApplication(request, known, () => this.#routes.has(known, address.target, 'OPTIONS'))) {
      this.#passPreflight(request, response, known, serve);
      return true;
    }
    this.#admit(request, address, serve, (error) => {
      // The page asks for the key.
      if (error.code === 'UNAUTHENTICATED' && docs?.part === 'page' && opensPage(request)) showPage(401);
      else if (error.code === 'UNAUTHENTICATED' && this.#deps.signIn.canAsk(request, address))
        this.#deps.signIn.ask(request, response, address);
      else sendError(request, response, error);
    });
    return true;
  }

  #pageOnOwnHost({ method, headers, socket }: IncomingMessage, address: LbAddress, endpoint: Endpoint): string | undefined {
    const { config, proxies } = this.#deps;
    if (!address.pathForm) return undefined;
    return pageOnOwnHost({ method, headers, address, origin: originOf({ headers, socket }, proxies), domain: config.lbDomain }, endpoint);
  }

  /** A preflight holds its place until its response is over. */
  #passPreflight(request: IncomingMessage, response: ServerResponse, endpoint: Endpoint, serve: (endpoint: Endpoint) => void): void {
    try {
      response.once('close', this.#preflights.enter(peerOfRequest(request, this.#deps.proxies)));
    } catch (thrown) {
      sendError(request, response, this.#errorOf(thrown, endpoint.id));
      return;
    }
    // A browser sends none.
    request.rawHeaders = request.rawHeaders.flatMap((text, at, all) =>
      at % 2 === 0 && text.toLowerCase() !== 'cookie' ? [text, all[at + 1] ?? ''] : [],
    );
    serve(endpoint);
  }

  /** The same for an upgrade (WebSocket). */
  takeUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer): boolean {
    const address = lbAddress(request.headers.host, request.url ?? '/', this.#deps.config.lbDomain);
    if (address === null) return false;
    this.#upgrades.take(request, address, socket, head);
    return true;
  }

  /** Handles CORS (docs/api-limits.md). Returns true when the request was a preflight, which then has its response. */
  #tellOrigin({ method, headers }: IncomingMessage, response: ServerResponse, { endpointId, target }: LbAddress): boolean {
    // A header of the response with the same name replaces these.
    for (const [name, value] of Object.entries(this.#origins.headersFor(headers, '*'))) response.setHeader(name, value);
    if (!this.#origins.allows(headers.origin) || !isPreflight(method, headers)) return false;
    const endpoint = this.#deps.lookup.knownEndpoint(endpointId);
    // A preflight has no key, so it reaches only endpoints that need none.
    if (endpoint?.isPublic === true && (endpoint.routes.length === 0 || this.#routes.has(endpoint, target, 'OPTIONS'))) return false;
    response.writeHead(204, preflightHeaders(headers, null)).end();
    return true;
  }

  /** Tells the callers of open WebSockets to connect again. */
  restartWebSockets(): void {
    this.#upgrades.restart();
  }

  /** Cuts the upgraded connections. */
  closeHandedOver(): void {
    this.#upgrades.close();
  }

  #admit(
    request: IncomingMessage,
    address: LbAddress,
    admitted: (endpoint: Endpoint) => void,
    refused: (error: CapstanError) => void,
  ): void {
    const { endpointId } = address;
    const presented = this.#deps.signIn.presented(request, address);
    const key = this.#cachedKey(presented);
    const known = this.#known(address, key);
    if (known !== undefined && (known.isPublic || key !== undefined)) {
      const error = this.#refusal(known, endpointId, key);
      if (error === null) admitted(known);
      else refused(error);
      return;
    }
    this.#lookUpUncached(address, request, presented).then(
      ({ endpoint, key: found }) => {
        const error = this.#refusal(endpoint, endpointId, found);
        if (error === null && endpoint !== undefined) admitted(endpoint);
        else refused(error ?? noEndpoint(endpointId));
      },
      (thrown: unknown) => refused(this.#errorOf(thrown, endpointId)),
    );
  }

  #cachedKey(presented: Presented): Key | undefined {
    const { authenticator } = this.#deps;
    if (presented.kind === 'signed-in') return authenticator.knownHolder(presented.hash);
    return presented.kind === 'none' ? undefined : authenticator.cached(presented.header);
  }

  /** Without a key an endpoint is reached by its id only, and a host name is always an id. */
  #known({ endpointId, pathForm }: LbAddress, key: Key | undefined): Endpoint | undefined {
    const { lookup } = this.#deps;
    const byId = lookup.knownEndpoint(endpointId);
    if (key === undefined || !pathForm || byId?.isPublic === true) return byId;
    return lookup.knownEndpointOf(key, endpointId) ?? byId;
  }

  async #lookUpUncached(
    { endpointId, pathForm }: LbAddress,
    request: IncomingMessage,
    presented: Presented,
  ): Promise<{ endpoint: Endpoint | undefined; key: Key | undefined }> {
    const { lookup, authenticator, proxies } = this.#deps;
    const known = lookup.knownEndpoint(endpointId);
    if (known?.isPublic === true) return { endpoint: known, key: undefined };
    const peer = peerOfRequest(request, proxies);
    const key =
      presented.kind === 'signed-in'
        ? await authenticator.holder(presented.hash, peer)
        : await authenticator.authenticate(presented.kind === 'none' ? undefined : presented.header, peer);
    if (pathForm) return { endpoint: await lookup.endpointOf(key, endpointId), key };
    return { endpoint: isId(endpointId) ? await lookup.endpoint(endpointId, key.accountId) : undefined, key };
  }

  #refusal(endpoint: Endpoint | undefined, endpointId: string, key: Key | undefined): CapstanError | null {
    if (endpoint === undefined) return noEndpoint(endpointId);
    const refused = endpoint.isPublic || key === undefined ? null : refusal(key, endpointId, endpoint, 'call');
    if (refused !== null) return refused;
    if (endpoint.kind === EndpointKind.LOAD_BALANCED) return null;
    return new CapstanError('NOT_FOUND', `endpoint ${printable(endpointId)} is queue-based: call /v2/${endpointId}/run`);
  }

  #serve(admitted: Admitted, http: HttpResponder, responder: Responder): void {
    const { request, endpoint, address } = admitted;
    const { config, uploads } = this.#deps;
    const route = this.#routeOf(endpoint, request, address);
    http.route = route.route;
    if (Number(request.headers['content-length'] ?? 0) > config.lbMaxBodyBytes) throw tooLarge(config.lbMaxBodyBytes);
    const feed = new BodyFeed(request, {
      maxBytes: config.lbMaxBodyBytes,
      reservation: this.#reserve(request, endpoint),
      monitor: uploads,
      onRefused: (error) => responder.fail(error),
    });
    const { onOver } = http;
    http.onOver = () => {
      feed.end();
      onOver();
    };
    const span = this.#span(admitted, route, http);
    const exchange = this.#exchange(admitted, { route, responder, rewrite: null, trace: span?.trace ?? '', onReady: () => feed.readOn() });
    http.onDrain = () => exchange.drained();
    http.onGone = () => exchange.abandon(CALLER_DISCONNECTED);
    feed.start(exchange);
  }

  /**
   * Sends a request whose body is there, and whose caller was admitted, to the endpoint. It counts as one of the endpoint's.
   * @throws CapstanError when the endpoint has no such route.
   */
  send(admitted: Admitted<RequestHead>, body: Buffer, responder: Accounted): void {
    const { request, endpoint, address } = admitted;
    const docs = docsRequested(request, address, endpoint, (known, path) => this.#routes.has(known, path));
    if (docs?.part === 'document') {
      responder.head(200, ['content-type', JSON_TYPE]);
      responder.end(Buffer.from(JSON.stringify(documentOf(endpoint, serverOf(request.url ?? '', address)))));
      return;
    }
    if (docs?.isFallback === false)
      throw new CapstanError('NOT_FOUND', "path: this page is the gateway's own documentation of the endpoint; open its address instead");
    const begun = performance.now();
    responder.onOver = () => this.#deps.metrics.answered(endpoint.id, responder.status, performance.now() - begun, responder.route);
    const route = this.#routeOf(endpoint, request, address);
    responder.route = route.route;
    const span = this.#span(admitted, route, responder);
    let sent = 0;
    const feed = (): void => {
      while (sent < body.length) {
        const piece = body.subarray(sent, sent + RETAINED_BYTES);
        sent += piece.length;
        if (!exchange.push(piece)) return;
      }
      exchange.finish();
    };
    const exchange = this.#exchange(admitted, { route, responder, rewrite: null, trace: span?.trace ?? '', onReady: feed });
    responder.onDrain = () => exchange.drained();
    responder.onGone = (why) => exchange.abandon(why);
    sent = Math.min(body.length, RETAINED_BYTES);
    exchange.start(body.subarray(0, sent), sent === body.length);
  }

  /** The span of a request ends with its response; a WebSocket has none. */
  #span({ request, endpoint }: Admitted<RequestHead>, route: RouteMatch, http: Pick<HttpResponder, 'onOver' | 'status'>): Span | undefined {
    const { tracing } = this.#deps;
    if (!tracing.isOn) return undefined;
    const { method = 'GET', headers } = request;
    const span = tracing.start(route.function === '' ? method : `${method} ${route.function}`, {
      kind: 'server',
      parent: traceOf(headers['traceparent'], headers['tracestate']),
      attributes: { 'http.request.method': method, 'capstan.endpoint.id': endpoint.id },
    });
    if (!span.isRecorded) return span;
    const { onOver } = http;
    http.onOver = () => {
      onOver();
      span.set({ 'http.response.status_code': http.status });
      if (http.status >= 500) span.fail(`status ${http.status}`);
      span.end();
    };
    return span;
  }

  /** The account is charged for the memory of a body, and a caller without a key has a share of the account's. */
  #reserve(request: IncomingMessage, { accountId, isPublic }: Endpoint): Reservation {
    const { memory, config, proxies } = this.#deps;
    const parties = partiesOf(accountId, request, config);
    if (!isPublic) return memory.open(...parties);
    const peer: Party = { id: `address ${peerOfRequest(request, proxies)}`, most: Math.floor(memory.limit / PEER_FRACTION) };
    return memory.open(...parties, peer);
  }

  #openWebSocket(admitted: Admitted, given: Omit<NewExchange, 'route' | 'trace'>): Exchange {
    const route = this.#routeOf(admitted.endpoint, admitted.request, admitted.address);
    if (!route.takesWebSocket)
      throw new CapstanError('INVALID_ARGUMENT', 'this route does not accept upgrades: its function has no parameter websocket');
    return this.#exchange(admitted, { ...given, route, trace: '' });
  }

  #exchange({ request, endpoint, address }: Admitted<RequestHead>, { route, responder, rewrite, trace, onReady }: NewExchange): Exchange {
    const { pathForm } = address;
    const { authenticator, pools, proxies, config, log } = this.#deps;
    const { authorization } = request.headers;
    const presented = this.#deps.signIn.presented(request, address);
    const keepKey = (endpoint.isPublic || leavesAuthorization(presented)) && !authenticator.isKey(authorization);
    const own = endpoint.isPublic || presented.kind !== 'header' ? undefined : keyText(presented.header);
    const isCredential = (text: string): boolean => text === own || authenticator.isKnown(text);
    const caller = callerOf(request, proxies, { keepKey, trace });
    const { scheme, authority } = caller;
    const passed = tenantHeaders(caller.headers, pathForm);
    const headers = withoutCredentials(rewrite === null ? passed : rewrite.request(passed), isCredential);
    const prefix = pathForm ? `/lb/${address.endpointId}` : '';
    if (prefix !== '') headers.push({ name: PREFIX_HEADER, value: prefix });
    headers.push({ name: 'x-request-id', value: `${endpoint.id}-${(this.#nextRequest++).toString(36)}` });
    const method = request.method ?? 'GET';
    const begin = {
      function: route.function,
      method,
      target: withoutCredentialsInQuery(address.target, isCredential),
      headers,
      scheme,
      authority,
      pathValues: route.values,
      upgrade: rewrite !== null,
    };
    const confine = (flat: readonly string[]): string[] =>
      pathForm ? sharedOriginHeaders(withLocationBelow(flat, prefix, authority)) : ownHostHeaders(flat);
    const headersOf = (answer: readonly HeaderPair[]): string[] => {
      const flat = confine(answerHeaders(answer));
      return rewrite === null ? flat : rewrite.response(flat);
    };
    const onInvalid = (node: string, reason: string): void =>
      log.warn({ endpoint: endpoint.id, node, reason }, 'invalid response from an agent');
    // A preflight has no key, also where the endpoint requires one.
    const hasKey = !endpoint.isPublic && presented.kind !== 'none';
    const options = { endpointId: endpoint.id, begin, pools, timeoutMs: config.lbTimeoutMs, responder, hasKey, headersOf };
    return new Exchange({ ...options, onInvalid, onReady });
  }

  /** An endpoint without routes has workers that listen themselves. */
  #routeOf(endpoint: Endpoint, request: RequestHead, { target }: LbAddress): RouteMatch {
    if (endpoint.routes.length === 0) return { function: '', route: '', values: {}, takesWebSocket: true };
    return this.#routes.match(endpoint, request.method ?? 'GET', target);
  }

  /** The status does not show the error, because it was sent before. */
  #brokeOff(endpoint: string, { code, message }: CapstanError): void {
    this.#deps.metrics.brokeOff(endpoint, code);
    // The endpoint's own log has the function's message.
    const reason = code === 'INTERNAL' ? 'the function failed' : message;
    this.#deps.log.info({ endpoint, code, reason }, 'response aborted after it had begun');
  }

  #errorOf(thrown: unknown, endpoint: string): CapstanError {
    const error = toCapstanError(thrown);
    if (error.code === 'INTERNAL') this.#deps.log.error({ endpoint, err: error.cause ?? error }, 'load-balanced request failed');
    return error;
  }
}
