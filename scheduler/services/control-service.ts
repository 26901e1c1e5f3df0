/** ControlService: reads and changes by gateways, the CLI and operators. */
import { compareTexts } from '../../lib/text-order.ts';
import type { ServerWritableStream } from '@grpc/grpc-js';

import { CapstanError } from '../../lib/errors.ts';
import { WebhookState } from '../../proto/gen/capstan/v1/control.ts';
import type {
  ControlServiceServer,
  DirectoryUpdate,
  KeyEntry,
  MasterKeyInfo,
  WatchDirectoryRequest,
  WebhookInfo,
} from '../../proto/gen/capstan/v1/control.ts';
import { toStatus } from '../../lib/grpc-errors.ts';
import { endpointNotFound } from '../../lib/job-errors.ts';
import { endpointEntry, keyEntry, wholeDirectory } from '../core/fleet/directory.ts';
import { liveEndpoints } from '../core/state.ts';
import { webhookNotFound } from '../core/jobs/errors.ts';
import { shownUrl } from '../core/webhooks/webhook-url.ts';
import type { MasterKeyState } from '../rotation/master-keys.ts';
import type { DeliveryHead } from '../core/ports/store.ts';
import { activity } from './activity.ts';
import type { ControlDeps } from './control-deps.ts';
import { auditHandlers, entryOf } from './audit.ts';
import { attention } from './attention.ts';
import type { AccountPrincipal, Reader } from './auth.ts';
import { alertHandlers } from './alert-service.ts';
import { unary } from './calls.ts';
import { bulkHandlers } from './bulk-service.ts';
import { cellHandlers } from './cell-service.ts';
import { consoleSessionHandlers } from './console-session-service.ts';
import { deployHandlers } from './deploy-service.ts';
import { endpointInfo } from './endpoint-info.ts';
import { deviceHistoryHandlers } from './device-history-service.ts';
import { historyHandlers } from './history-service.ts';
import { jobSearchHandlers } from './job-search.ts';
import { keyHandlers } from './key-service.ts';
import { checkedLogFilter } from './log-filter.ts';
import { LogSearchLimit, LogWaitLimit } from './log-waits.ts';
import { endpointDetail, workerInfos } from './fleet-view.ts';
import { nodeCalls } from './node-calls.ts';
import { openEnv } from './node-service.ts';
import { secretHandlers } from './secret-service.ts';

type Watcher = ServerWritableStream<WatchDirectoryRequest, DirectoryUpdate>;

export class Control {
  readonly #watchers = new Set<Watcher>();
  readonly #deps: ControlDeps;
  readonly #logWaits = new LogWaitLimit();
  readonly #logSearches = new LogSearchLimit();

  constructor(deps: ControlDeps) {
    this.#deps = deps;
  }

  /** Sends the changes to every watching gateway. */
  directory(update: DirectoryUpdate): void {
    for (const watcher of this.#watchers) watcher.write(update);
  }

  closeAll(reason: CapstanError): void {
    for (const watcher of this.#watchers) watcher.emit('error', toStatus(reason));
    this.#watchers.clear();
  }

  service(): ControlServiceServer {
    const { engine, auth, log, clock } = this.#deps;
    const account = <Request, Reply>(name: string, handler: (request: Request, account: string) => Promise<Reply> | Reply) =>
      unary<Request, Reply>(log, name, (request, metadata) => handler(request, auth.account(metadata)));
    const reader = <Request, Reply>(name: string, handler: (request: Request, who: Reader) => Promise<Reply> | Reply) =>
      unary<Request, Reply>(log, name, (request, metadata) => handler(request, auth.reader(metadata)));
    const gateway = <Request, Reply>(name: string, handler: (request: Request) => Promise<Reply> | Reply) =>
      unary<Request, Reply>(log, name, (request, metadata) => {
        auth.gateway(metadata);
        return handler(request);
      });
    return {
      watchDirectory: (call) => this.#watch(call),
      lookupKey: gateway('LookupKey', ({ hash, workerToken }) => {
        if (workerToken !== '') return workerKeyEntry(auth.worker(workerToken));
        const key = engine.state.keys.get(Buffer.from(hash).toString('hex'));
        if (key === undefined) throw new CapstanError('NOT_FOUND', 'the key does not exist');
        return keyEntry(key);
      }),
      lookupEndpoint: gateway('LookupEndpoint', ({ endpointId }) => {
        const endpoint = engine.state.endpoints.get(endpointId);
        if (endpoint === undefined || endpoint.config.removing !== undefined) throw endpointNotFound(endpointId);
        return endpointEntry(engine.state, endpoint.config);
      }),
      lookupEndpointName: gateway('LookupEndpointName', ({ accountId, name }) => ({
        endpoints: liveEndpoints(engine.state, accountId)
          .filter(({ config }) => config.name === name)
          .map(({ config }) => endpointEntry(engine.state, config)),
      })),
      ...deployHandlers(this.#deps),
      ...keyHandlers(this.#deps),
      ...alertHandlers(this.#deps),
      ...consoleSessionHandlers(this.#deps),
      ...jobSearchHandlers(this.#deps),
      ...secretHandlers(this.#deps),
      ...auditHandlers(this.#deps),
      ...historyHandlers(this.#deps),
      ...deviceHistoryHandlers(this.#deps),
      ...bulkHandlers(this.#deps),
      listActivity: reader('ListActivity', (_request, who) => ({ endpoints: activity(engine.state, who) })),
      ...cellHandlers(this.#deps),
      listEndpoints: reader('ListEndpoints', ({ environment }, { account: owner, sees }) => {
        const endpoints = liveEndpoints(engine.state, owner)
          .filter(({ config }) => (environment === '' || config.environment === environment) && sees(config))
          .toSorted((a, b) => compareTexts(a.config.environment, b.config.environment) || compareTexts(a.config.name, b.config.name));
        return { endpoints: endpoints.map((endpoint) => endpointInfo(engine.state, clock.now(), endpoint, false)) };
      }),
      getEndpoint: reader('GetEndpoint', ({ endpointId }, { account: owner, all, sees }) => {
        const endpoint = engine.state.endpoints.get(endpointId);
        if (endpoint === undefined || endpoint.config.account !== owner || !sees(endpoint.config)) throw endpointNotFound(endpointId);
        const encrypted = engine.state.releases.get(endpoint.config.release)?.envSealed ?? null;
        const env = all && encrypted !== null ? openEnv(this.#deps.cipher, endpoint.config, encrypted) : {};
        return endpointDetail(engine.state, endpoint, endpointInfo(engine.state, clock.now(), endpoint, false), Object.keys(env));
      }),
      listWorkers: reader('ListWorkers', ({ endpointId }, who) => ({ workers: workerInfos(engine.state, who, endpointId) })),
      listAttention: unary(log, 'ListAttention', async (_request, metadata) => {
        const { account: owner, operator } = auth.wholeReader(metadata);
        return attention(await this.#deps.incidents.of({ account: owner, operator }));
      }),
      ...nodeCalls(this.#deps),
      getLogs: unary(log, 'GetLogs', async ({ endpointId, workerId, limit, afterMs, filter, waitMs = 0 }, metadata) => {
        const { account: owner } = auth.wholeReader(metadata);
        const endpoint = engine.state.endpoints.get(endpointId);
        if (endpoint === undefined || endpoint.config.account !== owner) throw endpointNotFound(endpointId);
        const most = limit === 0 ? 100 : Math.min(limit, 1_000);
        const checked = filter === undefined ? {} : { filter: checkedLogFilter(filter) };
        const request = { endpointId, workerId, limit: most, afterMs, ...checked };
        if (waitMs === 0) {
          const page = await this.#logSearches.run(owner, () => this.#deps.sessions.logs(request));
          auth.wholeReader(metadata);
          return page;
        }
        const found = await this.#logWaits.run(owner, waitMs, (allowedMs) => this.#deps.sessions.logs({ ...request, waitMs: allowedMs }));
        // The key may have been revoked meanwhile.
        auth.wholeReader(metadata);
        return found;
      }),
      getMetrics: gateway('GetMetrics', async ({ openMetrics }) => ({
        text: await this.#deps.metrics.text(openMetrics === true ? 'openmetrics' : 'prometheus'),
      })),
      listWebhooks: account('ListWebhooks', async ({ afterId, limit, newestFirst }, owner) => {
        const size = limit === 0 ? 100 : Math.min(limit, 1_000);
        const page = await engine.search(newestFirst ? 'newestDeliveries' : 'deliveryPage', owner, afterId, size);
        const nextAfterId = page.length < size ? '' : (page.at(-1)?.id ?? '');
        return { webhooks: page.map(webhookInfo), nextAfterId };
      }),
      snapshotQueue: unary(log, 'SnapshotQueue', async (_request, metadata) => {
        auth.operator(metadata);
        const audit = entryOf(auth, metadata, { action: 'snapshotQueue', object: 'queue' });
        const { file, bytes } = await this.#deps.snapshot();
        await engine.command({ kind: 'audit' }, audit);
        log.info({ bytes }, 'database copy written');
        return { file, bytes: BigInt(bytes) };
      }),
      getMasterKey: unary(log, 'GetMasterKey', (_request, metadata) => {
        auth.operator(metadata);
        return masterKeyInfo(this.#deps.masterKeys.state, 0);
      }),
      rotateMasterKey: unary(log, 'RotateMasterKey', async (_request, metadata) => {
        auth.operator(metadata);
        const changed = auth.auditor(log, metadata, 'RotateMasterKey');
        const { masterKeys, snapshotBusy } = this.#deps;
        if (snapshotBusy())
          throw new CapstanError('CONFLICT', 'a copy of the database is being written; rotate the master key when it is complete');
        const audit = entryOf(auth, metadata, { action: 'rotateMasterKey', object: 'master key' });
        const { renewed } = await masterKeys.rotate();
        await engine.command({ kind: 'audit' }, { ...audit, after: { renewed } });
        changed({ renewed });
        return masterKeyInfo(masterKeys.state, renewed);
      }),
      prepareMasterKey: unary(log, 'PrepareMasterKey', async (_request, metadata) => {
        auth.operator(metadata);
        const changed = auth.auditor(log, metadata, 'PrepareMasterKey');
        const audit = entryOf(auth, metadata, { action: 'prepareMasterKey', object: 'master key' });
        const { id, file, lacking } = await this.#deps.masterKeys.prepare();
        await engine.command({ kind: 'audit' }, { ...audit, after: { id } });
        changed({ key: id });
        return { id, file, lacking: [...lacking] };
      }),
      redeliverWebhook: unary(log, 'RedeliverWebhook', async ({ id }, metadata) => {
        auth.account(metadata);
        const delivery = await engine.read('delivery', id);
        // Checked again: the key may have been revoked in the meantime.
        const owner = auth.account(metadata);
        if (delivery === null || delivery.account !== owner) throw webhookNotFound(id);
        await engine.command(
          { kind: 'redeliver', webhook: id },
          entryOf(auth, metadata, { action: 'redeliverWebhook', object: id, account: owner }),
        );
        return {};
      }),
      getWebhookSecret: account('GetWebhookSecret', async (_request, owner) => ({ secret: await this.#deps.webhookSecrets.of(owner) })),
      rotateWebhookSecret: unary(log, 'RotateWebhookSecret', async (_request, metadata) => {
        const owner = auth.account(metadata);
        const audit = entryOf(auth, metadata, { action: 'rotateWebhookSecret', object: 'webhook secret', account: owner });
        const { secret, previousUntil } = await this.#deps.webhookSecrets.rotate(owner, audit);
        return { secret, ...(previousUntil === null ? {} : { previousUntilMs: BigInt(previousUntil) }) };
      }),
    } satisfies ControlServiceServer;
  }

  #watch(call: Watcher): void {
    try {
      this.#deps.auth.gateway(call.metadata);
      call.write(wholeDirectory(this.#deps.engine.state));
    } catch (error) {
      call.emit('error', toStatus(error));
      return;
    }
    this.#watchers.add(call);
    const closed = (): void => void this.#watchers.delete(call);
    call.on('cancelled', closed);
    call.on('error', closed);
    call.on('close', closed);
  }
}

/** Gateways cache it only briefly: it has no hash by which it could be revoked. */
function workerKeyEntry(worker: AccountPrincipal | null): KeyEntry {
  if (worker === null) throw new CapstanError('NOT_FOUND', 'the worker does not exist');
  const { account: accountId, scope, environment, workerOf } = worker;
  const endpointIds = workerOf === undefined ? [] : [workerOf];
  return { hash: Buffer.alloc(0), accountId, scope, endpointIds, environment, isOperator: false, isSession: false, keyId: '' };
}

function webhookInfo(delivery: DeliveryHead): WebhookInfo {
  return {
    id: delivery.id,
    endpointId: delivery.endpoint,
    url: shownUrl(delivery.url),
    state: delivery.state === 'PENDING' ? WebhookState.PENDING : WebhookState.FAILED,
    tries: delivery.tries,
    dueAtMs: BigInt(delivery.dueAt),
    error: delivery.error ?? '',
  };
}

function masterKeyInfo({ id, since, rotating, nextId }: MasterKeyState, renewed: number): MasterKeyInfo {
  return { id, rotating, renewed, nextId: nextId ?? '', ...(since === null ? {} : { sinceMs: BigInt(Math.trunc(since)) }) };
}
