/** ControlService: what gateways, the tool and operators read and change. */
import type { ServerWritableStream } from '@grpc/grpc-js';

import { CapstanError } from '../../proto/errors.ts';
import { EndpointKind, WorkerState } from '../../proto/gen/capstan/v1/common.ts';
import { WebhookState } from '../../proto/gen/capstan/v1/control.ts';
import type {
  ControlServiceServer,
  DeployRequest,
  DeployResponse,
  DirectoryUpdate,
  EndpointInfo,
  NodeInfo,
  WatchDirectoryRequest,
  WebhookInfo,
  WorkerInfo,
} from '../../proto/gen/capstan/v1/control.ts';
import { toStatus } from '../../proto/grpc-errors.ts';
import { endpointEntry, keyEntry, wholeDirectory } from '../core/control.ts';
import type { EndpointImage, Image } from '../core/image.ts';
import { queueReason } from '../core/reasons.ts';
import { endpointNotFound, webhookNotFound } from '../core/requests.ts';
import type { Clock } from '../engine/clock.ts';
import type { Engine, EngineLog } from '../engine/engine.ts';
import type { Cipher } from '../secrets/cipher.ts';
import type { SchedulerMetrics } from '../metrics/metrics.ts';
import type { WebhookSecrets } from '../webhooks/secrets.ts';
import { hashKey } from '../secrets/hash.ts';
import type { HookHead } from '../store/store.ts';
import type { Authorizer } from './auth.ts';
import { unary } from './calls.ts';
import { checkEndpoints } from './deploy-rules.ts';
import type { NodeSessions } from './node-service.ts';

type Watcher = ServerWritableStream<WatchDirectoryRequest, DirectoryUpdate>;

export interface ControlDeps {
  readonly engine: Engine;
  readonly auth: Authorizer;
  readonly cipher: Cipher;
  readonly sessions: NodeSessions;
  readonly metrics: SchedulerMetrics;
  readonly clock: Clock;
  readonly log: EngineLog;
  readonly webhookSecrets: WebhookSecrets;
  /** Size of a stored build, or null when it is not there. */
  readonly buildSize: (digest: string) => Promise<number | null>;
}

export class Control {
  readonly #watchers = new Set<Watcher>();
  readonly #deps: ControlDeps;

  constructor(deps: ControlDeps) {
    this.#deps = deps;
  }

  /** Tells every watching gateway what changed. */
  directory(update: DirectoryUpdate): void {
    for (const watcher of this.#watchers) watcher.write(update);
  }

  closeAll(reason: string): void {
    for (const watcher of this.#watchers) watcher.emit('error', toStatus(new CapstanError('UNAVAILABLE', reason)));
    this.#watchers.clear();
  }

  service(): ControlServiceServer {
    const { engine, auth, log } = this.#deps;
    const account = <Request, Reply>(name: string, handler: (request: Request, account: string) => Promise<Reply> | Reply) =>
      unary<Request, Reply>(log, name, (request, metadata) => handler(request, auth.account(metadata)));
    const gateway = <Request, Reply>(name: string, handler: (request: Request) => Promise<Reply> | Reply) =>
      unary<Request, Reply>(log, name, (request, metadata) => {
        auth.gateway(metadata);
        return handler(request);
      });
    return {
      watchDirectory: (call) => this.#watch(call),
      lookupKey: gateway('LookupKey', ({ hash }) => {
        const key = engine.image.keys.get(Buffer.from(hash).toString('hex'));
        if (key === undefined) throw new CapstanError('NOT_FOUND', 'no such key');
        return keyEntry(key);
      }),
      lookupEndpoint: gateway('LookupEndpoint', ({ endpointId }) => {
        const endpoint = engine.image.endpoints.get(endpointId);
        if (endpoint === undefined) throw endpointNotFound(endpointId);
        return endpointEntry(endpoint.config);
      }),
      deploy: account('Deploy', (request: DeployRequest, owner) => this.#deploy(request, owner)),
      listEndpoints: account('ListEndpoints', ({ environment }, owner) => {
        const endpoints = [...engine.image.endpoints.values()].filter(
          ({ config }) => config.account === owner && (environment === '' || config.environment === environment),
        );
        return { endpoints: endpoints.map((endpoint) => this.#info(endpoint, false)) };
      }),
      listNodes: account('ListNodes', () => ({ nodes: nodeInfos(engine.image) })),
      listWorkers: account('ListWorkers', ({ endpointId }, owner) => ({ workers: workerInfos(engine.image, owner, endpointId) })),
      createJoinToken: account('CreateJoinToken', async () => {
        const joinToken = `join_${crypto.randomUUID().replaceAll('-', '')}${crypto.randomUUID().replaceAll('-', '')}`;
        await engine.command({ command: 'put-join-token', hash: hashKey(joinToken).toString('hex') });
        return { joinToken };
      }),
      getLogs: account('GetLogs', async ({ endpointId, workerId, limit, afterMs }, owner) => {
        const endpoint = engine.image.endpoints.get(endpointId);
        if (endpoint === undefined || endpoint.config.account !== owner) throw endpointNotFound(endpointId);
        const lines = await this.#deps.sessions.logs({ endpointId, workerId, limit: limit === 0 ? 100 : Math.min(limit, 1_000), afterMs });
        return { lines };
      }),
      getMetrics: gateway('GetMetrics', async () => ({ text: await this.#deps.metrics.text() })),
      listWebhooks: account('ListWebhooks', async ({ afterId, limit }, owner) => {
        const size = limit === 0 ? 100 : Math.min(limit, 1_000);
        const page = await engine.store.read('hookPage', afterId, size);
        const nextAfterId = page.length < size ? '' : (page.at(-1)?.id ?? '');
        return { webhooks: page.filter((hook) => hook.account === owner).map(webhookInfo), nextAfterId };
      }),
      redeliverWebhook: account('RedeliverWebhook', async ({ id }, owner) => {
        const hook = await engine.store.read('hook', id);
        if (hook === null || hook.account !== owner) throw webhookNotFound(id);
        await engine.command({ command: 'redeliver', webhook: id });
        return {};
      }),
      getWebhookSecret: account('GetWebhookSecret', async (_request, owner) => ({ secret: await this.#deps.webhookSecrets.of(owner) })),
    } satisfies ControlServiceServer;
  }

  #watch(call: Watcher): void {
    try {
      this.#deps.auth.gateway(call.metadata);
      call.write(wholeDirectory(this.#deps.engine.image));
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

  async #deploy(request: DeployRequest, account: string): Promise<DeployResponse> {
    const environment = request.environment === '' ? 'default' : request.environment;
    const endpoints = checkEndpoints(request.endpoints, { account, environment }, this.#deps.cipher);
    const size = await this.#deps.buildSize(request.buildDigest);
    if (size === null)
      throw new CapstanError('NOT_FOUND', `build ${request.buildDigest} is not in the artifact store: upload it first`, {
        field: 'build_digest',
      });
    const build = { digest: request.buildDigest, size, createdAt: this.#deps.clock.now().wall };
    const answer = await this.#deps.engine.command({ command: 'deploy', account, environment, build, endpoints });
    if (answer.answer !== 'deployed') throw new CapstanError('INTERNAL', 'unexpected answer');
    const { image } = this.#deps.engine;
    return {
      environment,
      endpoints: answer.endpoints.flatMap(({ id, created }) => {
        const endpoint = image.endpoints.get(id);
        return endpoint === undefined ? [] : [this.#info(endpoint, created)];
      }),
    };
  }

  #info(endpoint: EndpointImage, created: boolean): EndpointInfo {
    const { config, lanes, counts } = endpoint;
    const { image } = this.#deps.engine;
    const release = image.releases.get(config.release);
    const waiting = lanes[0].count + lanes[1].count;
    const why = waiting === 0 ? { reason: '', detail: '' } : queueReason(image, endpoint, this.#deps.clock.now());
    return {
      id: config.id,
      environment: config.environment,
      spec: {
        name: config.name,
        kind: config.kind === 'QUEUE' ? EndpointKind.QUEUE : EndpointKind.LOAD_BALANCED,
        imageName: config.imageName,
        workersMin: config.workersMin,
        workersMax: config.workersMax,
        idleTimeoutS: config.idleTimeoutS,
        gpuIds: config.gpuIds,
        gpuCount: config.gpuCount,
        cpu: config.cpu,
        functions: [...(release?.functions ?? [])],
        env: {},
        maxConcurrency: config.maxConcurrency,
        executionTimeoutMs: config.executionTimeoutMs,
        scalerType: config.scalerType,
        scalerValue: config.scalerValue,
        routes: { ...config.routes },
        rateLimits: { ...config.limits },
        ...(config.requestsPerWorker === null ? {} : { requestsPerWorker: config.requestsPerWorker }),
        maxAttempts: config.maxAttempts,
        runtime: release?.runtime ?? '',
      },
      releaseId: config.release,
      buildDigest: release?.buildDigest ?? '',
      created,
      workers: endpoint.workers.size,
      jobsInQueue: waiting,
      jobsInProgress: counts.inProgress,
      queueReason: why.reason,
      queueDetail: why.detail,
    };
  }
}

function webhookInfo(hook: HookHead): WebhookInfo {
  return {
    id: hook.id,
    endpointId: hook.endpoint,
    url: hook.url,
    state: hook.state === 'PENDING' ? WebhookState.PENDING : WebhookState.FAILED,
    tries: hook.tries,
    dueAtMs: BigInt(hook.dueAt),
    error: hook.error ?? '',
  };
}

function nodeInfos(image: Image): NodeInfo[] {
  return [...image.nodes.values()].map((node) => ({
    id: node.config.id,
    name: node.config.name,
    connected: node.session !== null,
    incarnation: node.incarnation,
    ...(node.inventory === null ? {} : { inventory: node.inventory }),
    workers: node.workers.size,
  }));
}

function workerInfos(image: Image, account: string, endpointId: string): WorkerInfo[] {
  const infos: WorkerInfo[] = [];
  for (const worker of image.workers.values()) {
    const owner = image.endpoints.get(worker.endpoint)?.config.account;
    if (owner !== account || (endpointId !== '' && worker.endpoint !== endpointId)) continue;
    const status = worker.status ?? {
      workerId: worker.id,
      endpointId: worker.endpoint,
      releaseId: worker.release,
      state: WorkerState.INITIALIZING,
      reason: '',
      detail: '',
      failures: 0,
      deviceUuids: [...worker.devices],
      artifactMs: 0,
      startedMs: 0,
      loadedMs: 0,
    };
    infos.push({
      status,
      nodeId: worker.node,
      jobs: worker.attempts.size,
      maxConcurrency: worker.maxConcurrency,
      decision: worker.decision,
    });
  }
  return infos;
}
