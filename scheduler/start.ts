/** Starts the scheduler: opens its data folder, takes over its queue, and serves gRPC. */
import { randomBytes, randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

import { pino, type Logger } from 'pino';

import pkg from '../package.json' with { type: 'json' };
import { serverCredentials } from '../lib/grpc-tls.ts';
import { CapstanError, errorTable } from '../lib/errors.ts';
import { BlobServiceService } from '../proto/gen/capstan/v1/blobs.ts';
import { ControlServiceService, KeyScope } from '../proto/gen/capstan/v1/control.ts';
import { JobServiceService } from '../proto/gen/capstan/v1/jobs.ts';
import { GatewayServiceService } from '../proto/gen/capstan/v1/invoke.ts';
import { NodeServiceService } from '../proto/gen/capstan/v1/nodes.ts';
import { visibleText } from '../lib/visible-text.ts';
import type { BlobStore } from './blobs/blob-store.ts';
import { BodyRemover } from './blobs/body-remover.ts';
import { FileBlobStore } from './blobs/file-store.ts';
import { buildId } from './blobs/ids.ts';
import { S3BlobStore } from './blobs/s3-store.ts';
import { blobService, type BlobCaller, type BuildOwners } from './blobs/service.ts';
import { sweepOrphans } from './blobs/sweep.ts';
import { UploadRoom } from './blobs/upload-room.ts';
import { UnfinishedBuilds } from './blobs/unfinished-builds.ts';
import { s3Of, type SchedulerConfig } from './config.ts';
import { bodyRefusal } from './core/jobs/body-use.ts';
import { buildUseOf, ownedBuild, runsBuild } from './core/control/builds.ts';
import { buildQuotaOf } from './core/control/keys.ts';
import { isLastTry } from './core/webhooks/webhooks.ts';
import type { State } from './core/state.ts';
import { defaultSettings, type Settings } from './core/settings.ts';
import { SystemClock, type Clock } from './engine/clock.ts';
import type { GpuTable } from '../lib/gpu-table.ts';
import { Engine } from './engine/engine.ts';
import { callbackStore } from './engine/loop-store.ts';
import type { Ports } from './engine/ports.ts';
import { diskFull, DiskWatch, spaceOf } from './files/disk-watch.ts';
import { readGpuTable } from './gpu-table-file.ts';
import { SchedulerMetrics } from './metrics/metrics.ts';
import { Cipher } from './secrets/cipher.ts';
import { prepareDataFolder, type DataFolder, type Secrets } from './secrets/data-folder.ts';
import { hashKey } from './secrets/hash.ts';
import { MasterKeys } from './secrets/master-keys.ts';
import { WorkerTokens } from './secrets/worker-tokens.ts';
import { Authorizer, DEFAULT_ACCOUNT } from './services/auth.ts';
import { blobServiceRules, callerOf, nodeServiceRules } from './services/callers.ts';
import { Control } from './services/control-service.ts';
import { GatewaySessions } from './services/gateway-service.ts';
import { keyRow } from './services/key-service.ts';
import { JobChannels } from './services/job-service.ts';
import { NodeSessions } from './services/node-service.ts';
import { makeGrpcServer } from './services/server.ts';
import { openStore } from './store/open.ts';
import type { Snapshot, Snapshots } from './store/snapshots.ts';
import { AddressGuard, parseAllowList } from './webhooks/guard.ts';
import { systemResolver, type Resolve } from './webhooks/resolver.ts';
import { WebhookUrls } from './webhooks/urls.ts';
import { WebhookSecrets } from './webhooks/secrets.ts';
import { WebhookSender, type TryResult } from './webhooks/sender.ts';

/** Replacements for tests. */
export interface SchedulerDeps {
  readonly clock?: Clock;
  readonly log?: Logger;
  /** Resolves host names to addresses, for webhooks. */
  readonly resolve?: Resolve;
  /** Delay before bodies that no row names are removed, ms. */
  readonly bodyWaitMs?: number;
  /** Called when the store failed. By default the process ends and its supervisor restarts it. */
  readonly onFatal?: (error: unknown) => void;
}

export interface SchedulerHandle {
  /** Host and port it listens on. */
  readonly address: string;
  close(): Promise<void>;
}

const SWEEP_INTERVAL_MS = 600_000;
const SWEEP_AGE_MS = 3_600_000;
const CLOSE_WITHIN_MS = 5_000;
/** How often a standby looks whether the queue has an owner, ms. */
const STANDBY_LOOK_MS = 500;
const MEBIBYTE = 1024 * 1024;

/**
 * Starts a scheduler; resolves when it serves. Fails with DATA_DIR, DATA_LOST, DATA_NEWER, DISK_FULL, CONFIG or
 * ADDRESS_IN_USE.
 */
export async function start(config: SchedulerConfig, deps: SchedulerDeps = {}): Promise<SchedulerHandle> {
  const log =
    deps.log ??
    pino({ name: 'scheduler', level: config.logLevel, hooks: { streamWrite: visibleText } }, pino.destination({ fd: 2, sync: true }));
  const clock = deps.clock ?? new SystemClock();
  const gpus = await readGpuTable(config.gpuTable);
  const guardOf = webhookGuards(config);
  const folder = await prepareDataFolder(config.dataDir, { apiKey: config.apiKey, marksComplete: false });
  const { store, snapshots } = await openStore(config, folder, () => masterKeys.text);
  const cipher = new Cipher(folder.secrets.masterKey, folder.secrets.olderMasterKeys);
  const workerTokens = new WorkerTokens(folder.secrets.masterKey);
  const urls = new WebhookUrls(folder.secrets.masterKey, folder.secrets.olderMasterKeys, guardOf);
  const blobDir = config.blobDir ?? join(folder.path, 'scheduler', 'blobs');
  const files = await FileBlobStore.open(blobDir);
  const unfinished = await UnfinishedBuilds.open(join(blobDir, 'unfinished'));
  const s3 = s3Of(config);
  const blobs: BlobStore = s3 === null ? files : new S3BlobStore(files, s3);

  // The ports are the services, which need the engine: they are set below.
  const ports = {} as { -readonly [K in keyof Ports]: Ports[K] };
  const metrics: SchedulerMetrics = new SchedulerMetrics({
    image: () => (engine.up ? engine.state : null),
    wall: () => clock.now().wall,
    channels: () => channels.size,
    inputCache: () => engine.inputCache,
    freeBytes: async () => (await spaceOf(folder.path))?.free ?? null,
  });
  const random = new Uint32Array(randomBytes(16).buffer, 0, 4);
  const engine: Engine = new Engine(
    {
      store: callbackStore(store),
      settings: settingsOf(config, gpus),
      clock,
      random: [random[0] ?? 1, random[1] ?? 2, random[2] ?? 3, random[3] ?? 4],
      owner: randomUUID(),
      log,
      watcher: metrics,
      payloadBytes: config.payloadCacheMb * 1_000_000,
      onFatal: deps.onFatal ?? (() => process.exit(errorTable.DATA_DIR.exit)),
    },
    ports,
  );
  store.onHint(() => engine.recheck());
  const masterKeys: MasterKeys = new MasterKeys({ folder, engine, cipher, tokens: workerTokens, urls, clock, log });
  const auth = new Authorizer(engine, folder.secrets.gatewayToken, workerTokens);
  const webhookSecrets = new WebhookSecrets(engine, cipher, () => clock.now().wall);
  const sender = new WebhookSender({
    hook: (id) => store.read('hook', id),
    openBlob: (id) => blobs.get(id),
    secrets: (account) => webhookSecrets.signing(account),
    guardOf,
    urlOf: ({ url, id }) => urls.open(url, id),
    resolve: deps.resolve ?? systemResolver(),
    now: () => clock.now().wall,
    connectMs: config.webhookConnectMs,
    totalMs: config.webhookTimeoutMs,
    userAgent: `Capstan/${pkg.version}`,
    tried: (id, result) => {
      if (engine.up) countDelivery(metrics, engine.state, id, result);
      engine.handle({ kind: 'hook-tried', id, ...result });
    },
    onFault: (error, id) => log.error({ err: error, webhook: id }, 'sending a webhook failed'),
  });
  const onFault = (error: unknown): void => log.error({ err: error }, 'blob service failed');
  const bodies = new BodyRemover({ store: blobs, named: (ids) => store.read('blobsNamed', ids), onFault, ...waitOf(deps) });
  const channels: JobChannels = new JobChannels({ engine, auth, cipher, clock, log, urls, bodies });
  const sessions = new NodeSessions({ engine, auth, cipher, tokens: workerTokens, log });
  const uploads = new UploadRoom({
    unfinished,
    built: (account) => buildUseOf(engine.state, account),
    quota: (account) => buildQuotaOf(engine.state, account),
  });
  const control = new Control({
    engine,
    uploads,
    auth,
    cipher,
    sessions,
    metrics,
    clock,
    log,
    webhookSecrets,
    buildSize: (digest) => buildSize(blobs, digest),
    snapshot: () => takeSnapshot(snapshots),
    masterKeys,
    snapshotBusy: () => snapshots?.busy === true,
    onNodeRemoved: () => gateways.tellRemoved(),
  });
  const gateways: GatewaySessions = new GatewaySessions({ engine, auth, sessions, clock, log, gatewayToken: folder.secrets.gatewayToken });
  Object.assign(ports, wire({ channels, sessions, control, gateways, sender, metrics, bodies }));

  const disk = await DiskWatch.open({
    folder: folder.path,
    minFreePercent: config.minFreePercent,
    onChange: (isLow) => {
      const refusal = isLow ? diskFull(config.minFreePercent) : null;
      engine.refuseJobs(refusal);
      if (refusal === null) log.info('the disk has enough free space again: accepting new jobs');
      else log.error(refusal.message);
    },
  });

  const listenOn = `${config.host}:${config.port}`;
  const credentials = serverCredentials(listenOn, config);
  const server = makeGrpcServer({ identify: (metadata) => callerOf(auth, metadata) });
  server.add(JobServiceService, channels.service());
  server.add(NodeServiceService, sessions.service(), nodeServiceRules);
  server.add(GatewayServiceService, gateways.service());
  server.add(ControlServiceService, control.service());
  const owners = buildOwners(engine);
  const authorize = auth.blobs.bind(auth);
  const isLeased = (node: string, body: string): boolean => auth.inputs.has(node, body);
  const mustFit = (caller: BlobCaller, bytes: number): void => {
    // Nodes send ends of accepted jobs: they are stored as long as the disk has any space.
    if (caller.kind !== 'node') disk.mustFit(bytes);
  };
  const refusalOfBody = (account: string, size: number, underWay: number): CapstanError | null =>
    bodyRefusal(engine.state, account, { size, adds: underWay, field: 'input' });
  const access = { authorize, owners, isLeased, mustFit, uploads, bodyRefusal: refusalOfBody };
  server.add(BlobServiceService, blobService({ store: blobs, unfinished, ...access, onFault }), blobServiceRules);
  let address: string;
  try {
    await takeOver(engine, config, log);
    refuseForeignKey(engine, folder);
    await bootstrap(engine, folder.secrets, clock);
    await masterKeys.recover();
    address = await server.bind(listenOn, credentials);
  } catch (error) {
    disk.close();
    await sender.cancel();
    await masterKeys.close();
    await engine.close();
    await bodies.close();
    await store.close();
    throw error;
  }
  server.setServing(true);
  const sweepNow = (): void => {
    sweepOrphans(blobs, { ageMs: SWEEP_AGE_MS, named: (ids) => namedBlobs(engine, ids) }).catch(onFault);
    unfinished.sweep(SWEEP_AGE_MS).catch(onFault);
  };
  // Also sweeps at once: a scheduler that restarts repeatedly must not accumulate what each crash leaves.
  sweepNow();
  const sweep = setInterval(sweepNow, SWEEP_INTERVAL_MS);
  log.info({ address, dataDir: folder.path }, 'scheduler started');

  return {
    address,
    close: async () => {
      clearInterval(sweep);
      disk.close();
      sessions.closeAll('the scheduler is stopping');
      control.closeAll('the scheduler is stopping');
      gateways.close('the scheduler is stopping');
      channels.closeAll('the scheduler is stopping');
      await server.close(CLOSE_WITHIN_MS);
      await sender.cancel();
      await masterKeys.close();
      await engine.close();
      await bodies.close();
      await store.close();
      log.info('scheduler stopped');
    },
  };
}

/** Takes the queue over; a standby waits until its owner is gone. */
async function takeOver(engine: Engine, { isBlobDirShared }: SchedulerConfig, log: Logger): Promise<void> {
  for (let told = ''; ;) {
    try {
      await engine.takeOver();
      return;
    } catch (error) {
      const isHeld = error instanceof CapstanError && error.code === 'CONFLICT';
      const isAway = told !== '' && error instanceof CapstanError && error.code === 'UNAVAILABLE';
      if (!isHeld && !isAway) throw error;
      if (!isBlobDirShared)
        throw new CapstanError(
          'CONFIG',
          `${error.message}; a standby requires CAPSTAN_BLOB_DIR_SHARED, so that it has the owner's bodies`,
          {
            field: 'CAPSTAN_BLOB_DIR_SHARED',
          },
        );
      if (told !== error.message) log.info(`standby: ${error.message}`);
      told = error.message;
      await pause(STANDBY_LOOK_MS);
    }
  }
}

/** A folder of new secrets beside a queue that has others: its values would be lost to this scheduler, and its clients locked out. */
function refuseForeignKey(engine: Engine, { path, created, secrets }: DataFolder): void {
  const present = engine.state.masterKey;
  if (present === null || !created.masterKey || present.id === new Cipher(secrets.masterKey, []).keyId) return;
  throw new CapstanError(
    'CONFIG',
    `${join(path, 'secrets')}: was created anew, but the queue is encrypted with another master key; copy the folder from the scheduler that owns the queue`,
  );
}

async function takeSnapshot(snapshots: Snapshots | null): Promise<Snapshot> {
  if (snapshots !== null) return snapshots.take();
  throw new CapstanError(
    'CONFLICT',
    'the queue is in PostgreSQL: back it up with pg_dump, together with the blobs and secrets (backup.md)',
  );
}

/**
 * Creates the first key and join token. The first key has the scope OPERATOR, because read access to the data folder
 * already permits operating the service. A key of the folder that was revoked later is not created again.
 */
async function bootstrap(engine: Engine, secrets: Secrets, clock: Clock): Promise<void> {
  if (engine.state.keys.size === 0) {
    const scope = { scope: KeyScope.OPERATOR, endpoints: [], environment: '' };
    const key = keyRow(secrets.apiKey, { account: DEFAULT_ACCOUNT, name: 'first key', ...scope }, clock.now().wall, null);
    await engine.command({ kind: 'put-key', key });
  }
  await engine.command({ kind: 'put-join-token', hash: hashKey(secrets.joinToken).toString('hex') });
}

/** The targets of the engine's effects. */
interface Wired {
  readonly channels: JobChannels;
  readonly sessions: NodeSessions;
  readonly control: Control;
  readonly gateways: GatewaySessions;
  readonly sender: WebhookSender;
  readonly metrics: SchedulerMetrics;
  readonly bodies: BodyRemover;
}

function wire({ channels, sessions, control, gateways, sender, metrics, bodies }: Wired): Ports {
  return {
    reply: (channel, reply) => channels.reply(channel, reply),
    send: (node, session, event) => sessions.send(node, session, event),
    sendDesired: (effect, state) => sessions.sendDesired(effect, state),
    sendJob: (effect, input, s3) => sessions.sendJob(effect, input, s3),
    closeSession: (node, session, reason) => sessions.closeSession(node, session, reason),
    directory: (update) => control.directory(update),
    workerStarted: (started) => metrics.workerStarted(started),
    deliver: (id) => sender.deliver(id),
    dropBodies: (blobs) => bodies.drop(blobs),
    closeAll: (reason) => {
      channels.closeAll(reason);
      sessions.closeAll(reason);
      control.closeAll(reason);
      gateways.closeAll(reason);
      void sender.cancel();
    },
  };
}

/**
 * Returns the guards with the non-public addresses that webhooks may reach. The operator's account may reach more than
 * others.
 */
function webhookGuards({ webhookAllow, webhookAllowOperator }: SchedulerConfig): (account: string) => AddressGuard {
  const all = new AddressGuard(parseAllowList(webhookAllow));
  const operator = new AddressGuard(
    parseAllowList(`${webhookAllow},${webhookAllowOperator}`, 'CAPSTAN_WEBHOOK_ALLOW or CAPSTAN_WEBHOOK_ALLOW_OPERATOR'),
  );
  return (account) => (account === DEFAULT_ACCOUNT ? operator : all);
}

function countDelivery(metrics: SchedulerMetrics, state: State, id: string, result: TryResult): void {
  if (result.result === 'delivered') metrics.delivery('delivered');
  else if (result.result === 'failed') metrics.delivery(isLastTry(state, id) ? 'exhausted' : result.refused ? 'refused' : 'failed');
}

function settingsOf(config: SchedulerConfig, gpus: GpuTable): Settings {
  const {
    workerQuota,
    buildQuotaBytes,
    bodyQuotaBytes,
    maxAttempts,
    nodeGraceMs,
    heartbeatMs,
    silenceMs,
    runRetentionMs,
    runsyncRetentionMs,
    idempotencyRetentionMs,
  } = config;
  const { rateLimits: limits, requestsPerWorker, buildsKept, publicUrl } = config;
  const times = { nodeGraceMs, heartbeatMs, silenceMs, runRetentionMs, runsyncRetentionMs, idempotencyRetentionMs };
  const placement = {
    gpus,
    cpuOvercommit: config.cpuOvercommit,
    memoryOvercommit: config.memoryOvercommit,
    memoryReserveBytes: config.memoryReserveMb * MEBIBYTE,
    diskReserveBytes: config.diskReserveMb * MEBIBYTE,
    unsizedCpuMillis: Math.round(config.unsizedCpu * 1_000),
    unsizedMemoryBytes: config.unsizedMemoryMb * MEBIBYTE,
  };
  return {
    ...defaultSettings,
    ...times,
    ...placement,
    workerQuota,
    buildQuotaBytes,
    bodyQuotaBytes,
    maxAttempts,
    limits,
    requestsPerWorker,
    buildsKept,
    publicUrl,
  };
}

function waitOf({ bodyWaitMs }: SchedulerDeps): { readonly waitMs?: number } {
  return bodyWaitMs === undefined ? {} : { waitMs: bodyWaitMs };
}

async function buildSize(blobs: BlobStore, digest: string): Promise<number | null> {
  return blobs.hold(buildId(digest));
}

function buildOwners(engine: Engine): BuildOwners {
  return {
    owns: (account, digest) => ownedBuild(engine.state, account, digest) !== undefined,
    runs: (node, digest) => runsBuild(engine.state, node, digest),
    record: async (account, digest, size) => {
      await engine.command({ kind: 'put-build', account, digest, size });
    },
  };
}

/** Control rows name builds; the rows of jobs name bodies. */
async function namedBlobs(engine: Engine, ids: readonly string[]): Promise<string[]> {
  const builds = ids.filter((id) => engine.state.builds.has(id.replace(/^build\//, '')));
  return [...builds, ...(await engine.read('blobsNamed', ids))];
}
