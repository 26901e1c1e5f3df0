/**
 * WebSockets of load-balanced endpoints, from the opening handshake to the end of the connection. An open WebSocket is
 * one request of its worker: it holds a slot, and counts for scaling.
 */
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';

import { CapstanError } from '../../lib/errors.ts';
import { SharedBudget, type BudgetShortage, type Party, type Reservation } from '../../lib/shared-budget.ts';
import { readProtocols, withProtocol, type OfferedProtocols } from '../../lib/websocket-key.ts';
import { CALLER_DISCONNECTED } from '../../lib/http-messages.ts';
import type { Header } from '../../proto/gen/capstan/v1/invoke.ts';
import type { GatewayConfig } from '../config.ts';
import type { Endpoint } from '../directory/directory.ts';
import { endSocket } from '../http/end-socket.ts';
import type { Origins } from '../http/origins.ts';
import type { LbMetrics } from '../metrics/lb-metrics.ts';
import type { LbAddress } from '../http/lb-address.ts';
import { errorAnswer } from './answer.ts';
import type { Exchange, Responder } from './exchange.ts';
import { originOf, peerOfRequest, type RequestHead, type TrustedProxies } from '../http/forwarded.ts';
import { handshakeHeaders, handshakeViolation, isForeign } from './handshake.ts';
import { Tunnel } from './tunnel.ts';

/** A request whose caller may call the endpoint. */
export interface Admitted<T extends RequestHead = IncomingMessage> {
  readonly request: T;
  readonly endpoint: Endpoint;
  readonly address: LbAddress;
}

/** How the headers of a handshake differ from those of another request. */
export interface HandshakeRewrite {
  readonly request: (headers: Header[]) => Header[];
  readonly response: (flat: string[]) => string[];
}

export interface UpgradesDeps {
  readonly config: GatewayConfig;
  readonly metrics: LbMetrics;
  readonly proxies: TrustedProxies;
  readonly origins: Origins;
  /** Checks key and endpoint; calls exactly one of the two functions. */
  readonly admit: (
    request: IncomingMessage,
    address: LbAddress,
    admitted: (endpoint: Endpoint) => void,
    refused: (error: CapstanError) => void,
  ) => void;
  /** Creates the exchange with a worker. @throws CapstanError when the endpoint has no such route. */
  readonly open: (admitted: Admitted, responder: Responder, rewrite: HandshakeRewrite, onReady: () => void) => Exchange;
  /** Memory for bytes that no worker has taken yet. */
  readonly reserve: (request: IncomingMessage, endpoint: Endpoint) => Reservation;
  readonly errorOf: (thrown: unknown, endpointId: string) => CapstanError;
}

/** A caller without a key may have at most this share of the WebSockets. */
const PEER_FRACTION = 8;
/** As in nginx: the caller disconnected before the response. */
const CALLER_GONE = 499;
const RETRY_MS = 5_000;
/** Interval at which the keys of open WebSockets are checked again, ms: a key may be revoked, and it expires. */
const RECHECK_MS = 5_000;
/** Refusals that end an open WebSocket; others pass, such as a scheduler that is away. */
const ENDS: ReadonlySet<string> = new Set(['UNAUTHENTICATED', 'PERMISSION_DENIED', 'NOT_FOUND']);

export class Upgrades {
  readonly #deps: UpgradesDeps;
  /** WebSockets, open or waiting for a worker; an account has at most as many as it leaves. */
  readonly #room: SharedBudget;
  /** All connections, which the HTTP server no longer tracks. */
  readonly #sockets = new Set<Duplex>();
  readonly #open = new Map<Tunnel, Admitted>();
  readonly #recheck: NodeJS.Timeout;

  constructor(deps: UpgradesDeps) {
    this.#deps = deps;
    this.#room = new SharedBudget(deps.config.lbMaxWebSockets);
    this.#recheck = setInterval(() => this.#checkKeys(), RECHECK_MS).unref();
  }

  take(request: IncomingMessage, address: LbAddress, socket: Duplex, head: Buffer): void {
    this.#sockets.add(socket);
    socket.on('error', () => socket.destroy());
    socket.once('close', () => this.#sockets.delete(socket));
    const refuse = (error: CapstanError): void => void this.#refuse(socket, error);
    const wrong = handshakeViolation(request);
    if (wrong !== null) {
      refuse(wrong);
      return;
    }
    const protocols = readProtocols(request.headers['sec-websocket-protocol']);
    // A header of its own is checked first, and alone.
    if (protocols !== null) request.headers.authorization ??= protocols.authorization;
    this.#deps.admit(
      request,
      address,
      (endpoint) => {
        try {
          this.#connect({ request, endpoint, address }, protocols, socket, head);
        } catch (thrown) {
          refuse(this.#deps.errorOf(thrown, endpoint.id));
        }
      },
      refuse,
    );
  }

  /** Tells the callers of open WebSockets to connect again, to another gateway. */
  restart(): void {
    for (const tunnel of this.#open.keys()) tunnel.restart();
  }

  /** Cuts all connections. */
  close(): void {
    clearInterval(this.#recheck);
    for (const socket of this.#sockets) socket.destroy();
  }

  #checkKeys(): void {
    for (const [tunnel, { request, address }] of this.#open) {
      this.#deps.admit(
        request,
        address,
        () => undefined,
        (error) => {
          if (ENDS.has(error.code)) tunnel.revoke(error.message);
        },
      );
    }
  }

  #connect(admitted: Admitted, protocols: OfferedProtocols | null, socket: Duplex, head: Buffer): void {
    // The caller disconnected while its key was looked up.
    if (socket.destroyed) return;
    const { request, endpoint } = admitted;
    const { config, metrics, proxies, origins } = this.#deps;
    const begun = performance.now();
    let isAnswered = false;
    const answered = (status: number): void => {
      if (!isAnswered) metrics.answered(endpoint.id, status, performance.now() - begun);
      isAnswered = true;
    };
    const refuse = (error: CapstanError): void => answered(this.#refuse(socket, error));
    const room = this.#enter(request, endpoint);
    if (room instanceof CapstanError) {
      refuse(room);
      return;
    }
    const tunnel: Tunnel = new Tunnel(socket, {
      idleMs: config.lbWebSocketIdleMs,
      longestMs: config.lbWebSocketMaxMs,
      refuse,
      onHead: (status) => {
        answered(status);
        if (status !== 101) return;
        this.#open.set(tunnel, admitted);
        metrics.opened(endpoint.id);
      },
      onCut: (why) => exchange.abandon(why),
      onEnd: (why) => {
        this.#open.delete(tunnel);
        metrics.closed(endpoint.id, why);
      },
    });
    const { origin } = request.headers;
    const isOther = isForeign(origin, originOf(request, proxies).authority) && !origins.names(origin);
    const rewrite = {
      request: (headers: Header[]) => handshakeHeaders(headers, protocols, isOther),
      response: (flat: string[]) => withProtocol(flat, protocols?.fallback),
    };
    const memory = this.#deps.reserve(request, endpoint);
    const onReady = (): void => {
      memory.resize(exchange.heldBytes);
      socket.resume();
    };
    socket.once('close', () => {
      room.release();
      memory.release();
      answered(CALLER_GONE);
    });
    const exchange = this.#deps.open(admitted, tunnel, rewrite, onReady);
    tunnel.onDrain = () => exchange.drained();
    socket.once('close', () => exchange.abandon(CALLER_DISCONNECTED));
    socket.on('data', (chunk: Buffer) => {
      const hasRoom = exchange.push(chunk);
      // Without free memory the caller waits until the worker has taken what was sent.
      if (memory.resize(exchange.heldBytes) !== null || !hasRoom) socket.pause();
    });
    socket.on('end', () => {
      if (!isAnswered) socket.destroy();
      exchange.finish();
      tunnel.halfClosed();
    });
    exchange.start(head, false);
  }

  /** Reserves a place, or returns why there is none. */
  #enter(request: IncomingMessage, { accountId, isPublic }: Endpoint): Reservation | CapstanError {
    const parties: Party[] = [{ id: accountId }];
    const most = Math.max(1, Math.floor(this.#room.limit / PEER_FRACTION));
    if (isPublic) parties.push({ id: `address ${peerOfRequest(request, this.#deps.proxies)}`, most });
    const room = this.#room.open(...parties);
    const shortage = room.resize(1);
    return shortage === null ? room : this.#full(shortage);
  }

  #full(shortage: BudgetShortage): CapstanError {
    const options = { retryAfterMs: RETRY_MS };
    return shortage === 'party'
      ? new CapstanError('RATE_LIMITED', 'this account or address already has its share of the gateway’s WebSockets', options)
      : new CapstanError('UNAVAILABLE', `the gateway already has ${this.#room.used} WebSockets, and accepts no more`, options);
  }

  /** Returns the status of the response. */
  #refuse(socket: Duplex, error: CapstanError): number {
    const { status, title, headers, body } = errorAnswer(error);
    const lines = Object.entries({ ...headers, connection: 'close' }).map(([name, value]) => `${name}: ${value}\r\n`);
    endSocket(socket, `HTTP/1.1 ${status} ${title}\r\n${lines.join('')}\r\n${body}`);
    // What the caller still sends is dropped.
    socket.resume();
    return status;
  }
}
