/**
 * GatewayService: gateways report their address for agents and the load of their endpoints; agents receive the list of
 * gateways.
 */
import type { ServerDuplexStream } from '@grpc/grpc-js';

import type { CapstanError } from '../../lib/errors.ts';
import type { GatewayNotice, GatewayReport, GatewayServiceServer, UnreachedBy } from '../../proto/gen/capstan/v1/invoke.ts';
import type { SchedulerEvent, UnreachableGateway } from '../../proto/gen/capstan/v1/nodes.ts';
import { toStatus } from '../../lib/grpc-errors.ts';
import { isLocalPeer, isOnThisHost } from '../../lib/grpc-tls.ts';
import { readServerStream } from '../../lib/stream-guard.ts';
import { unservableEndpoints } from '../core/fleet/unservable.ts';
import type { State } from '../core/state.ts';
import type { Clock } from '../engine/clock.ts';
import type { Engine } from '../engine/engine.ts';
import type { EngineLog } from '../engine/engine-options.ts';
import type { HistoryRecorder } from '../history/recorder.ts';
import type { GatewayToken } from '../secrets/gateway-token.ts';
import { INVOKE_TOKEN_MS, invokeToken } from '../secrets/invoke-token.ts';
import type { KnownCertificate } from '../incidents/of-certificates.ts';
import type { Authorizer } from './auth.ts';
import type { NodeSessions } from './node-service.ts';
import { peerCertificate } from './peer-certificate.ts';

/** Characters of an address, and of a reason. */
const MAX_URL = 512;
const MAX_REASON = 500;
/** Interval at which gateways are told of endpoints that nobody serves, and of nodes that do not reach them, ms. */
const CHANGES_MS = 250;
/** Gateways that one node may report as unreachable. */
const MAX_UNREACHABLE = 100;

type Call = ServerDuplexStream<GatewayReport, GatewayNotice>;

export interface GatewayServiceDeps {
  readonly engine: Engine;
  readonly auth: Authorizer;
  readonly sessions: NodeSessions;
  readonly clock: Clock;
  readonly log: EngineLog;
  /** Signs the nodes' credentials at gateways. Secret. */
  readonly gatewayToken: Pick<GatewayToken, 'value'>;
  /** What counts the requests that ended at gateways. */
  readonly counters: readonly Pick<HistoryRecorder, 'requestsEnded'>[];
}

interface OpenGateway {
  readonly call: Call;
  /** Where agents reach it; empty before its first report. */
  address: string;
  /** Base URL of its HTTP API as workers reach it; empty when unknown. */
  httpUrl: string;
  /** What it was told last; empty before the first notice. */
  sent: string;
}

/** The open sessions of gateways. */
export class GatewaySessions {
  readonly #deps: GatewayServiceDeps;
  readonly #open = new Map<number, OpenGateway>();
  /** Nodes with gateways that they do not reach. */
  readonly #unreachable = new Map<string, readonly UnreachableGateway[]>();
  readonly #renewal: NodeJS.Timeout;
  readonly #changes: NodeJS.Timeout;
  #next = 1;

  constructor(deps: GatewayServiceDeps) {
    this.#deps = deps;
    deps.sessions.onGreeted = (node, session) => deps.sessions.send(node, session, this.#notice(node, session));
    deps.sessions.onUnreachable = (node, gateways) => this.#unreached(node, gateways);
    this.#renewal = setInterval(() => this.#tellNodes(), INVOKE_TOKEN_MS / 3);
    this.#renewal.unref();
    this.#changes = setInterval(() => this.#tell(), CHANGES_MS);
    this.#changes.unref();
  }

  service(): GatewayServiceServer {
    return { session: (call) => this.#begin(call) } satisfies GatewayServiceServer;
  }

  /** Base URL of the HTTP API of a connected gateway; empty if none has one. */
  get httpUrl(): string {
    return [...this.#open.values()].find(({ httpUrl }) => httpUrl !== '')?.httpUrl ?? '';
  }

  /** The certificates by which connected gateways identify themselves. */
  certificates(): KnownCertificate[] {
    return [...this.#open.values()].flatMap(({ call, address }) => peerCertificate(`the gateway at ${address}`, call));
  }

  /** Tells all gateways about a removed node. They reject it from then on, whatever token it holds. */
  tellRemoved(): void {
    this.#tell();
  }

  closeAll(reason: CapstanError): void {
    for (const { call } of this.#open.values()) call.emit('error', toStatus(reason));
    this.#open.clear();
  }

  close(reason: CapstanError): void {
    clearInterval(this.#renewal);
    clearInterval(this.#changes);
    this.closeAll(reason);
  }

  #begin(call: Call): void {
    try {
      this.#deps.auth.gateway(call.metadata);
      this.#deps.engine.requireOwner();
    } catch (error) {
      call.emit('error', toStatus(error));
      return;
    }
    const gateway = this.#next++;
    const open: OpenGateway = { call, address: '', httpUrl: '', sent: '' };
    this.#open.set(gateway, open);
    this.#tell();
    readServerStream<GatewayReport>(
      call,
      { name: 'GatewayService.Session', log: this.#deps.log, facts: { gateway } },
      { onMessage: (report) => this.#reported(gateway, report), onClosed: () => this.#closed(gateway) },
    );
  }

  #reported(gateway: number, { invokeAddress, httpUrl, levels, routes }: GatewayReport): void {
    const open = this.#open.get(gateway);
    if (open === undefined) return;
    if (invokeAddress !== '' && invokeAddress !== open.address) {
      open.address = invokeAddress;
      open.httpUrl = httpUrl.slice(0, MAX_URL);
      this.#tellNodes();
      this.#tell();
    }
    if (levels.length > 0) this.#deps.engine.handle({ kind: 'levels', gateway, levels });
    for (const route of routes) for (const counter of this.#deps.counters) counter.requestsEnded(route);
  }

  #closed(gateway: number): void {
    const open = this.#open.get(gateway);
    if (open === undefined) return;
    this.#open.delete(gateway);
    this.#deps.engine.handle({ kind: 'gateway-closed', gateway });
    if (open.address !== '') this.#tellNodes();
  }

  /**
   * Tells each gateway what it does not know yet: the removed nodes whose last token could still be valid, the nodes that do not reach
   * it, and the endpoints that nobody serves. Nothing is told while another scheduler may own the queue.
   */
  #tell(): void {
    const { engine, clock } = this.#deps;
    // One state for all of it: the next look at it could find the term past.
    const state = engine.owns ? engine.image : null;
    if (this.#open.size === 0 || state === null) return;
    const now = clock.now();
    const since = now.wall - INVOKE_TOKEN_MS;
    const removedNodes = [...state.removedNodes.values()].filter(({ removedAt }) => removedAt > since).map(({ id }) => id);
    const unservable = unservableEndpoints(state, now).map((each) => ({ ...each, detail: each.detail.slice(0, MAX_REASON) }));
    const shared = JSON.stringify([removedNodes, unservable]);
    for (const gateway of this.#open.values()) {
      const unreachedBy = this.#unreachedBy(state, gateway);
      // The reason may be another one each time.
      const sent = `${shared} ${unreachedBy.map(({ nodeId }) => nodeId).join()}`;
      if (sent === gateway.sent) continue;
      gateway.sent = sent;
      gateway.call.write({ removedNodes, unreachedBy, unservable });
    }
  }

  #unreachedBy(state: State, { address }: OpenGateway): UnreachedBy[] {
    if (address === '') return [];
    return [...this.#unreachable].flatMap(([nodeId, gateways]) => {
      const found = gateways.find((gateway) => gateway.address === address);
      if (found === undefined) return [];
      const nodeName = state.nodes.get(nodeId)?.config.name ?? nodeId;
      return [{ nodeId, nodeName, dialed: found.dialed.slice(0, MAX_URL), reason: found.reason.slice(0, MAX_REASON) }];
    });
  }

  #unreached(node: string, gateways: readonly UnreachableGateway[]): void {
    if (gateways.length === 0 && !this.#unreachable.delete(node)) return;
    if (gateways.length > 0) this.#unreachable.set(node, gateways.slice(0, MAX_UNREACHABLE));
    this.#tell();
  }

  #tellNodes(): void {
    this.#deps.sessions.broadcast((node, session) => this.#notice(node, session));
  }

  #notice(node: string, session: number): SchedulerEvent {
    const token = invokeToken(this.#deps.gatewayToken.value, node, this.#deps.clock.now().wall);
    const byAddress = new Map(
      [...this.#open.values()].filter(({ address }) => address !== '').map((gateway) => [gateway.address, gateway]),
    );
    const gateways = [...byAddress].map(([address, gateway]) => ({ address, token, httpUrl: this.#urlFor(session, gateway) }));
    return { event: { $case: 'gateways', value: { gateways } } };
  }

  /** A URL on loopback is of use only to a node of the same host. */
  #urlFor(session: number, { httpUrl, call }: OpenGateway): string {
    if (!URL.canParse(httpUrl) || !isOnThisHost(new URL(httpUrl).host)) return httpUrl;
    return this.#deps.sessions.isLocal(session) && isLocalPeer(call.getPeer()) ? httpUrl : '';
  }
}
