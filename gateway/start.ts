/** The gateway as a part: public HTTP in, gRPC out (docs/architecture.md). No state that a restart would lose. */
import { BlobServiceClient } from '../proto/gen/capstan/v1/blobs.ts';
import { ControlServiceClient } from '../proto/gen/capstan/v1/control.ts';
import { JobServiceClient } from '../proto/gen/capstan/v1/jobs.ts';
import { CapstanError } from '../proto/errors.ts';
import pkg from '../package.json' with { type: 'json' };
import { Authenticator } from './auth/authenticate.ts';
import { Bodies } from './blobs/bodies.ts';
import { gatewayToken, type GatewayConfig } from './config.ts';
import { Directory } from './directory/directory.ts';
import { Lookup } from './directory/lookup.ts';
import { DirectoryWatch } from './directory/watch.ts';
import { callMetadata, channelCredentials, channelOptions } from './grpc/connection.ts';
import { createServer } from './http/server.ts';
import { JobChannel } from './jobs/channel.ts';
import { Budget } from './limits/budget.ts';
import { createLog, type Log } from './log.ts';
import { GatewayMetrics } from './metrics/metrics.ts';

export interface GatewayDeps {
  readonly log?: Log;
  /** Monotonic clock, ms. */
  readonly now?: () => number;
}

export interface Gateway {
  /** Where it serves, for example `http://127.0.0.1:8080`. */
  readonly url: string;
  /**
   * Stops accepting, lets requests under way finish within the configured time, asks waits to end
   * with the state their job has, then closes everything. Without a scheduler there is nothing to
   * wait for: what is pending is answered 503.
   */
  close(): Promise<void>;
}

/** After the grace time: how long the answers of waits that were asked to end may take, ms. */
const HURRY_MS = 1000;

/** How often connections that became idle are closed while the gateway closes, ms. */
const IDLE_CHECK_MS = 20;

/** A scheduler that is away for this long while the gateway closes is ending as well: nobody waits for its answers, ms. */
const AWAY_MS = 1000;

/**
 * Starts the gateway. It serves at once; until the scheduler was reached calls are answered 503.
 * @throws CapstanError ADDRESS_IN_USE, CONFIG.
 */
export async function start(config: GatewayConfig, deps: GatewayDeps = {}): Promise<Gateway> {
  const log = deps.log ?? createLog(config.logLevel);
  const now = deps.now ?? (() => performance.now());
  const token = gatewayToken(config);
  if (!isLocal(config.scheduler)) log.warn({ scheduler: config.scheduler }, 'the connection to the scheduler leaves this host unencrypted');
  const patient = callMetadata(token, true);
  const quick = callMetadata(token, false);

  const channelClient = new JobServiceClient(config.scheduler, channelCredentials, channelOptions);
  // One connection for unary calls and bodies: the clients share the first one's channel.
  const jobs = new JobServiceClient(config.scheduler, channelCredentials, channelOptions);
  const shared = { ...channelOptions, channelOverride: jobs.getChannel() };
  const control = new ControlServiceClient(config.scheduler, channelCredentials, shared);
  const blobs = new BlobServiceClient(config.scheduler, channelCredentials, shared);

  const memory = new Budget(config.maxBodyMemoryBytes);
  const directory = new Directory();
  const watch = new DirectoryWatch(control, patient, directory, log);
  const lookup = new Lookup(directory, watch, control, quick, config.lookupsPerSecond, now);
  const channel = new JobChannel(channelClient, patient, {
    inFlight: new Budget(config.maxInFlight),
    memory,
    submitTimeoutMs: config.submitTimeoutMs,
    readTimeoutMs: config.readTimeoutMs,
    log,
    now,
  });
  const metrics = new GatewayMetrics({
    pending: () => channel.pending,
    connected: () => channel.connected,
    bodyMemory: () => memory.used,
  });
  let closing = false;
  const app = await createServer({
    config,
    log,
    version: pkg.version,
    channel,
    jobs,
    control,
    metadata: patient,
    quickMetadata: quick,
    bodies: new Bodies(blobs, patient, config.submitTimeoutMs, now),
    lookup,
    authenticator: new Authenticator(directory, lookup, config.keyCacheSize),
    memory,
    metrics,
    closing: () => closing,
  });

  function closeChannels(): void {
    watch.close();
    channel.close();
    channelClient.close();
    jobs.close();
  }

  let url: string;
  try {
    url = await app.listen({ host: config.host, port: config.port });
  } catch (thrown) {
    closeChannels();
    await app.close();
    throw listenError(thrown, config);
  }
  log.info({ url, scheduler: config.scheduler }, 'gateway serves');

  async function shutDown(): Promise<void> {
    closing = true;
    let finished = false;
    const served = app.close().then(() => {
      finished = true;
    });
    // Connections whose last answer has just gone are idle only now.
    let connectedAt = now();
    const idle = setInterval(() => {
      app.server.closeIdleConnections();
      if (channel.connected) connectedAt = now();
      else if (now() - connectedAt > AWAY_MS) channel.close();
    }, IDLE_CHECK_MS);
    const hurry = setTimeout(() => {
      channel.hurry();
    }, config.closeGraceMs);
    const force = setTimeout(() => {
      if (!finished) log.warn({ pending: channel.pending }, 'requests still under way are ended');
      channel.close();
      setTimeout(() => app.server.closeAllConnections(), 100);
    }, config.closeGraceMs + HURRY_MS);
    await served;
    clearInterval(idle);
    clearTimeout(hurry);
    clearTimeout(force);
    closeChannels();
    log.info('gateway closed');
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

/** True for addresses that stay on this host. */
function isLocal(address: string): boolean {
  return /^(unix:|localhost:|127\.\d+\.\d+\.\d+:|\[::1\]:)/.test(address);
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
