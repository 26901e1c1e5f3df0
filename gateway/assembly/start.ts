/** Starts the gateway: public HTTP in, gRPC out (docs/architecture.md). It has no state that a restart would lose. */
import type { Server } from 'node:net';
import { setImmediate as immediate, setTimeout as pause } from 'node:timers/promises';

import { ClusterClient } from '../../lib/owner/cluster-list.ts';
import { CapstanError } from '../../lib/errors.ts';
import { clientCredentials } from '../../lib/grpc-tls.ts';
import { openTracing } from '../../lib/telemetry/tracing.ts';
import type { UnreachedBy, UnservableEndpoint } from '../../proto/gen/capstan/v1/invoke.ts';
import pkg from '../../package.json' with { type: 'json' };
import { Authenticator } from '../auth/authenticate.ts';
import { gatewayToken, metricsToken, type GatewayConfig } from '../config.ts';
import { CellLink } from '../cells/cell-link.ts';
import { CellList } from '../cells/cell-list.ts';
import { Cells } from '../cells/cells.ts';
import { RemovedNodes } from '../cells/removed-nodes.ts';
import { Directory, type Key } from '../directory/directory.ts';
import { Lookup } from '../lookup/lookup.ts';
import { FairTurns } from '../graphql/fair-turns.ts';
import { channelOptions } from '../grpc/connection.ts';
import { stopListening } from './listener.ts';
import { createServer } from './server.ts';
import { readCertificate } from '../http/tls.ts';
import { Announcements } from '../invoke/announcements.ts';
import type { AgentLink } from '../invoke/agent-link.ts';
import { AgentPort } from '../invoke/agent-port.ts';
import { UnreachedNodes } from '../invoke/unreached.ts';
import { UnservableEndpoints } from '../invoke/unservable.ts';
import { callOnce } from '../jobs/unary.ts';
import { TrustedProxies } from '../http/forwarded.ts';
import { LoadBalancer } from '../lb/load-balancer.ts';
import { SignIn } from '../lb/sign-in/sign-in.ts';
import { Pools } from '../lb/pools.ts';
import { Budget } from '../limits/budget.ts';
import { SharedBudget } from '../../lib/shared-budget.ts';
import { UploadMonitor } from '../../lib/upload-monitor.ts';
import { inUse } from '../../lib/http-messages.ts';
import { createLog, type Log } from '../log.ts';
import { KeyRates, type TakeRate } from '../http/key-rates.ts';
import type { GatherFigures, MetricData } from '../metrics/joined-figures.ts';
import { GatewayMetrics, type GatewayLevels } from '../metrics/metrics.ts';

export interface GatewayDeps {
  readonly log?: Log;
  /** Monotonic clock, ms. */
  readonly now?: () => number;
  /** Where the gateway has several processes: the figures of all of them, and a rate that they share. */
  readonly gatherFigures?: GatherFigures;
  readonly takeRate?: TakeRate;
}

export interface Gateway {
  /** Address at which it serves, for example `http://127.0.0.1:8080`. */
  readonly url: string;
  /** Returns the metrics of this process. */
  figures(): Promise<readonly MetricData[]>;
  /**
   * Stops accepting, lets requests in progress finish within the configured time, ends waits with the present state of
   * their job, then closes everything. Without a scheduler it does not wait: pending requests get 503.
   */
  close(): Promise<void>;
}

/** Interval of reports of the used keys, ms. */
const NOTE_MS = 60_000;

/** After the grace time: time limit for the responses of ended waits, ms. */
const HURRY_MS = 1000;

/** While it closes: time in which requests that still arrive are served, each as the last of its connection, ms. */
const LINGER_MS = 500;

/** Interval at which idle connections are closed while the gateway closes, ms. */
const IDLE_CHECK_MS = 20;

/**
 * A scheduler that is unreachable for this long while the gateway closes is stopping too: its replies are not awaited,
 * ms.
 */
const AWAY_MS = 1000;

/**
 * Starts the gateway. It serves at once; until the scheduler is reached, calls get 503.
 * @throws CapstanError ADDRESS_IN_USE, CONFIG.
 */
export async function start(config: GatewayConfig, deps: GatewayDeps = {}): Promise<Gateway> {
  const log = deps.log ?? createLog(config.logLevel);
  const now = deps.now ?? (() => performance.now());
  const token = gatewayToken(config);
  const scrapeToken = metricsToken(config);
  const certificate = readCertificate(config);
  const channelCredentials = clientCredentials(config.scheduler, config);
  const cluster = new ClusterClient(config.scheduler, token, channelCredentials, channelOptions);
  const tracing = await openTracing(config, {
    name: 'gateway',
    version: pkg.version,
    warn: (fields, message) => log.warn(fields, message),
  });
  const proxies = new TrustedProxies(config.trustedProxies);
  const memory = new SharedBudget(config.maxBodyMemoryBytes);
  const uploads = new UploadMonitor({ minBytes: config.uploadMinBytes, windowMs: config.uploadWindowMs, now });
  const directory = new Directory();
  const lookup: Lookup = new Lookup({
    directory,
    cells: () => cells.all,
    cellList: () => list,
    timeoutMs: config.readTimeoutMs,
    perSecond: config.lookupsPerSecond,
    now,
  });
  const pools: Pools<AgentLink> = new Pools({
    maxHeld: config.lbMaxHeld,
    holdMs: config.lbHoldMs,
    releaseOf: (id) => directory.endpoint(id)?.releaseId,
    now,
    onChange: (id, begun) => cells.ofEndpoint(id).report.changed(id, begun),
    refusalOf: (id, hasKey) => unreached.refusal(id, hasKey) ?? unservable.refusal(id, hasKey),
  });
  const unreached = new UnreachedNodes({ nodesOf: (id) => directory.nodesOf(id), onChange: () => pools.recheck() });
  const unservable = new UnservableEndpoints(() => pools.recheck());
  directory.onEndpoint = (id) => pools.serve(id);
  const announcements = new Announcements<AgentLink>({
    placementOf: (workerId) => directory.placement(workerId),
    onAccepted: (link, workers) => pools.setServing(link, workers),
    log,
  });
  directory.onPlacements = (nodeId) => announcements.placementsChanged(nodeId);
  const agents = new AgentPort({
    config,
    certificate,
    gatewayToken: token,
    log,
    announcements,
    onAnnounced: (announced) => cells.announce(announced),
  });
  const removed = new RemovedNodes((nodes) => agents.refuse(nodes));
  const inFlight = new Budget(config.maxInFlight);
  const connect = (name: string): CellLink => {
    const load = {
      level: (id: string) => pools.demand(id),
      endpoints: () => [...pools.endpoints()].filter((id) => lookup.cellOf(id) === name),
      takeRoutes: () => metrics.lb.routes.take((id) => lookup.cellOf(id) === name),
      onRemovedNodes: (nodes: readonly string[]) => removed.set(name, nodes),
      onUnreachedBy: (nodes: readonly UnreachedBy[]) => unreached.set(name, nodes),
      onUnservable: (endpoints: readonly UnservableEndpoint[]) => unservable.set(name, endpoints),
    };
    const elsewhere = (endpointId: string) => cells.elsewhere(endpointId, name);
    return new CellLink(name, { config, token, credentials: channelCredentials, directory, inFlight, load, log, elsewhere, now });
  };
  const cells: Cells = new Cells({
    connect,
    cellOf: (id) => lookup.cellOf(id),
    elsewhere: (id, from) => lookup.endpointElsewhere(id, from, lookup.knownEndpoint(id)?.accountId ?? id),
  });
  const levels: GatewayLevels = {
    lb: {
      endpoints: () => pools.endpoints(),
      level: (id) => pools.level(id),
      exists: (id) => directory.endpoint(id) !== undefined,
    },
    pending: () => cells.pending,
    connected: () => cells.all.map(({ name, channel }) => [name, channel.connected] as const),
    bodyMemory: () => memory.used,
  };
  const metrics = new GatewayMetrics(levels, deps.gatherFigures);
  const draining = new AbortController();
  const authenticator = new Authenticator(directory, lookup, config.keyCacheSize);
  const signIn = new SignIn({ authenticator, lookup, proxies, gatewayToken: token, domain: config.lbDomain });
  const loadBalancer = new LoadBalancer({
    signIn,
    config,
    log,
    lookup,
    authenticator,
    pools,
    proxies,
    memory,
    uploads,
    metrics: metrics.lb,
    tracing,
  });
  const app = await createServer(
    {
      config,
      log,
      version: pkg.version,
      cells,
      cluster,
      now,
      lookup,
      authenticator,
      keyRates: new KeyRates(config.graphqlPerSecond, deps.takeRate),
      turns: new FairTurns(now),
      loadBalancer,
      proxies,
      memory,
      uploads,
      metrics,
      metricsToken: scrapeToken,
      tracing,
      draining: draining.signal,
    },
    certificate,
  );

  const noting = setInterval(() => {
    for (const [name, hashes] of byCell(authenticator.takeUsed())) {
      const { control, quickMetadata } = cells.named(name) ?? cells.first;
      callOnce(control.noteKeyUse.bind(control), { hashes }, quickMetadata, NOTE_MS).catch((err: unknown) => {
        log.warn({ err }, 'recording the last use of keys failed');
      });
    }
  }, NOTE_MS);

  const list: CellList = new CellList({ cluster, log, onCells: (owners) => cells.seen(owners) });

  function closeChannels(): void {
    clearInterval(noting);
    list.close();
    cells.close();
    cluster.close();
  }

  let url: string;
  try {
    const bound = await app.listen({ host: config.host, port: config.port });
    url = certificate === null ? bound : bound.replace(/^http:/, 'https:');
    await agents.open(new URL(bound).port);
  } catch (thrown) {
    await agents.close();
    closeChannels();
    await app.close();
    throw listenError(thrown, config);
  }
  log.info({ url, scheduler: config.scheduler }, 'gateway started');

  /** Resolves when no connection is open, at the latest after {@link LINGER_MS}. */
  async function lingered(): Promise<void> {
    const until = now() + Math.min(LINGER_MS, config.closeGraceMs);
    while (now() < until && (await openConnections(app.server)) > 0) await pause(IDLE_CHECK_MS);
  }

  async function shutDown(): Promise<void> {
    // A proxy that keeps connections learns from each response that this one ends. A connection that was closed while a request is on
    // its way is an error for that caller: nothing says whether it arrived.
    draining.abort();
    await immediate(); // what the system has accepted is here first
    stopListening(app.server);
    // They have no end of their own to wait for, and their callers find another gateway.
    loadBalancer.restartWebSockets();
    await lingered();
    let finished = false;
    const served = app.close().then(() => {
      finished = true;
    });
    // Connections become idle only after their last response was sent.
    let connectedAt = now();
    const idle = setInterval(() => {
      app.server.closeIdleConnections();
      if (cells.connected) connectedAt = now();
      else if (now() - connectedAt > AWAY_MS) cells.closeChannels();
    }, IDLE_CHECK_MS);
    const force = (): void => {
      if (!finished) log.warn({ pending: cells.pending }, 'ending the requests still in progress');
      cells.closeChannels();
      setTimeout(() => {
        app.server.closeAllConnections();
        loadBalancer.closeHandedOver();
      }, 100);
    };
    let timer = setTimeout(() => {
      pools.close(new CapstanError('UNAVAILABLE', 'the gateway is closing', { retryAfterMs: 1000 }));
      for (const { channel } of cells.all) channel.expireWaits();
      loadBalancer.restartWebSockets();
      // The second timer starts here: two timers set together would both be due after a stall, leaving no time to
      // answer the waits.
      timer = setTimeout(force, HURRY_MS);
    }, config.closeGraceMs);
    await served;
    await agents.close();
    clearInterval(idle);
    clearTimeout(timer);
    closeChannels();
    await tracing.close();
    log.info('gateway stopped');
  }

  let closed: Promise<void> | null = null;
  return {
    url,
    figures: () => metrics.figures(),
    close: async () => {
      closed ??= shutDown();
      return closed;
    },
  };
}

/** Hashes of keys by the cell that has them. */
function byCell(keys: readonly Key[]): ReadonlyMap<string, Buffer[]> {
  const hashes = new Map<string, Buffer[]>();
  for (const { cell, hash } of keys) hashes.set(cell, [...(hashes.get(cell) ?? []), hash]);
  return hashes;
}

function openConnections(server: Server): Promise<number> {
  return new Promise((resolve, reject) => {
    server.getConnections((error, count) => (error === null ? resolve(count) : reject(error)));
  });
}

function listenError(thrown: unknown, config: GatewayConfig): unknown {
  if (!(thrown instanceof Error) || !('code' in thrown)) return thrown;
  const where = `${config.host}:${config.port}`;
  switch (thrown.code) {
    case 'EADDRINUSE':
      return new CapstanError('ADDRESS_IN_USE', inUse(where), { cause: thrown });
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return new CapstanError('CONFIG', `CAPSTAN_HTTP_HOST: ${config.host} is not an address of this host`, {
        field: 'CAPSTAN_HTTP_HOST',
        cause: thrown,
      });
    case 'EACCES':
      return new CapstanError('CONFIG', `CAPSTAN_HTTP_PORT: no permission to listen on ${where}`, {
        field: 'CAPSTAN_HTTP_PORT',
        cause: thrown,
      });
    default:
      return thrown;
  }
}
