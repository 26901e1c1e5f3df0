/** Converts the scheduler's replies into the shapes of the schema. */
import { inputExample, parameterExample } from '../../lib/schema-examples.ts';
import { DEFAULT_VALUES, valuesOf } from '../../lib/endpoint-settings.ts';
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
  type ReleaseInfo,
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
import type * as Schema from './gen/schema.ts';
import { knownName, nameOf, orNull, time, timeOrNull } from './message-values.ts';
import { nodeFigures } from './node-figures.ts';

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
export function endpointShape(info: EndpointInfo, addresses: Addresses, detail: () => Promise<GetEndpointResponse>): Schema.Endpoint {
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
    // Read only when it is asked for: a schema has up to 64 KiB.
    get exampleInput() {
      return exampleInputOf(spec?.functions[0]);
    },
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

function settingsShape(spec: EndpointSpec | undefined): Schema.Settings {
  return spec === undefined ? { ...DEFAULT_VALUES, rateLimits: {} } : { ...valuesOf(spec), rateLimits: spec.rateLimits };
}

function scalingShape(detail: GetEndpointResponse): Schema.Scaling {
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
export function environmentShape(info: EnvironmentInfo, endpoints: () => Promise<readonly Schema.Endpoint[]>): Schema.Environment {
  const { name, createdAtMs, workersMax, deployment } = info;
  return { name, createdAt: timeOrNull(createdAtMs), workersMax, deployment, endpoints };
}

export function buildShape({ deployedAtMs, settings, release, ...build }: BuildInfo): Schema.Build {
  return {
    ...build,
    deployedAt: time(deployedAtMs),
    settings: settings === undefined ? null : releasedShape(settings),
    release: releaseShape(release),
  };
}

/** A scheduler of an earlier version sends none. */
function releaseShape(release: ReleaseInfo | undefined): Schema.Release {
  const { number = 0, cause, key = '', keyName = '', source } = release ?? {};
  return { number, cause: causeShape(cause), key: orNull(key), keyName: orNull(keyName), source: source ?? null };
}

function causeShape(cause: DeploymentCause | undefined): Schema.Cause {
  return cause === DeploymentCause.ROLLBACK ? 'ROLLBACK' : 'DEPLOY';
}

function releasedShape({ spec, ...names }: ReleasedSettings): Schema.ReleasedSettings {
  return { ...names, settings: settingsShape(spec), routes: routeShapes(spec) };
}

function routeShapes(spec: EndpointSpec | undefined): Schema.Route[] {
  return Object.entries(spec?.routes ?? {}).map(([route, fn]) => {
    const [method = '', path = ''] = route.split(' ');
    return { method, path, function: fn };
  });
}

export function deploymentShape({ number, environment, atMs, cause, key, keyName, endpoints }: DeploymentInfo): Schema.Deployment {
  return {
    number,
    environment,
    at: time(atMs),
    cause: causeShape(cause),
    key: orNull(key),
    keyName: orNull(keyName),
    endpoints: endpoints.map(({ endpointId, name, buildDigest, source }) => ({
      id: endpointId,
      name,
      build: buildDigest,
      source: source ?? null,
    })),
  };
}

export function workerShape({ status, nodeId, jobs, maxConcurrency, decision, runtime }: WorkerInfo): Schema.Worker {
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

export function nodeShape(node: NodeInfo, cell: string): Schema.Node {
  const { packages, devices, deviceProblem, ...figures } = nodeFigures(node);
  return {
    ...figures,
    cell,
    packages: Object.keys(packages),
    packageVersions: packages,
    images: node.inventory?.images ?? [],
    devices: devices.map((device) => ({ ...device, problem: orNull(device.problem) })),
    deviceProblem: orNull(deviceProblem),
  };
}

export function machineTypeShape({ memoryBytes, devices, ...type }: MachineType): Schema.MachineType {
  return {
    ...type,
    memoryBytes: Number(memoryBytes),
    packages: Object.keys(type.packages),
    packageVersions: type.packages,
    devices: devices.map((device) => ({ ...device, memoryBytes: Number(device.memoryBytes) })),
  };
}

export function joinTokenShape({ id, name, createdAtMs, expiresAtMs, maxUses, uses }: JoinTokenInfo, cell: string): Schema.JoinToken {
  return {
    id,
    cell,
    name,
    createdAt: timeOrNull(createdAtMs),
    expiresAt: timeOrNull(expiresAtMs),
    maxUses: maxUses === 0 ? null : maxUses,
    uses,
  };
}

export function webhookShape({ id, endpointId, url, state, tries, dueAtMs, error }: WebhookInfo): Schema.Webhook {
  const failed = state === WebhookState.FAILED;
  return { id, endpoint: endpointId, url, state: failed ? 'FAILED' : 'PENDING', tries, dueAt: timeOrNull(dueAtMs), error: orNull(error) };
}

/** Returns undefined for an item of a kind that only a newer scheduler knows. */
export function attentionShape(item: AttentionItem, cell: string): Schema.AttentionItem | undefined {
  const { kind, sinceMs, endpointId, accountId, nodeId, message, runbook } = item;
  const known = knownName(AttentionKind, kind);
  if (known === undefined) return undefined;
  const { key, severity, subject, actions, effects } = item;
  return {
    key: key === '' ? `${known} ${nodeId || endpointId || accountId} ${message}` : key,
    kind: known,
    severity: severity === AttentionSeverity.CRITICAL ? 'CRITICAL' : 'WARNING',
    // Schedulers of earlier versions name none.
    subject: subject === '' ? nodeId || endpointId || 'the service' : subject,
    since: timeOrNull(sinceMs ?? 0n),
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

/** Of a class with several methods: an input of the first. */
function exampleInputOf(fn: FunctionSpec | undefined): unknown {
  const [first, ...others] = fn?.classSpec?.methods ?? [];
  const parameters = first?.parameters ?? fn?.parameters ?? [];
  const [only] = parameters;
  if (only === undefined) return first === undefined ? null : { method: first.name };
  const input = only.takesBody === true && parameters.length === 1 ? parameterExample(only) : inputExample(parameters);
  return others.length > 0 && first !== undefined ? { method: first.name, ...(input as object) } : input;
}

function signatureShape({ name, parameters, classSpec }: FunctionSpec): Schema.Signature {
  const methods = classSpec?.methods.map((method) => ({ name: method.name, parameters: method.parameters.map(parameterShape) }));
  return { name, parameters: parameters.map(parameterShape), methods: methods ?? null };
}

function parameterShape({ name, required, type, schema, takesBody }: ParameterSpec): Schema.Parameter {
  return { name, required, type: orNull(type), schema: schema ?? null, takesBody: takesBody ?? false };
}

export function keyShape(key: KeyInfo): Schema.ApiKey {
  return {
    id: key.id,
    name: key.name,
    prefix: key.prefix,
    scope: nameOf(KeyScope, key.scope),
    endpoints: key.endpointIds,
    environment: orNull(key.environment),
    createdAt: timeOrNull(key.createdAtMs),
    expiresAt: timeOrNull(key.expiresAtMs),
    lastUsedAt: timeOrNull(key.lastUsedAtMs),
  };
}

export function accountShape(
  { id, createdAtMs, workerQuota, workersMax, endpoints, isolation, ...storage }: AccountInfo,
  cell: string,
): Schema.Account {
  const use = (used: bigint, quota: bigint): Schema.StorageUse => ({ used: Number(used), quota: Number(quota) });
  return {
    id,
    cell,
    createdAt: timeOrNull(createdAtMs),
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

export function cellShape({ name, accounts, address }: CellInfo): Schema.Cell {
  return { name, accounts, address: orNull(address) };
}

export function logShape({ atMs, workerId, releaseId, jobId, attempt, stream, level, text, fields }: LogLine): Schema.LogLine {
  const of = { worker: workerId, release: orNull(releaseId), job: orNull(jobId), attempt: attempt === 0 ? null : attempt };
  return { at: time(atMs), ...of, stream, level: orNull(level), text, fields: orNull(fields) };
}
