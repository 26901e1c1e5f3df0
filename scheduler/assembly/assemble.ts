/** Builds the parts of a scheduler and connects them; nothing serves and nothing is owned yet. */
import { randomBytes, randomUUID } from 'node:crypto';
import { join } from 'node:path';

import type { Logger } from 'pino';

import { CapstanError } from '../../lib/errors.ts';
import { openTracing, type Tracing } from '../../lib/telemetry/tracing.ts';
import pkg from '../../package.json' with { type: 'json' };
import { Alerts } from '../alerts/alerts.ts';
import { BlobServiceService } from '../../proto/gen/capstan/v1/blobs.ts';
import { ClusterServiceService } from '../../proto/gen/capstan/v1/cluster.ts';
import { ControlServiceService } from '../../proto/gen/capstan/v1/control.ts';
import { GatewayServiceService } from '../../proto/gen/capstan/v1/invoke.ts';
import { JobServiceService } from '../../proto/gen/capstan/v1/jobs.ts';
import { NodeServiceService } from '../../proto/gen/capstan/v1/nodes.ts';
import type { ClusterView } from '../cluster/cluster.ts';
import type { SchedulerConfig } from '../config.ts';
import { CellWatch } from '../cells/cell-watch.ts';
import { SystemClock, type Clock } from '../engine/clock.ts';
import { Engine } from '../engine/engine.ts';
import { guardedStore } from '../engine/guarded-store.ts';
import { callbackStore } from '../engine/loop-store.ts';
import type { Ports } from '../engine/ports.ts';
import { diskFull, DiskWatch, spaceOf } from '../files/disk-watch.ts';
import { lockDataFolder } from '../files/folder-lock.ts';
import { QueueReasonRecorder } from '../history/queue-reasons.ts';
import { step } from '../core/step/step.ts';
import { DeviceRecorder } from '../history/device-recorder.ts';
import { HistoryRecorder } from '../history/recorder.ts';
import { RecentFigures } from '../incidents/figures.ts';
import { IncidentReader } from '../incidents/incident-reader.ts';
import { certificatesOf } from '../incidents/of-certificates.ts';
import type { GpuTable } from '../../lib/gpu-table.ts';
import { readGpuTable } from '../gpu-table-file.ts';
import { StoreMetrics } from '../metrics/cluster-metrics.ts';
import { SchedulerMetrics } from '../metrics/metrics.ts';
import { Cipher } from '../secrets/cipher.ts';
import { prepareDataFolder, type DataFolder } from '../secrets/data-folder.ts';
import { GatewayToken } from '../secrets/gateway-token.ts';
import { MasterKeys } from '../rotation/master-keys.ts';
import { PayloadKeys } from '../secrets/payload-keys.ts';
import { WorkerTokens } from '../secrets/worker-tokens.ts';
import { Authorizer } from '../services/auth.ts';
import { callerOf } from '../services/callers.ts';
import { serviceRules } from '../services/method-rules.ts';
import { clusterService, clusterServiceRules } from '../services/cluster-service.ts';
import { Control } from '../services/control-service.ts';
import { GatewaySessions } from '../services/gateway-service.ts';
import { JobChannels } from '../services/job-service.ts';
import { NodeSessions } from '../services/node-service.ts';
import { makeGrpcServer, type GrpcServer } from '../services/server.ts';
import { OwnershipStatus } from '../standing.ts';
import type { Cells } from '../store/cells.ts';
import { openStore } from './open-store.ts';
import type { Snapshot, Snapshots } from '../store/snapshots.ts';
import type { Store } from '../core/ports/store.ts';
import type { AuditExport } from '../telemetry/audit-export.ts';
import { recordEndedWait, recordWait } from '../telemetry/job-spans.ts';
import type { Resolve } from '../webhooks/resolver.ts';
import { WebhookSecrets } from '../webhooks/secrets.ts';
import type { WebhookSender } from '../webhooks/sender.ts';
import { WebhookUrls } from '../webhooks/urls.ts';
import { openAuditExport } from './audit-parts.ts';
import { BlobParts } from './blob-parts.ts';
import { keyHolders, openCluster } from './cluster-view.ts';
import { coreSettings } from './core-settings.ts';
import { alertDelivery, webhookGuards, webhookSender } from './webhook-parts.ts';

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

type AssemblyDeps = SchedulerDeps & Required<Pick<SchedulerDeps, 'onFatal'>>;

/** The parts that start, take over and close. */
export interface Parts {
  readonly clock: Clock;
  readonly folder: DataFolder;
  readonly store: Store;
  /** The cells of the database; null where there is only one, which has no row. */
  readonly cells: Cells | null;
  readonly cellWatch: CellWatch;
  readonly engine: Engine;
  readonly recorder: HistoryRecorder;
  readonly deviceRecorder: DeviceRecorder;
  readonly reasonRecorder: QueueReasonRecorder;
  readonly figures: RecentFigures;
  readonly alerts: Alerts;
  /** Null where the audit log is not exported. */
  readonly auditExport: AuditExport | null;
  readonly masterKeys: MasterKeys;
  readonly blobs: BlobParts;
  readonly sender: WebhookSender;
  readonly tracing: Tracing;
  readonly disk: DiskWatch;
  readonly server: GrpcServer;
  readonly cluster: ClusterView;
  readonly cell: number;
  readonly standing: OwnershipStatus;
  /** Leaves the data folder to another process. */
  unlock(): void;
  /** Ends every open stream for good, with this reason. */
  closeStreams(reason: CapstanError): void;
}

/** Fails with DATA_DIR, DATA_LOST, DATA_NEWER, DISK_FULL or CONFIG. */
export async function assemble(config: SchedulerConfig, deps: AssemblyDeps, log: Logger): Promise<Parts> {
  const gpus = await readGpuTable(config.gpuTable);
  const guardOf = webhookGuards(config);
  const folder = await prepareDataFolder(config.dataDir, { apiKey: config.apiKey, marksComplete: false });
  const lock = config.store === '' ? null : await lockDataFolder(folder.path);
  const unlock = (): void => lock?.release();
  try {
    return await assembleIn(folder, { config, deps, log, gpus, guardOf, unlock });
  } catch (error) {
    unlock();
    throw error;
  }
}

interface AssemblyInputs {
  readonly config: SchedulerConfig;
  readonly deps: AssemblyDeps;
  readonly log: Logger;
  readonly gpus: GpuTable;
  readonly guardOf: ReturnType<typeof webhookGuards>;
  readonly unlock: () => void;
}

async function assembleIn(folder: DataFolder, { config, deps, log, gpus, guardOf, unlock }: AssemblyInputs): Promise<Parts> {
  const hostClock = deps.clock ?? new SystemClock();
  const { masterKey, olderMasterKeys } = folder.secrets;
  const gatewayToken = new GatewayToken(join(folder.path, 'secrets'), folder.secrets.gatewayToken);
  const storeMetrics = new StoreMetrics();
  const standing = new OwnershipStatus({ isShared: config.store !== '' });
  const payloads = new PayloadKeys(masterKey, olderMasterKeys, config.encryptPayloads);
  const { store, cell, cells, history, queueReasons, deviceHistory, snapshots } = await openStore(config, folder, {
    masterKeys: () => masterKeys.text,
    payloadKeys: payloads,
    advertised: () => standing.address,
    watcher: storeMetrics,
  });
  // A scheduler whose host runs an hour fast must not end what its predecessors accepted an hour early.
  const clock = deps.clock ?? new SystemClock(() => store.now());
  const tracing = await openTracing(config, {
    name: 'scheduler',
    version: pkg.version,
    warn: (fields, message) => log.warn(fields, message),
  });
  const cipher = new Cipher(masterKey, olderMasterKeys);
  const tokens = new WorkerTokens(masterKey);
  const urls = new WebhookUrls(masterKey, olderMasterKeys, guardOf);
  const blobs = await BlobParts.open({ config, folder: folder.path, store, payloads, log, bodyWaitMs: deps.bodyWaitMs });

  const metrics: SchedulerMetrics = new SchedulerMetrics({
    image: () => engine.image,
    wall: () => clock.now().wall,
    channels: () => channels.size,
    inputCache: () => engine.inputCache,
    freeBytes: async () => (await spaceOf(folder.path))?.free ?? null,
    incidents: () => reader.all(),
    cluster: { cell: config.cell, isOwner: () => engine.up, seen: () => cluster.seen },
    store: config.store === '' ? null : storeMetrics,
  });
  const recorder: HistoryRecorder = new HistoryRecorder({ image: () => engine.image, wall: () => clock.now().wall, store: history, log });
  const reasonRecorder = new QueueReasonRecorder({ image: () => engine.image, now: () => clock.now(), store: queueReasons, log });
  const deviceRecorder = new DeviceRecorder({ state: () => engine.image, wall: () => clock.now().wall, store: deviceHistory, log });
  const figures = new RecentFigures({ state: () => engine.image, wall: () => clock.now().wall, history, log });
  const reader = new IncidentReader({
    state: () => engine.state,
    now: () => clock.now(),
    deliveries: (account, limit) => engine.search('deliveryPage', account, '', limit),
    disk: async () => ({ space: await spaceOf(folder.path), minFreePercent: config.minFreePercent }),
    certificates: async () => [
      ...(await certificatesOf({ 'the scheduler': config.tlsCert, 'the CA': config.tlsCa })),
      ...sessions.certificates(),
      ...gateways.certificates(),
    ],
    figures,
  });
  // The ports are the services, which need the engine: each is reached when an effect calls for it.
  const ports: Ports = {
    reply: (channel, reply) => channels.reply(channel, reply),
    send: (node, session, event) => sessions.send(node, session, event),
    sendDesired: (effect, state) => sessions.sendDesired(effect, state),
    sendJob(effect, input, s3) {
      sessions.sendJob(effect, input, s3);
      recordWait(tracing, effect, clock.now().wall);
    },
    waitEnded: (effect) => recordEndedWait(tracing, effect, clock.now().wall),
    closeSession: (node, session, reason) => sessions.closeSession(node, session, reason),
    directory: (update) => control.directory(update),
    workerStarted(started) {
      metrics.workerStarted(started);
      recorder.workerStarted(started);
    },
    deliver: (id) => sender.deliver(id),
    dropBodies: (ids) => blobs.bodies.drop(ids),
    closeAll: (reason) => {
      closeStreams(standing.refusal() ?? new CapstanError('UNAVAILABLE', reason));
      void sender.cancel();
    },
  };
  const id = randomUUID();
  const random = new Uint32Array(randomBytes(16).buffer, 0, 4);
  const engine: Engine = new Engine(
    {
      store:
        snapshots === null
          ? guardedStore(callbackStore(store), { refusal: () => masterKeys.refusal(), giveWay: (cell) => store.release(cell) })
          : callbackStore(store),
      settings: coreSettings(config, gpus),
      clock,
      random: [random[0] ?? 1, random[1] ?? 2, random[2] ?? 3, random[3] ?? 4],
      owner: id,
      cell,
      standsBy: standing.isShared,
      onRole: (role) => standing.onRole(role),
      log,
      watcher: {
        committed(writes, outcomes, ms) {
          metrics.committed(writes, outcomes, ms);
          recorder.committed(writes, outcomes);
          figures.committed(writes, outcomes);
          auditExport?.committed(writes);
        },
      },
      step(state, event, now, result) {
        recorder.advance(now.wall);
        step(state, event, now, result);
      },
      payloadBytes: config.payloadCacheMb * 1_000_000,
      onFatal: deps.onFatal,
    },
    ports,
  );
  store.onHint((_shard, term) => engine.recheck(term));
  const masterKeys: MasterKeys = new MasterKeys({
    folder,
    engine,
    store,
    cipher,
    tokens,
    urls,
    payloads,
    clock,
    log,
    blobStore: snapshots === null ? blobs.mark : null,
    gatewayToken: snapshots === null ? gatewayToken : null,
    others: () => keyHolders(cluster, config.cell),
  });
  const cellWatch = new CellWatch({ cells, log, now: () => clock.now().wall });
  const auth = new Authorizer(engine, gatewayToken, tokens, cellWatch);
  const webhookSecrets = new WebhookSecrets(engine, cipher, () => clock.now().wall);
  const webhookDeps = { config, store, blobs: blobs.blobs, engine, metrics, secrets: webhookSecrets, urls, guardOf, clock, log };
  const sender = webhookSender({ ...webhookDeps, resolve: deps.resolve, tracing });
  const delivery = alertDelivery(config, { guardOf, resolve: deps.resolve });
  const alerts = new Alerts({
    state: () => (engine.up ? engine.image : null),
    command: (command) => engine.command(command),
    now: () => clock.now(),
    incidents: reader,
    cipher,
    delivery,
    delayMs: config.alertDelayMs,
    site: () => (config.publicUrl === '' ? gateways.httpUrl : config.publicUrl.replace(/\/+$/, '')),
    log,
  });
  const auditExport = await openAuditExport({ config, engine, clock, log, instanceId: id, version: pkg.version });
  const channels: JobChannels = new JobChannels({ engine, auth, cipher, clock, log, urls, bodies: blobs.bodies });
  const sessions = new NodeSessions({ engine, auth, cipher, tokens, log });
  const uploads = blobs.uploadRoom(engine);
  const control = new Control({
    engine,
    uploads,
    auth,
    cipher,
    sessions,
    metrics,
    history,
    queueReasons,
    deviceHistory,
    clock,
    log,
    webhookSecrets,
    cells,
    buildSize: (digest) => blobs.buildSize(digest),
    snapshot: () => takeSnapshot(snapshots),
    masterKeys,
    incidents: reader,
    webhookRefusal: (url, account) => urls.refusal(url, account),
    delivery,
    snapshotBusy: () => snapshots?.busy === true,
    onNodeRemoved: () => gateways.tellRemoved(),
  });
  const gateways: GatewaySessions = new GatewaySessions({
    engine,
    auth,
    sessions,
    clock,
    log,
    gatewayToken,
    counters: [recorder, figures],
  });
  const closeStreams = (reason: CapstanError): void => {
    channels.closeAll(reason);
    sessions.closeAll(reason);
    control.closeAll(reason);
    gateways.closeAll(reason);
  };

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

  const server = makeGrpcServer({
    identify: (metadata) => callerOf(auth, metadata),
    refusal: (metadata) => cellWatch.refusal(metadata) ?? standing.refusal(),
    term: () => standing.term,
    cell: config.cell,
  });
  const rules = serviceRules(auth);
  server.add(JobServiceService, channels.service(), rules.jobs);
  server.add(NodeServiceService, sessions.service(), rules.nodes);
  server.add(GatewayServiceService, gateways.service(), rules.gateways);
  server.add(ControlServiceService, control.service(), rules.control);
  server.add(BlobServiceService, blobs.service({ engine, auth, disk, uploads }), rules.blobs);
  const cluster: ClusterView = openCluster({ config, id, engine, masterKeys: () => masterKeys.heldIds, clock: hostClock, log });
  server.add(ClusterServiceService, clusterService(cluster, metrics, log), clusterServiceRules(gatewayToken));
  return {
    clock,
    folder,
    store,
    cells,
    cellWatch,
    engine,
    recorder,
    deviceRecorder,
    reasonRecorder,
    figures,
    alerts,
    auditExport,
    masterKeys,
    blobs,
    sender,
    tracing,
    disk,
    server,
    cluster,
    closeStreams: (reason) => {
      closeStreams(reason);
      gateways.close(reason);
    },
    cell,
    standing,
    unlock,
  };
}

async function takeSnapshot(snapshots: Snapshots | null): Promise<Snapshot> {
  if (snapshots !== null) return snapshots.take();
  throw new CapstanError(
    'CONFLICT',
    'the queue is in PostgreSQL: back it up with pg_dump, together with the blobs and secrets (backup-postgresql.md)',
  );
}
