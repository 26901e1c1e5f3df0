/**
 * GatewayService: gateways report their address for agents and the load of their endpoints; agents receive the list of
 * gateways.
 */
import type { ServerDuplexStream } from '@grpc/grpc-js';

import type { CapstanError } from '../../lib/errors.ts';
import type { GatewayNotice, GatewayReport, GatewayServiceServer } from '../../proto/gen/capstan/v1/invoke.ts';
import type { SchedulerEvent } from '../../proto/gen/capstan/v1/nodes.ts';
import { toStatus } from '../../lib/grpc-errors.ts';
import { readServerStream } from '../../lib/stream-guard.ts';
import type { Clock } from '../engine/clock.ts';
import type { Engine, EngineLog } from '../engine/engine.ts';
import type { HistoryRecorder } from '../history/recorder.ts';
import type { GatewayToken } from '../secrets/gateway-token.ts';
import { INVOKE_TOKEN_MS, invokeToken } from '../secrets/invoke-token.ts';
import type { Authorizer } from './auth.ts';
import type { NodeSessions } from './node-service.ts';

type Call = ServerDuplexStream<GatewayReport, GatewayNotice>;

export interface GatewayServiceDeps {
  readonly engine: Engine;
  readonly auth: Authorizer;
  readonly sessions: NodeSessions;
  readonly clock: Clock;
  readonly log: EngineLog;
  /** Signs the nodes' credentials at gateways. Secret. */
  readonly gatewayToken: Pick<GatewayToken, 'value'>;
  readonly recorder: Pick<HistoryRecorder, 'requestsEnded'>;
}

/** The open sessions of gateways. */
export class GatewaySessions {
  readonly #deps: GatewayServiceDeps;
  readonly #open = new Map<number, { readonly call: Call; address: string }>();
  readonly #renewal: NodeJS.Timeout;
  #next = 1;

  constructor(deps: GatewayServiceDeps) {
    this.#deps = deps;
    deps.sessions.onGreeted = (node, session) => deps.sessions.send(node, session, this.#notice(node));
    this.#renewal = setInterval(() => this.#tellNodes(), INVOKE_TOKEN_MS / 3);
    this.#renewal.unref();
  }

  service(): GatewayServiceServer {
    return { session: (call) => this.#begin(call) } satisfies GatewayServiceServer;
  }

  /** Tells all gateways about a removed node. They reject it from then on, whatever token it holds. */
  tellRemoved(): void {
    const notice = this.#removedNodes();
    for (const { call } of this.#open.values()) call.write(notice);
  }

  closeAll(reason: CapstanError): void {
    for (const { call } of this.#open.values()) call.emit('error', toStatus(reason));
    this.#open.clear();
  }

  close(reason: CapstanError): void {
    clearInterval(this.#renewal);
    this.closeAll(reason);
  }

  #begin(call: Call): void {
    try {
      this.#deps.auth.gateway(call.metadata);
    } catch (error) {
      call.emit('error', toStatus(error));
      return;
    }
    const gateway = this.#next++;
    this.#open.set(gateway, { call, address: '' });
    call.write(this.#removedNodes());
    readServerStream<GatewayReport>(
      call,
      { name: 'GatewayService.Session', log: this.#deps.log, facts: { gateway } },
      { onMessage: (report) => this.#reported(gateway, report), onClosed: () => this.#closed(gateway) },
    );
  }

  #reported(gateway: number, { invokeAddress, levels, routes }: GatewayReport): void {
    const open = this.#open.get(gateway);
    if (open === undefined) return;
    if (invokeAddress !== '' && invokeAddress !== open.address) {
      open.address = invokeAddress;
      this.#tellNodes();
    }
    if (levels.length > 0) this.#deps.engine.handle({ kind: 'levels', gateway, levels });
    for (const route of routes) this.#deps.recorder.requestsEnded(route);
  }

  #closed(gateway: number): void {
    const open = this.#open.get(gateway);
    if (open === undefined) return;
    this.#open.delete(gateway);
    this.#deps.engine.handle({ kind: 'gateway-closed', gateway });
    if (open.address !== '') this.#tellNodes();
  }

  /** Returns the removed nodes whose last token could still be valid. */
  #removedNodes(): GatewayNotice {
    const { engine, clock } = this.#deps;
    const since = clock.now().wall - INVOKE_TOKEN_MS;
    return { removedNodes: [...engine.state.removedNodes.values()].filter(({ removedAt }) => removedAt > since).map(({ id }) => id) };
  }

  #tellNodes(): void {
    this.#deps.sessions.broadcast((node) => this.#notice(node));
  }

  #notice(node: string): SchedulerEvent {
    const addresses = new Set([...this.#open.values()].map(({ address }) => address).filter((address) => address !== ''));
    const token = invokeToken(this.#deps.gatewayToken.value, node, this.#deps.clock.now().wall);
    return { event: { $case: 'gateways', value: { gateways: [...addresses].map((address) => ({ address, token })) } } };
  }
}
