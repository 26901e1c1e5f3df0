/**
 * This gateway's session with the scheduler: reports the address for agents, and the number of held and in-flight
 * requests of each load-balanced endpoint, and what its requests came to by route. Reconnects when it ends, and then reports all levels.
 */
import type { ClientDuplexStream, Metadata } from '@grpc/grpc-js';

import { fromServiceError } from '../../lib/grpc-errors.ts';
import type {
  EndpointLevel,
  GatewayNotice,
  GatewayReport,
  GatewayServiceClient,
  RouteCounts,
  UnreachedBy,
  UnservableEndpoint,
} from '../../proto/gen/capstan/v1/invoke.ts';
import { ENDED_BY_SCHEDULER, readClientStream } from '../../lib/stream-guard.ts';
import { backoffMs } from '../../lib/backoff.ts';
import type { Log } from '../log.ts';

/** Changes of levels are batched for this time, ms; a first waiting request is reported at once. */
const GATHER_MS = 200;

/** Interval at which requests by route are reported, ms: a fraction of a step of the history. */
const ROUTES_MS = 2_000;
/** Routes in one message. */
const MAX_ROUTES = 500;

export interface LoadReportOptions {
  readonly client: GatewayServiceClient;
  readonly metadata: Metadata;
  readonly log: Log;
  readonly level: (endpointId: string) => Omit<EndpointLevel, 'endpointId'>;
  /** Returns the requests by route that ended since the last call. */
  readonly takeRoutes: () => readonly RouteCounts[];
  /** Every endpoint that may have a level. */
  readonly endpoints: () => Iterable<string>;
  /** Nodes that may no longer connect. The set replaces the previous one. */
  readonly onRemovedNodes: (nodes: readonly string[]) => void;
  /** Nodes whose agents do not reach this gateway. The set replaces the previous one. */
  readonly onUnreachedBy: (nodes: readonly UnreachedBy[]) => void;
  /** Endpoints whose requests no worker will serve for now. The set replaces the previous one. */
  readonly onUnservable: (endpoints: readonly UnservableEndpoint[]) => void;
}

/** Where others reach this gateway. */
export interface Announced {
  readonly invokeAddress: string;
  readonly httpUrl: string;
}

export class LoadReport {
  readonly #options: LoadReportOptions;
  readonly #changed = new Set<string>();
  /** Endpoints whose level was reported to the scheduler. */
  readonly #reported = new Set<string>();
  #address = '';
  #httpUrl = '';
  #call: ClientDuplexStream<GatewayReport, GatewayNotice> | null = null;
  #retry: NodeJS.Timeout | undefined;
  #gather: NodeJS.Timeout | undefined;
  #routes: NodeJS.Timeout | undefined;
  #urgent = false;
  #attempt = 0;
  #closed = false;
  #lastFailure = '';

  constructor(options: LoadReportOptions) {
    this.#options = options;
  }

  /** Starts. Agents connect to `invokeAddress`, and workers reach the HTTP API at `httpUrl`. */
  open({ invokeAddress, httpUrl }: Announced): void {
    this.#address = invokeAddress;
    this.#httpUrl = httpUrl;
    this.#routes = setInterval(() => this.#reportRoutes(), ROUTES_MS);
    this.#dial();
  }

  changed(endpointId: string, urgent: boolean): void {
    this.#changed.add(endpointId);
    if (urgent && !this.#urgent) {
      this.#urgent = true;
      setImmediate(() => this.#flush());
    }
    this.#gather ??= setTimeout(() => this.#flush(), GATHER_MS);
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#retry);
    clearTimeout(this.#gather);
    clearInterval(this.#routes);
    this.#reportRoutes();
    const call = this.#call;
    this.#call = null;
    call?.end();
    setTimeout(() => call?.cancel(), 100).unref();
  }

  #dial(): void {
    const { client, metadata } = this.#options;
    const call = client.session(metadata);
    this.#call = call;
    this.#reported.clear();
    call.on('metadata', () => {
      this.#attempt = 0;
      this.#lastFailure = '';
    });
    readClientStream<GatewayNotice>(call, { name: 'GatewayService.Session', log: this.#options.log }, (notice) => {
      this.#options.onRemovedNodes(notice.removedNodes);
      this.#options.onUnreachedBy(notice.unreachedBy);
      this.#options.onUnservable(notice.unservable);
    });
    call.on('error', (error: Error) => this.#broken(call, fromServiceError(error).message));
    call.on('end', () => this.#broken(call, ENDED_BY_SCHEDULER));
    for (const endpoint of this.#options.endpoints()) this.#changed.add(endpoint);
    call.write({ invokeAddress: this.#address, httpUrl: this.#httpUrl, levels: this.#levels(), routes: [] });
  }

  #broken(call: ClientDuplexStream<GatewayReport, GatewayNotice>, reason: string): void {
    if (this.#call !== call || this.#closed) return;
    this.#call = null;
    // Another scheduler may know better.
    this.#options.onUnservable([]);
    if (reason !== this.#lastFailure) this.#options.log.warn({ reason }, 'request-count stream ended; reconnecting');
    this.#lastFailure = reason;
    this.#retry = setTimeout(() => this.#dial(), backoffMs(this.#attempt));
    this.#attempt += 1;
  }

  #flush(): void {
    clearTimeout(this.#gather);
    this.#gather = undefined;
    this.#urgent = false;
    if (this.#call === null) return;
    const levels = this.#levels();
    if (levels.length > 0) this.#call.write({ invokeAddress: '', httpUrl: '', levels, routes: [] });
  }

  /** While there is no session the requests are counted on. */
  #reportRoutes(): void {
    if (this.#call === null) return;
    const routes = this.#options.takeRoutes();
    for (let from = 0; from < routes.length; from += MAX_ROUTES)
      this.#call.write({ invokeAddress: '', httpUrl: '', levels: [], routes: routes.slice(from, from + MAX_ROUTES) });
  }

  /** What changed. An endpoint without requests is reported once, as having none. */
  #levels(): EndpointLevel[] {
    const levels: EndpointLevel[] = [];
    for (const endpointId of this.#changed) {
      const level = this.#options.level(endpointId);
      if (level.held + level.inFlight > 0) this.#reported.add(endpointId);
      else if (!this.#reported.delete(endpointId)) continue;
      levels.push({ endpointId, ...level });
    }
    this.#changed.clear();
    return levels;
  }
}
