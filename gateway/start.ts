/** Starts the gateway: public HTTP in, gRPC out (docs/architecture.md). It has no state that a restart would lose. */
import { BlobServiceClient } from '../proto/gen/capstan/v1/blobs.ts';
import { ControlServiceClient } from '../proto/gen/capstan/v1/control.ts';
import { GatewayServiceClient } from '../proto/gen/capstan/v1/invoke.ts';
import { JobServiceClient } from '../proto/gen/capstan/v1/jobs.ts';
import { DEFAULT_CELL } from '../lib/cells.ts';
import { ClusterClient } from '../lib/cluster-list.ts';
import { CapstanError } from '../lib/errors.ts';
import { OwnerChannel } from '../lib/owner/owner-channel.ts';
import { OwnerFinder } from '../lib/owner/owner-finder.ts';
import { clientCredentials } from '../lib/grpc-tls.ts';
import pkg from '../package.json' with { type: 'json' };
import { Authenticator } from './auth/authenticate.ts';
import { Bodies } from './blobs/bodies.ts';
import { gatewayToken, type GatewayConfig } from './config.ts';
import { Directory } from './directory/directory.ts';
import { Lookup } from './directory/lookup.ts';
import { DirectoryWatch } from './directory/watch.ts';
import { callMetadata, channelOptions } from './grpc/connection.ts';
import { createServer } from './http/server.ts';
import { readCertificate } from './http/tls.ts';
import { Announcements } from './invoke/announcements.ts';
import type { AgentLink } from './invoke/agent-link.ts';
import { InvokeServer } from './invoke/invoke-server.ts';
import { LoadReport } from './invoke/report.ts';
import { JobChannel } from './jobs/channel.ts';
import { callOnce } from './jobs/unary.ts';
import { TrustedProxies } from './lb/forwarded.ts';
import { LoadBalancer } from './lb/load-balancer.ts';
import { Pools } from './lb/pools.ts';
import { Budget } from './limits/budget.ts';
import { SharedBudget } from '../lib/shared-budget.ts';
import { UploadMonitor } from '../lib/upload-monitor.ts';
import { createLog, type Log } from './log.ts';
import { GatewayMetrics } from './metrics/metrics.ts';

export interface GatewayDeps {
  readonly log?: Log;
  /** Monotonic clock, ms. */
  readonly now?: () => number;
}

export interface Gateway {
  /** Address at which it serves, for example `http://127.0.0.1:8080`. */
  readonly url: string;
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
  const certificate = readCertificate(config);
  const channelCredentials = clientCredentials(config.scheduler, config);
  const finder = new OwnerFinder({ setting: config.scheduler, credentials: channelCredentials, log, cell: () => DEFAULT_CELL });
  finder.start();
  const patient = callMetadata(token, true, DEFAULT_CELL);
  const quick = callMetadata(token, false, DEFAULT_CELL);

  const own = { channelOverride: new OwnerChannel(finder, channelOptions) };
  // One connection for unary calls and bodies.
  const shared = { channelOverride: new OwnerChannel(finder, channelOptions) };
  const channelClient = new JobServiceClient(config.scheduler, channelCredentials, own);
  const jobs = new JobServiceClient(config.scheduler, channelCredentials, shared);
  const control = new ControlServiceClient(config.scheduler, channelCredentials, shared);
  const blobs = new BlobServiceClient(config.scheduler, channelCredentials, shared);

  const cluster = new ClusterClient(config.scheduler, token, channelCredentials, channelOptions);

  const proxies = new TrustedProxies(config.trustedProxies);
  const memory = new SharedBudget(config.maxBodyMemoryBytes);
  const uploads = new UploadMonitor({ minBytes: config.uploadMinBytes, windowMs: config.uploadWindowMs, now });
  const directory = new Directory();
  const watch = new DirectoryWatch(control, patient, directory, log);
  const lookup = new Lookup({
    directory,
    watch,
    client: control,
    metadata: patient,
    timeoutMs: config.readTimeoutMs,
    perSecond: config.lookupsPerSecond,
    now,
  });
  const channel = new JobChannel(channelClient, patient, {
    inFlight: new Budget(config.maxInFlight),
    submitTimeoutMs: config.submitTimeoutMs,
    readTimeoutMs: config.readTimeoutMs,
    log,
    now,
  });
  const pools: Pools<AgentLink> = new Pools({
    maxHeld: config.lbMaxHeld,
    holdMs: config.lbHoldMs,
    releaseOf: (id) => directory.endpoint(id)?.releaseId,
    now,
    onChange: (id, begun) => report.changed(id, begun),
  });
  directory.onEndpoint = (id) => pools.serve(id);
  const announcements = new Announcements<AgentLink>({
    placementOf: (workerId) => directory.placement(workerId),
    onAccepted: (link, workers) => pools.setServing(link, workers),
    log,
  });
  directory.onPlacements = (nodeId) => announcements.placementsChanged(nodeId);
  let invoke: InvokeServer | undefined;
  const report = new LoadReport({
    client: new GatewayServiceClient(config.scheduler, channelCredentials, shared),
    metadata: patient,
    log,
    level: (id) => pools.level(id),
    endpoints: () => pools.endpoints(),
    onRemovedNodes: (nodes) => invoke?.refuse(nodes),
  });
  const metrics = new GatewayMetrics({
    lb: {
      endpoints: () => pools.endpoints(),
      level: (id) => pools.level(id),
      exists: (id) => directory.endpoint(id) !== undefined,
    },
    pending: () => channel.pending,
    connected: () => channel.connected,
    bodyMemory: () => memory.used,
  });
  let closing = false;
  const authenticator = new Authenticator(directory, lookup, config.keyCacheSize);
  const loadBalancer = new LoadBalancer({
    config,
    log,
    lookup,
    authenticator,
    pools,
    proxies,
    memory,
    uploads,
    metrics: metrics.lb,
    closing: () => closing,
  });
  const app = await createServer(
    {
      config,
      log,
      version: pkg.version,
      channel,
      jobs,
      control,
      cluster,
      metadata: patient,
      quickMetadata: quick,
      bodies: new Bodies(blobs, patient, config.submitTimeoutMs, now),
      blobs,
      now,
      lookup,
      authenticator,
      loadBalancer,
      proxies,
      memory,
      uploads,
      metrics,
      closing: () => closing,
    },
    certificate,
  );

  const noting = setInterval(() => {
    const hashes = authenticator.takeUsed();
    if (hashes.length === 0) return;
    callOnce(control.noteKeyUse.bind(control), { hashes }, quick, NOTE_MS).catch((err: unknown) => {
      log.warn({ err }, 'recording the last use of keys failed');
    });
  }, NOTE_MS);

  function closeChannels(): void {
    clearInterval(noting);
    report.close();
    watch.close();
    channel.close();
    channelClient.close();
    jobs.close();
    cluster.close();
    finder.close();
  }

  let url: string;
  try {
    const { invokeHost: host, invokePort: port } = config;
    const listening = await InvokeServer.listen({ host, port, tls: config, gatewayToken: token, log, announcements });
    invoke = listening.server;
    const bound = await app.listen({ host: config.host, port: config.port });
    url = certificate === null ? bound : bound.replace(/^http:/, 'https:');
    report.open(config.invokeAddress ?? listening.address);
  } catch (thrown) {
    await invoke?.close();
    closeChannels();
    await app.close();
    throw listenError(thrown, config);
  }
  log.info({ url, scheduler: config.scheduler }, 'gateway started');

  async function shutDown(): Promise<void> {
    closing = true;
    let finished = false;
    const served = app.close().then(() => {
      finished = true;
    });
    // Connections become idle only after their last response was sent.
    let connectedAt = now();
    const idle = setInterval(() => {
      app.server.closeIdleConnections();
      if (channel.connected) connectedAt = now();
      else if (now() - connectedAt > AWAY_MS) channel.close();
    }, IDLE_CHECK_MS);
    const force = (): void => {
      if (!finished) log.warn({ pending: channel.pending }, 'ending the requests still in progress');
      channel.close();
      setTimeout(() => {
        app.server.closeAllConnections();
        loadBalancer.closeHandedOver();
      }, 100);
    };
    let timer = setTimeout(() => {
      pools.close(new CapstanError('UNAVAILABLE', 'the gateway is closing', { retryAfterMs: 1000 }));
      channel.expireWaits();
      // The second timer starts here: two timers set together would both be due after a stall, leaving no time to
      // answer the waits.
      timer = setTimeout(force, HURRY_MS);
    }, config.closeGraceMs);
    await served;
    await invoke?.close();
    clearInterval(idle);
    clearTimeout(timer);
    closeChannels();
    log.info('gateway stopped');
  }

  let closed: Promise<void> | null = null;
  return {
    url,
    close: async () => {
      closed ??= shutDown();
      return closed;
    },
  };
}

function listenError(thrown: unknown, config: GatewayConfig): unknown {
  if (!(thrown instanceof Error) || !('code' in thrown)) return thrown;
  const where = `${config.host}:${config.port}`;
  switch (thrown.code) {
    case 'EADDRINUSE':
      return new CapstanError('ADDRESS_IN_USE', `${where} is in use by another program`, { cause: thrown });
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
