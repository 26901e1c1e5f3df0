/**
 * The root fields. Each but `cluster` is one call of ControlService with the caller's own key, so that the scheduler
 * checks its scope; lists of an operator are one call for each cell.
 */
import { fieldOf, UPDATABLE_PLAIN_NAMES, type UpdatablePlainName } from '../../lib/endpoint-settings.ts';
import type { ClusterRow } from '../../lib/cluster-list.ts';
import { CapstanError } from '../../lib/errors.ts';
import {
  EndpointPatch,
  type IsolationRulesPatch,
  type EndpointSpec,
  type AccountInfo,
  type EndpointInfo,
  type GetEndpointResponse,
  type NodeInfo,
  type RateLimit,
} from '../../proto/gen/capstan/v1/control.ts';
import { cursorOf, endOf, logRequest, logWaitMs, type LogQuery } from '../logs/query.ts';
import { unlessAborted } from '../logs/unless-aborted.ts';
import { bulkMessage, bulkShape, filterMessage, jobShape, type BulkArguments, type JobSearch } from './job-shape.ts';
import { lastHourMessage, routeFigureShapes, routeHistoryShape } from './route-shapes.ts';
import {
  deviceHistoryMessage,
  deviceHistoryShape,
  historyMessage,
  historyShape,
  type DeviceHistoryArguments,
  type HistoryArguments,
} from './history-shape.ts';
import { checkSetting, whole } from './endpoint-form.ts';
import type { ControlCalls, Placed } from './control-calls.ts';
import { workerStartShape } from './worker-start.ts';
import {
  accountShape,
  attentionShape,
  buildShape,
  cellShape,
  deploymentShape,
  endpointShape,
  environmentShape,
  joinTokenShape,
  keyShape,
  logShape,
  machineTypeShape,
  nodeShape,
  scopeOf,
  time,
  webhookShape,
  workerShape,
  type Addresses,
  type ScopeName,
} from './shapes.ts';

export interface RootDeps {
  readonly calls: ControlCalls;
  readonly addresses: Addresses;
  readonly isOperator: boolean;
  /** Aborted once the gateway is about to close. */
  readonly draining: AbortSignal;
  /** Asks any scheduler, with the gateway's own token. */
  readonly cluster: () => Promise<ClusterRow>;
}

/** The input EndpointSettings; the schema has checked the types. */
interface Settings extends Partial<Record<UpdatablePlainName, unknown>> {
  readonly rateLimits?: readonly (RateLimit & { readonly operation: string })[] | null;
  readonly env?: unknown;
  readonly unsetEnv?: readonly string[] | null;
}

type Optional<T> = T | null | undefined;

/** The resolvers of Query and Mutation for one request. */
export function rootFor({ calls, addresses, isOperator, draining, cluster }: RootDeps) {
  const read = new Map<string, Promise<EndpointInfo[]>>();
  const changes = calls.changing;
  const call: ControlCalls['own'] = (method, request) => calls.own(method, request);
  const change: ControlCalls['own'] = (method, request) => changes.own(method, request);
  const shape = (info: EndpointInfo): object => {
    let read: Promise<GetEndpointResponse> | undefined;
    return endpointShape(info, addresses, () => (read ??= call((control) => control.getEndpoint, { endpointId: info.id })));
  };

  /** Several fields of a query need it; it is read once. */
  function endpointsOf(environment: string): Promise<EndpointInfo[]> {
    const known = read.get(environment);
    if (known !== undefined) return known;
    const asked = call((control) => control.listEndpoints, { environment }).then(({ endpoints }) => endpoints);
    read.set(environment, asked);
    return asked;
  }

  async function environments(): Promise<(object & { readonly name: string })[]> {
    const found = (await call((control) => control.listEnvironments, {})).environments;
    return found.map((info) => ({ name: info.name, ...environmentShape(info, async () => (await endpointsOf(info.name)).map(shape)) }));
  }

  return {
    environments,
    environment: async ({ name }: { name: string }) => (await environments()).find((environment) => environment.name === name) ?? null,
    endpoints: async ({ environment }: { environment?: Optional<string> }) => (await endpointsOf(environment ?? '')).map(shape),
    endpoint: async ({ id, environment, name }: { id?: Optional<string>; environment?: Optional<string>; name?: Optional<string> }) => {
      if ((id ?? null) === null && (name ?? null) === null)
        throw new CapstanError('INVALID_ARGUMENT', 'endpoint: must be an id, or a name together with its environment', { field: 'id' });
      const found = await endpointsOf((id ?? null) === null ? (environment ?? 'default') : '');
      const info = found.find((each) => ((id ?? null) === null ? each.spec?.name === name : each.id === id));
      return info === undefined ? null : shape(info);
    },
    builds: async ({ environment, endpoint }: { environment?: Optional<string>; endpoint?: Optional<string> }) =>
      (await call((control) => control.listBuilds, { environment: environment ?? '', endpoint: endpoint ?? '' })).builds.map(buildShape),
    deployments: async ({ environment, limit }: { environment?: Optional<string>; limit?: Optional<number> }) => {
      const request = { environment: environment ?? '', limit: whole('limit', limit ?? 0) };
      return (await call((control) => control.listDeployments, request)).deployments.map(deploymentShape);
    },
    workers: async ({ endpoint }: { endpoint?: Optional<string> }) =>
      (await calls.all((control) => control.listWorkers, { endpointId: endpoint ?? '' })).flatMap(({ reply }) =>
        reply.workers.map(workerShape),
      ),
    jobs: async ({ endpoint, filter, limit, cursor }: JobSearch) => {
      const page = await call((control) => control.searchJobs, {
        endpointId: endpoint,
        ...filterMessage(filter),
        cursor: cursor ?? '',
        limit: whole('limit', limit ?? 0),
      });
      return { jobs: page.jobs.map(jobShape), cursor: page.cursor === '' ? null : page.cursor, incomplete: page.incomplete };
    },
    countJobs: async (given: BulkArguments) => {
      const { count, incomplete } = await call((control) => control.countJobs, bulkMessage(given));
      return { count: Number(count), incomplete };
    },
    bulkOperations: async ({ endpoint }: { endpoint?: Optional<string> }) =>
      (await call((control) => control.listBulkOperations, { endpointId: endpoint ?? '' })).operations.map(bulkShape),
    startBulkOperation: async (given: BulkArguments) =>
      bulkShape(await change((control) => control.startBulkOperation, bulkMessage(given))),
    stopBulkOperation: async ({ id }: { id: string }) => bulkShape(await change((control) => control.stopBulkOperation, { id })),
    job: async ({ endpoint, id }: { endpoint: string; id: string }) => {
      try {
        return jobShape(await call((control) => control.getJob, { endpointId: endpoint, jobId: id }));
      } catch (thrown) {
        if (thrown instanceof CapstanError && thrown.code === 'NOT_FOUND') return null;
        throw thrown;
      }
    },
    history: async (given: HistoryArguments) => historyShape(await call((control) => control.getHistory, historyMessage(given))),
    deviceHistory: async (given: DeviceHistoryArguments) =>
      deviceHistoryShape((await calls.any((control) => control.getDeviceHistory, deviceHistoryMessage(given))).reply),
    routeHistory: async (given: HistoryArguments) =>
      routeHistoryShape(await call((control) => control.getHistory, { ...historyMessage(given), byRoute: true })),
    routeFigures: async ({ endpoint }: { endpoint: string }) => {
      const now = Date.now();
      return routeFigureShapes(await call((control) => control.getHistory, lastHourMessage(endpoint, now)), now);
    },
    attention: async () => {
      const found = await calls.all((control) => control.listAttention, {});
      const shown = found.flatMap(({ cell, reply }) =>
        reply.items.flatMap((item) => {
          const known = attentionShape(item, cell);
          return known === undefined ? [] : [known];
        }),
      );
      const items = found.reduce((sum, { reply }) => sum + reply.items.length + reply.omitted, 0);
      return { items: shown, omitted: items - shown.length };
    },
    nodes: async (page: Page) => {
      const found = await calls.all((control) => control.listNodes, pageOf(page));
      return firstOf(
        page,
        found.flatMap(({ cell, reply }) => reply.nodes.map((node) => ({ ...nodeShape(node), id: node.id, cell }))),
      );
    },
    machineTypes: async () => (await call((control) => control.listMachineTypes, {})).machineTypes.map(machineTypeShape),
    joinTokens: async (page: Page) => {
      const found = await calls.all((control) => control.listJoinTokens, pageOf(page));
      return firstOf(
        page,
        found.flatMap(({ cell, reply }) => reply.tokens.map((token) => ({ ...joinTokenShape(token), id: token.id, cell }))),
      );
    },
    cells: async () => (await call((control) => control.listCells, {})).cells.map(cellShape),
    webhooks: async ({ after, limit, newestFirst }: Page & { newestFirst?: Optional<boolean> }) => {
      const request = { afterId: after ?? '', limit: whole('limit', limit ?? 0), newestFirst: newestFirst === true };
      const page = await call((control) => control.listWebhooks, request);
      return { webhooks: page.webhooks.map(webhookShape), next: page.nextAfterId === '' ? null : page.nextAfterId };
    },
    webhookSecret: async () => (await call((control) => control.getWebhookSecret, {})).secret,
    apiKeys: async ({ account }: { account?: Optional<string> }) =>
      (await calls.ofAccount(account ?? '', (control) => control.listKeys, { account: account ?? '' })).reply.keys.map(keyShape),
    account: async () => placedAccount(await calls.at('', (control) => control.getAccount, {})),
    accounts: async (page: Page) => {
      const found = await calls.all((control) => control.listAccounts, pageOf(page));
      return firstOf(
        page,
        found.flatMap(({ cell, reply }) => reply.accounts.map((account) => ({ ...accountShape(account), id: account.id, cell }))),
      );
    },
    cluster: (): Promise<ClusterRow> => {
      // The scheduler checks no key here: it may be a standby, which has none.
      if (isOperator) return cluster();
      throw new CapstanError('PERMISSION_DENIED', 'the key is not permitted to make this call; it requires the scope OPERATOR');
    },
    logs: async (asked: { endpoint: string; worker?: Optional<string>; limit?: Optional<number>; afterMs?: Optional<number> }) => {
      const { endpoint, worker, limit, afterMs } = asked;
      const after = BigInt(Math.max(0, Math.trunc(afterMs ?? 0)));
      const request = { endpointId: endpoint, workerId: worker ?? '', limit: whole('limit', limit ?? 0), afterMs: after };
      return (await call((control) => control.getLogs, request)).lines.map(logShape);
    },
    searchLogs: async (asked: LogSearchArguments) => {
      const query = { ...asked.filter, cursor: asked.cursor };
      const waitMs = logWaitMs(whole('waitMs', asked.waitMs ?? 0), calls.timeoutMs);
      const request = logRequest(asked.endpoint, query, whole('limit', asked.limit ?? 0), waitMs);
      const search = call((control) => control.getLogs, request);
      const page = waitMs === 0 ? await search : await unlessAborted(search, draining);
      if (page === undefined) throw new CapstanError('UNAVAILABLE', 'the gateway is about to close', { retryAfterMs: 1_000 });
      const { lines, incomplete, missingNodes, unfilteredNodes } = page;
      const cursor = cursorOf(page, query.oldestFirst === true);
      return { lines: lines.map(logShape), cursor, incomplete, missingNodes, unfilteredNodes, end: endOf(page, query, Date.now()) };
    },

    createEnvironment: async ({ name }: { name: string }) =>
      environmentShape(await change((control) => control.createEnvironment, { name }), () => Promise.resolve([])),
    deleteEnvironment: async (asked: { name: string; force: boolean; stopJobs: boolean }) =>
      (await change((control) => control.deleteEnvironment, asked)).endpoints.map(shape),
    deploy: async ({ environment, build, endpoints }: { environment?: Optional<string>; build: string; endpoints: EndpointSpec[] }) => {
      const request = { environment: environment ?? '', buildDigest: build, buildSize: 0, endpoints };
      const deployed = await change((control) => control.deploy, request);
      return { environment: deployed.environment, endpoints: deployed.endpoints.map(shape) };
    },
    updateEndpoint: async ({ endpoint, settings }: { endpoint: string; settings: Settings }) =>
      shape(await change((control) => control.updateEndpoint, { endpointId: endpoint, patch: patchOf(settings) })),
    startWorker: async ({ endpoint }: { endpoint: string }) =>
      workerStartShape(await change((control) => control.startWorker, { endpointId: endpoint })),
    deleteEndpoint: async ({
      environment,
      endpoint,
      stopJobs,
    }: {
      environment?: Optional<string>;
      endpoint: string;
      stopJobs: boolean;
    }) => {
      const { endpoints } = await change((control) => control.undeploy, {
        environment: environment ?? '',
        endpoints: [endpoint],
        stopJobs,
        all: false,
      });
      return endpoints.map(shape)[0];
    },
    deleteEndpoints: async ({ environment, stopJobs }: { environment: string; stopJobs: boolean }) =>
      (await change((control) => control.undeploy, { environment, endpoints: [], stopJobs, all: true })).endpoints.map(shape),
    rollback: async ({
      environment,
      endpoint,
      build,
    }: {
      environment?: Optional<string>;
      endpoint?: Optional<string>;
      build?: Optional<string>;
    }) => {
      const request = { environment: environment ?? '', endpoint: endpoint ?? '', build: build ?? '' };
      const deployed = await change((control) => control.rollback, request);
      return { environment: deployed.environment, endpoints: deployed.endpoints.map(shape) };
    },
    createApiKey: async (asked: {
      name: string;
      scope: ScopeName;
      endpoints?: Optional<string[]>;
      environment?: Optional<string>;
      expiresInS?: Optional<number>;
      account?: Optional<string>;
    }) => {
      const { reply: made } = await changes.ofAccount(asked.account ?? '', (control) => control.createKey, {
        name: asked.name,
        scope: scopeOf(asked.scope),
        endpoints: asked.endpoints ?? [],
        environment: asked.environment ?? '',
        expiresInS: whole('expiresInS', asked.expiresInS ?? 0),
        account: asked.account ?? '',
      });
      return { plaintext: made.text, text: made.text, key: made.key === undefined ? null : keyShape(made.key) };
    },
    revokeApiKey: async ({ id, account }: { id: string; account?: Optional<string> }) => {
      const { reply } = await changes.ofAccount(account ?? '', (control) => control.revokeKey, { id, account: account ?? '' });
      const { key: revoked } = reply;
      return revoked === undefined ? null : keyShape(revoked);
    },
    createAccount: async ({
      id,
      cell: wanted,
      workerQuota,
      isolation,
      ...storage
    }: { id: string; cell?: Optional<string> } & QuotaInputs) => {
      const quotas = { workerQuota: whole('workerQuota', workerQuota ?? 0), ...storageQuotas(storage) };
      const request = { id, ...quotas, ...isolationPatch(isolation) };
      const { cell, reply: made } = await changes.at(wanted ?? '', (control) => control.createAccount, request);
      return { account: made.account === undefined ? null : { ...accountShape(made.account), cell }, keyText: made.keyText };
    },
    updateAccount: async ({ id, workerQuota, isolation, ...storage }: { id: string } & QuotaInputs) => {
      const workers = workerQuota ?? null;
      const quotas = { ...(workers === null ? {} : { workerQuota: whole('workerQuota', workers) }), ...storageQuotas(storage) };
      const request = { id, ...quotas, ...isolationPatch(isolation) };
      return placedAccount(await changes.ofAccount(id, (control) => control.updateAccount, request));
    },
    deleteAccount: async (asked: { id: string; force: boolean; stopJobs: boolean }) =>
      placedAccount(await changes.ofAccount(asked.id, (control) => control.deleteAccount, asked)),
    moveAccount: async ({ id, cell }: { id: string; cell: string }) => {
      await changes.ofAccount(id, (control) => control.moveAccount, { id, cell });
      return id;
    },
    assignNode: async ({ id, cell }: { id: string; cell: string }) => {
      await changes.any((control) => control.assignNode, { nodeId: id, cell });
      return id;
    },
    createCell: async ({ name }: { name: string }) => cellShape(await change((control) => control.createCell, { name })),
    createJoinToken: async ({
      name,
      expiresInS,
      maxUses,
      neverExpires,
      cell: wanted,
    }: {
      name?: Optional<string>;
      expiresInS?: Optional<number>;
      maxUses?: Optional<number>;
      neverExpires?: Optional<boolean>;
      cell?: Optional<string>;
    }) => {
      const request = {
        name: name ?? '',
        expiresInS: whole('expiresInS', expiresInS ?? 0),
        maxUses: whole('maxUses', maxUses ?? 0),
        neverExpires: neverExpires === true,
      };
      const { cell, reply } = await changes.at(wanted ?? '', (control) => control.createJoinToken, request);
      const { joinToken, token } = reply;
      return { plaintext: joinToken, text: joinToken, token: token === undefined ? null : { ...joinTokenShape(token), cell } };
    },
    revokeJoinToken: async ({ id }: { id: string }) => {
      const { cell, reply } = await changes.any((control) => control.revokeJoinToken, { id });
      return reply.token === undefined ? null : { ...joinTokenShape(reply.token), cell };
    },
    drainNode: async ({ id }: { id: string }) => changed(await changes.any((control) => control.drainNode, { nodeId: id })),
    resumeNode: async ({ id }: { id: string }) => changed(await changes.any((control) => control.resumeNode, { nodeId: id })),
    removeNode: async ({ id, force }: { id: string; force: boolean }) => {
      await changes.any((control) => control.removeNode, { nodeId: id, force });
      return id;
    },
    redeliverWebhook: async ({ id }: { id: string }) => {
      await change((control) => control.redeliverWebhook, { id });
      return id;
    },
    rotateWebhookSecret: async () => {
      const { secret, previousUntilMs } = await change((control) => control.rotateWebhookSecret, {});
      return { secret, previousUntil: time(previousUntilMs ?? 0n) };
    },
  };
}

interface LogSearchArguments {
  readonly endpoint: string;
  readonly filter?: Optional<LogQuery>;
  readonly limit?: Optional<number>;
  readonly cursor?: Optional<string>;
  readonly waitMs?: Optional<number>;
}

/** A page of a list, ordered by id. */
interface Page {
  readonly after?: Optional<string>;
  readonly limit?: Optional<number>;
}

function pageOf({ after, limit }: Page): { afterId: string; limit: number } {
  return { afterId: after ?? '', limit: whole('limit', limit ?? 0) };
}

interface QuotaInputs {
  readonly workerQuota?: Optional<number>;
  readonly buildQuotaBytes?: Optional<number>;
  readonly bodyQuotaBytes?: Optional<number>;
  readonly isolation?: Optional<{
    readonly least?: Optional<string>;
    readonly runtimes?: Optional<readonly string[]>;
    readonly network?: Optional<string>;
  }>;
}

function isolationPatch(given: QuotaInputs['isolation']): { isolation?: IsolationRulesPatch } {
  if (given === undefined || given === null) return {};
  const { least, runtimes, network } = given;
  return {
    isolation: {
      least: least ?? undefined,
      network: network ?? undefined,
      runtimes: [...(runtimes ?? [])],
      setRuntimes: runtimes !== undefined && runtimes !== null,
    },
  };
}

function storageQuotas(given: Omit<QuotaInputs, 'workerQuota' | 'isolation'>): { buildQuotaBytes?: bigint; bodyQuotaBytes?: bigint } {
  const bytes = (name: 'buildQuotaBytes' | 'bodyQuotaBytes'): object => {
    const value = given[name] ?? null;
    if (value === null) return {};
    if (!Number.isSafeInteger(value) || value < 0)
      throw new CapstanError('INVALID_ARGUMENT', `${name}: must be a whole number of bytes, 0 or more`, { field: name });
    return { [name]: BigInt(value) };
  };
  return { ...bytes('buildQuotaBytes'), ...bytes('bodyQuotaBytes') };
}

function changed({ cell, reply: { node } }: Placed<{ readonly node?: NodeInfo | undefined }>): object {
  if (node === undefined) throw new CapstanError('INTERNAL', 'the scheduler updated a node without returning it');
  return { ...nodeShape(node), cell };
}

function placedAccount({ cell, reply }: Placed<AccountInfo>): object {
  return { ...accountShape(reply), cell };
}

/** The page of a list that each cell returned in order of id. */
function firstOf<T extends { readonly id: string }>({ limit }: Page, found: T[]): T[] {
  const ordered = found.toSorted((a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0));
  const most = limit ?? 0;
  return most === 0 ? ordered : ordered.slice(0, most);
}

function patchOf({ rateLimits, env, unsetEnv, ...settings }: Settings): EndpointPatch {
  const given = UPDATABLE_PLAIN_NAMES.filter((name) => (settings[name] ?? null) !== null);
  // Compiles only if the message has every setting that may be changed.
  const fields = given.map((name): [keyof EndpointPatch, unknown] => [fieldOf(name), checkSetting(name, name, settings[name])]);
  const limits = (rateLimits ?? []).map(({ operation, requests, concurrent }) => [operation, { requests, concurrent }] as const);
  checkSetting('rateLimits', 'rateLimits', Object.fromEntries(limits));
  return EndpointPatch.fromPartial({
    ...Object.fromEntries(fields),
    rateLimits: Object.fromEntries(limits),
    env: textsOf(env),
    unsetEnv: [...(unsetEnv ?? [])],
  });
}

function textsOf(env: unknown): Record<string, string> {
  if (env === undefined || env === null) return {};
  const refuse = (): never => {
    throw new CapstanError('INVALID_ARGUMENT', 'env: must be an object of strings', { field: 'env' });
  };
  if (typeof env !== 'object' || Array.isArray(env)) return refuse();
  const entries = Object.entries(env);
  return entries.every((entry): entry is [string, string] => typeof entry[1] === 'string') ? Object.fromEntries(entries) : refuse();
}
