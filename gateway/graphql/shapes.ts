/** Converts the scheduler's replies into the shapes of the schema. */
import { DEFAULT_VALUES, READABLE_NAMES, valuesOf } from '../../lib/endpoint-settings.ts';
import { CapstanError } from '../../lib/errors.ts';
import { WORKER_RUNTIMES } from '../../lib/isolation.ts';
import { EndpointKind } from '../../proto/gen/capstan/v1/common.ts';
import {
  DeploymentCause,
  KeyScope,
  WebhookState,
  AttentionKind,
  AttentionSeverity,
  type AccountInfo,
  type AttentionItem,
  type BuildInfo,
  type ReleasedSettings,
  type CellInfo,
  type DeploymentInfo,
  type EndpointInfo,
  type EndpointSpec,
  type EnvironmentInfo,
  type GetEndpointResponse,
  type JoinTokenInfo,
  type KeyInfo,
  type MachineType,
  type NodeInfo,
  type WebhookInfo,
  type WorkerInfo,
} from '../../proto/gen/capstan/v1/control.ts';
import type { FunctionSpec, LogLine, ParameterSpec } from '../../proto/gen/capstan/v1/nodes.ts';
import { nodeFigures } from './node-figures.ts';

const scopes = {
  ALL: KeyScope.ALL,
  ENDPOINTS: KeyScope.ENDPOINTS,
  READ_ONLY: KeyScope.READ_ONLY,
  ENVIRONMENT: KeyScope.ENVIRONMENT,
  OPERATOR: KeyScope.OPERATOR,
} as const;
export type ScopeName = keyof typeof scopes;

export function scopeOf(name: ScopeName): KeyScope {
  return scopes[name];
}

function scopeName(scope: KeyScope): ScopeName {
  for (const name of Object.keys(scopes) as ScopeName[]) if (scopes[name] === scope) return name;
  throw new CapstanError('INTERNAL', 'the scheduler sent a key without a scope');
}

/** Addresses at which endpoints are called. */
export interface Addresses {
  /** Base URL of the HTTP API as the caller reaches it. */
  readonly base: string;
  /** Each load-balanced endpoint has its own host below this domain; lower case, without a port. */
  readonly lbDomain: string;
  /**
   * The caller is a worker that calls an endpoint. By path it reaches the gateway that it knows, whatever its DNS and
   * network permit.
   */
  readonly forWorker: boolean;
}

/** The domain is of this host only: its names do not resolve everywhere, and not always on this host. */
const LOCAL_DOMAIN = /(^|\.)localhost$/;

/** Returns a load-balanced endpoint's own host if there is a domain for it, else its path on the gateway. */
function endpointUrl(addresses: Addresses, info: EndpointInfo): string {
  const { base, lbDomain, forWorker } = addresses;
  if (info.spec?.kind !== EndpointKind.LOAD_BALANCED) return `${base}/v2/${info.id}`;
  const own = LOCAL_DOMAIN.test(lbDomain) || forWorker ? null : hostUrl(addresses, info);
  return own ?? `${base}/lb/${info.id}`;
}

const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])$/;

/**
 * The scheme and port are those by which the caller reaches the HTTP API. A domain below `localhost` is usable on this
 * host only.
 */
function hostUrl({ base, lbDomain }: Addresses, { id, spec }: EndpointInfo): string | null {
  if (spec?.kind !== EndpointKind.LOAD_BALANCED) return null;
  const { protocol, hostname, port } = new URL(base);
  if (LOCAL_DOMAIN.test(lbDomain) && !LOOPBACK.test(hostname)) return null;
  return `${protocol}//${id}.${lbDomain}${port === '' ? '' : `:${port}`}`;
}

/** `detail` is read only when a field requires it. */
export function endpointShape(info: EndpointInfo, addresses: Addresses, detail: () => Promise<GetEndpointResponse>): object {
  const { spec } = info;
  return {
    id: info.id,
    name: spec?.name ?? '',
    kind: spec?.kind === EndpointKind.LOAD_BALANCED ? 'LOAD_BALANCED' : 'QUEUE',
    url: endpointUrl(addresses, info),
    hostUrl: hostUrl(addresses, info),
    environment: info.environment,
    build: info.buildDigest === '' ? null : { digest: info.buildDigest, release: info.releaseId },
    release: info.releaseId,
    created: info.created,
    routes: routeShapes(spec),
    functions: (spec?.functions ?? []).map(({ name }) => name),
    signatures: (spec?.functions ?? []).map(signatureShape),
    settings: settingsShape(spec),
    defaultMaxAttempts: info.defaultMaxAttempts,
    workers: { total: info.workers, max: spec?.workersMax ?? 0 },
    queue: {
      inQueue: info.jobsInQueue,
      inProgress: info.jobsInProgress,
      reason: orNull(info.queueReason),
      detail: orNull(info.queueDetail),
    },
    scaling: async () => scalingShape(await detail()),
    envNames: async () => (await detail()).envNames,
  };
}

function settingsShape(spec: EndpointSpec | undefined): object {
  const values: Readonly<Record<string, unknown>> =
    spec === undefined ? DEFAULT_VALUES : { ...valuesOf(spec), rateLimits: spec.rateLimits };
  return Object.fromEntries(READABLE_NAMES.map((name) => [name, name === 'rateLimits' ? (values[name] ?? {}) : values[name]]));
}

function scalingShape(detail: GetEndpointResponse): object {
  const { workerCounts, workers, rejections, decisions, failedStarts, lastStartError } = detail;
  return {
    counts: workerCounts,
    workers: workers.map(workerShape),
    rejections,
    decisions: decisions.map(({ atMs, kind, workerId, nodeId, reason }) => ({
      at: time(atMs),
      kind,
      worker: orNull(workerId),
      node: orNull(nodeId),
      reason,
    })),
    failedStarts,
    lastStartError: orNull(lastStartError),
  };
}

/** Its endpoints are read only when they are requested. */
export function environmentShape(info: EnvironmentInfo, endpoints: () => Promise<object[]>): object {
  const { name, createdAtMs, workersMax, deployment } = info;
  return { name, createdAt: time(createdAtMs), workersMax, deployment, endpoints };
}

export function buildShape({ deployedAtMs, settings, ...build }: BuildInfo): object {
  return { ...build, deployedAt: time(deployedAtMs), settings: settings === undefined ? null : releasedShape(settings) };
}

function releasedShape({ spec, envNames, envChanged }: ReleasedSettings): object {
  return { settings: settingsShape(spec), routes: routeShapes(spec), envNames, envChanged };
}

function routeShapes(spec: EndpointSpec | undefined): object[] {
  return Object.entries(spec?.routes ?? {}).map(([route, fn]) => {
    const [method = '', path = ''] = route.split(' ');
    return { method, path, function: fn };
  });
}

export function deploymentShape({ number, environment, atMs, cause, endpoints }: DeploymentInfo): object {
  return {
    number,
    environment,
    at: time(atMs),
    cause: cause === DeploymentCause.ROLLBACK ? 'ROLLBACK' : 'DEPLOY',
    endpoints: endpoints.map(({ endpointId, name, buildDigest }) => ({ id: endpointId, name, build: buildDigest })),
  };
}

export function workerShape({ status, nodeId, jobs, maxConcurrency, decision, runtime }: WorkerInfo): object {
  return {
    id: status?.workerId ?? '',
    endpoint: status?.endpointId ?? '',
    node: nodeId,
    state: (status?.state ?? '').replace(/^WORKER_STATE_/, ''),
    reason: orNull(status?.reason ?? ''),
    detail: orNull(status?.detail ?? ''),
    jobs,
    maxConcurrency,
    devices: status?.deviceUuids ?? [],
    decision,
    release: status?.releaseId ?? '',
    runtime,
    failures: status?.failures ?? 0,
    start: { artifactMs: status?.artifactMs ?? 0, startedMs: status?.startedMs ?? 0, loadedMs: status?.loadedMs ?? 0 },
  };
}

export function nodeShape(node: NodeInfo): object {
  const { packages, devices, deviceProblem, ...figures } = nodeFigures(node);
  return {
    ...figures,
    packages: Object.keys(packages),
    packageVersions: packages,
    images: node.inventory?.images ?? [],
    devices: devices.map((device) => ({ ...device, problem: orNull(device.problem) })),
    deviceProblem: orNull(deviceProblem),
  };
}

export function machineTypeShape({ memoryBytes, devices, ...type }: MachineType): object {
  return {
    ...type,
    memoryBytes: Number(memoryBytes),
    packages: Object.keys(type.packages),
    packageVersions: type.packages,
    devices: devices.map((device) => ({ ...device, memoryBytes: Number(device.memoryBytes) })),
  };
}

export function joinTokenShape({ id, name, createdAtMs, expiresAtMs, maxUses, uses }: JoinTokenInfo): object {
  return { id, name, createdAt: time(createdAtMs), expiresAt: time(expiresAtMs), maxUses: maxUses === 0 ? null : maxUses, uses };
}

export function webhookShape({ id, endpointId, url, state, tries, dueAtMs, error }: WebhookInfo): object {
  const failed = state === WebhookState.FAILED;
  return { id, endpoint: endpointId, url, state: failed ? 'FAILED' : 'PENDING', tries, dueAt: time(dueAtMs), error: orNull(error) };
}

const attentionKinds = Object.entries(AttentionKind).filter(([name]) => name !== 'UNSPECIFIED' && name !== 'UNRECOGNIZED');

/** Returns undefined for an item of a kind that only a newer scheduler knows. */
export function attentionShape(item: AttentionItem, cell: string): object | undefined {
  const { kind, sinceMs, endpointId, accountId, nodeId, message, runbook } = item;
  const known = attentionKinds.find(([, value]) => value === kind);
  if (known === undefined) return undefined;
  const { key, severity, subject, actions, effects } = item;
  return {
    key: key === '' ? `${known[0]} ${nodeId || endpointId || accountId} ${message}` : key,
    kind: known[0],
    severity: severity === AttentionSeverity.CRITICAL ? 'CRITICAL' : 'WARNING',
    // Schedulers of earlier versions name none.
    subject: subject === '' ? nodeId || endpointId || 'the service' : subject,
    since: time(sinceMs ?? 0n),
    endpoint: orNull(endpointId),
    account: orNull(accountId),
    node: orNull(nodeId),
    message,
    runbook,
    actions,
    effects: effects.flatMap((effect) => {
      const shape = attentionShape(effect, cell);
      return shape === undefined ? [] : [shape];
    }),
    cell,
  };
}

function signatureShape({ name, parameters, classSpec }: FunctionSpec): object {
  const methods = classSpec?.methods.map((method) => ({ name: method.name, parameters: method.parameters.map(parameterShape) }));
  return { name, parameters: parameters.map(parameterShape), methods: methods ?? null };
}

function parameterShape({ name, required, type, schema, takesBody }: ParameterSpec): object {
  return { name, required, type: orNull(type), schema: schema ?? null, takesBody: takesBody ?? false };
}

export function keyShape(key: KeyInfo): object {
  return {
    id: key.id,
    name: key.name,
    prefix: key.prefix,
    scope: scopeName(key.scope),
    endpoints: key.endpointIds,
    environment: orNull(key.environment),
    createdAt: time(key.createdAtMs),
    expiresAt: time(key.expiresAtMs),
    lastUsedAt: time(key.lastUsedAtMs),
  };
}

export function accountShape({ id, createdAtMs, workerQuota, workersMax, endpoints, isolation, ...storage }: AccountInfo): object {
  const use = (used: bigint, quota: bigint): object => ({ used: Number(used), quota: Number(quota) });
  return {
    id,
    createdAt: time(createdAtMs),
    quota: { workers: workerQuota, used: workersMax },
    endpoints,
    storage: {
      builds: use(storage.buildBytes, storage.buildQuotaBytes),
      bodies: use(storage.bodyBytes, storage.bodyQuotaBytes),
    },
    isolation:
      isolation === undefined ? null : { ...isolation, runtimes: isolation.runtimes.length === 0 ? WORKER_RUNTIMES : isolation.runtimes },
  };
}

export function cellShape({ name, accounts, address }: CellInfo): object {
  return { name, accounts, address: orNull(address) };
}

export function logShape({ atMs, workerId, releaseId, jobId, attempt, stream, level, text, fields }: LogLine): object {
  const of = { worker: workerId, release: orNull(releaseId), job: orNull(jobId), attempt: attempt === 0 ? null : attempt };
  return { at: time(atMs), ...of, stream, level: orNull(level), text, fields: orNull(fields) };
}

function orNull(text: string): string | null {
  return text === '' ? null : text;
}

/** 0 means unknown, or never. */
export function time(ms: bigint): string | null {
  return ms === 0n ? null : new Date(Number(ms)).toISOString();
}
