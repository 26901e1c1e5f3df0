/** Deployments over gRPC: endpoints, environments, builds and rollbacks. */
import type { Metadata } from '@grpc/grpc-js';

import { CapstanError } from '../../lib/errors.ts';
import { sourceViolation, type SourceRevision } from '../../lib/source-revision.ts';
import { endpointNotFound } from '../../lib/job-errors.ts';
import {
  DeploymentCause,
  type BuildInfo,
  type ControlServiceServer,
  type DeploymentInfo,
  type DeployResponse,
  type EndpointInfo,
  type EndpointPatch,
  type EndpointSpec,
  type EnvironmentInfo,
  type ReleaseInfo,
} from '../../proto/gen/capstan/v1/control.ts';
import { checkDigest } from '../blobs/ids.ts';
import { buildNotFound, ownedBuild } from '../core/control/builds.ts';
import { withBuild } from '../core/control/deployments.ts';
import type { CommandResult } from '../core/effects.ts';
import { type State, liveEndpoints } from '../core/state.ts';
import { type DeploymentRow, environmentKey, type EnvironmentRow } from '../core/state/control-rows.ts';
import type { EndpointRecord } from '../core/state/endpoints.ts';
import { entryOf, settingsChange } from './audit.ts';
import { unary } from './calls.ts';
import type { ControlDeps } from './control-deps.ts';
import type { Cipher } from '../secrets/cipher.ts';
import { accountRow } from '../core/endpoints/quotas.ts';
import { startProgress } from '../core/scaling/trial-starts.ts';
import { checkEndpoint, checkEndpoints, checkName, encryptEnv, type CheckedEndpoint, type ValidationContext } from './deploy-rules.ts';
import { endpointInfo, endpointNamed, shownSpec, specOf, specOfInput } from './endpoint-info.ts';
import { keptMessage, keptNames, withPresent } from './kept-settings.ts';
import { openEnv } from './node-service.ts';

/** Shorter prefixes would soon match several builds. */
const SHORTEST_DIGEST = 6;

type DeployHandlers = Pick<
  ControlServiceServer,
  | 'deploy'
  | 'updateEndpoint'
  | 'startWorker'
  | 'undeploy'
  | 'rollback'
  | 'listEnvironments'
  | 'createEnvironment'
  | 'deleteEnvironment'
  | 'listBuilds'
  | 'listDeployments'
>;

export function deployHandlers(deps: ControlDeps): DeployHandlers {
  const { engine, auth, cipher, log, clock, buildSize } = deps;
  const call = <Request, Reply>(name: string, handler: (request: Request, metadata: Metadata) => Promise<Reply> | Reply) =>
    unary<Request, Reply>(log, name, handler);
  const info = (endpoint: EndpointRecord, created = false): EndpointInfo => endpointInfo(engine.state, clock.now(), endpoint, created);

  /** Returns the context that deployments are validated against. */
  function around(account: string, environment: string): ValidationContext {
    const { settings, nodes } = engine.state;
    const fleet = new Set<string>();
    for (const { facts } of nodes.values()) for (const { model } of facts?.devices ?? []) fleet.add(model);
    return { account, environment, gpus: settings.gpus, fleet, rules: accountRow(engine.state, account) };
  }

  /** With the values of its environment: must not be logged. */
  function specWithEnv(endpoint: EndpointRecord): EndpointSpec {
    const encrypted = engine.state.releases.get(endpoint.config.release)?.envSealed ?? null;
    return { ...specOf(engine.state, endpoint), env: encrypted === null ? {} : openEnv(cipher, endpoint.config, encrypted) };
  }

  /** The same for the audit log: a deployment also replaces an environment that no key reads, whose names are left out then. */
  function formerSpec(endpoint: EndpointRecord): EndpointSpec {
    try {
      return specWithEnv(endpoint);
    } catch (thrown) {
      if (!(thrown instanceof CapstanError) || thrown.code !== 'DATA_DIR') throw thrown;
      return specOf(engine.state, endpoint);
    }
  }

  function deployed(answer: CommandResult): DeployResponse {
    if (answer.kind !== 'deployed') throw new CapstanError('INTERNAL', 'unexpected reply type');
    const { state: image } = engine;
    const endpoints = answer.endpoints.flatMap(({ id, created }) => {
      const endpoint = image.endpoints.get(id);
      return endpoint === undefined ? [] : [info(endpoint, created)];
    });
    return { environment: answer.environment, endpoints };
  }

  return {
    deploy: call('Deploy', async ({ environment: requested, buildDigest, endpoints: specs, source, keep }, metadata) => {
      const account = auth.account(metadata);
      const environment = orDefault(requested);
      const declared = checkEndpoints(specs, around(account, environment));
      if (source !== undefined) checkSource(source);
      const keeping = keptNames(keep, specs);
      const built = declared.find(({ functions }) => functions.length > 0);
      if (buildDigest === '' && built !== undefined) {
        const message = `build_digest: is required, because endpoint ${built.name} runs functions of a build`;
        throw new CapstanError('INVALID_ARGUMENT', message, { field: 'build_digest' });
      }
      // Workers that bring their own program need no build.
      if (buildDigest !== '') {
        checkDigest(buildDigest);
        const owned = ownedBuild(engine.state, account, buildDigest) !== undefined;
        if (!owned || (await buildSize(buildDigest)) === null) throw buildNotFound(buildDigest);
        // The key may have been revoked in the meantime.
        auth.account(metadata);
      }
      const former = inside(engine.state, account, environment);
      const formerNamed = (name: string): EndpointRecord | undefined => former.find(({ config }) => config.name === name);
      const kept = keeping.flatMap(({ endpoint: name, ...names }) => {
        const known = formerNamed(name);
        return known === undefined
          ? []
          : [{ name, names, present: names.env.length === 0 ? specOf(engine.state, known) : specWithEnv(known) }];
      });
      const merged = specs.map((spec) =>
        withPresent(
          spec,
          kept.find(({ name }) => name === spec.name),
        ),
      );
      const checked = kept.length === 0 ? declared : checkEndpoints(merged, around(account, environment));
      const changes = checked.map((endpoint) => {
        const known = formerNamed(endpoint.name);
        return [endpoint.name, settingsChange(known === undefined ? null : formerSpec(known), wholeSpec(endpoint))] as const;
      });
      const audit = entryOf(auth, metadata, {
        ...{ action: 'deploy', object: environment, account },
        before: { endpoints: Object.fromEntries(changes.flatMap(([name, { before }]) => (before === null ? [] : [[name, before]]))) },
        after: {
          build: buildDigest.slice(0, 12),
          ...(source === undefined ? {} : { commit: source.commit }),
          endpoints: Object.fromEntries(changes.map(([name, { after }]) => [name, after])),
        },
      });
      const endpoints = checked.map((endpoint) => encryptEnv(endpoint, cipher, { account, environment }));
      const command = { kind: 'deploy', account, environment, build: buildDigest, endpoints, source } as const;
      return deployed(await engine.command({ ...command, kept: new Map(kept.map(({ name, names }) => [name, names])) }, audit));
    }),
    updateEndpoint: call('UpdateEndpoint', async ({ endpointId, patch }, metadata) => {
      const endpoint = endpointNamed(engine.state, auth.account(metadata), 'default', endpointId);
      const { account, environment, id } = endpoint.config;
      const release = engine.state.releases.get(endpoint.config.release);
      const encrypted = release?.envSealed ?? null;
      const former = specWithEnv(endpoint);
      const spec = patched(former, patch);
      const checked = checkEndpoint(spec, around(account, environment), patch?.env ?? {});
      // The same values encrypted again would be different bytes.
      const changed = encryptEnv(checked, cipher, { account, environment });
      const input = checked.envDigest === release?.envDigest ? { ...changed, envSealed: encrypted } : changed;
      const change = settingsChange(former, wholeSpec(checked));
      const audit = entryOf(auth, metadata, { action: 'updateEndpoint', object: `${environment}/${spec.name}`, account, ...change });
      const [updated] = deployed(await engine.command({ kind: 'update-endpoint', endpoint: id, input }, audit)).endpoints;
      if (updated === undefined) throw endpointNotFound(endpointId);
      return updated;
    }),
    startWorker: call('StartWorker', async ({ endpointId }, metadata) => {
      const { config } = endpointNamed(engine.state, auth.account(metadata), 'default', endpointId);
      await engine.command({ kind: 'start-worker', endpoint: config.id });
      const endpoint = engine.state.endpoints.get(config.id);
      if (endpoint === undefined) throw endpointNotFound(endpointId);
      const { stage, ...progress } = startProgress(engine.state, endpoint, clock.now());
      return { ...progress, phase: stage, releaseId: endpoint.config.release };
    }),
    undeploy: call('Undeploy', async ({ environment: requested, endpoints: wanted, stopJobs, all }, metadata) => {
      const account = auth.account(metadata);
      checkUndeploy(requested, wanted, all);
      const environment = orDefault(requested);
      mustBeEnvironment(engine.state, account, environment);
      const found =
        wanted.length > 0
          ? wanted.map((name) => endpointNamed(engine.state, account, environment, name))
          : inside(engine.state, account, environment);
      const endpoints = [...new Set(found)].map((endpoint) => info(endpoint));
      const audit = entryOf(auth, metadata, {
        ...{ action: 'deleteEndpoints', object: environment, account },
        before: { endpoints: found.map(({ config }) => config.name) },
        after: { stopJobs },
      });
      if (endpoints.length > 0)
        await engine.command({ kind: 'undeploy', account, endpoints: endpoints.map(({ id }) => id), stopJobs }, audit);
      return { endpoints };
    }),
    rollback: call('Rollback', async ({ environment: requested, endpoint: wanted, build: digest }, metadata) => {
      const account = auth.account(metadata);
      const environment = orDefault(requested);
      const { state: image } = engine;
      mustBeEnvironment(image, account, environment);
      const endpoint = wanted === '' ? null : endpointNamed(image, account, environment, wanted).config.id;
      const build = digest === '' ? null : wholeDigest(historyOf(image, account, environment), digest);
      const object = wanted === '' ? environment : `${environment}/${wanted}`;
      const audit = entryOf(auth, metadata, { action: 'rollback', object, account, after: { build: build?.slice(0, 12) ?? 'previous' } });
      return deployed(await engine.command({ kind: 'rollback', account, environment, endpoint, build }, audit));
    }),
    listEnvironments: call('ListEnvironments', (_request, metadata) => {
      const { account, all, sees } = auth.reader(metadata);
      const rows = [...engine.state.environments.values()].filter((row) => row.account === account);
      const seen = rows.filter(({ name }) => all || inside(engine.state, account, name).some(({ config }) => sees(config)));
      return { environments: seen.toSorted((a, b) => (a.name < b.name ? -1 : 1)).map((row) => environmentInfo(engine.state, row)) };
    }),
    createEnvironment: call('CreateEnvironment', async ({ name }, metadata) => {
      const account = auth.account(metadata);
      checkName('name', name);
      await engine.command(
        { kind: 'create-environment', account, environment: name },
        entryOf(auth, metadata, { action: 'createEnvironment', object: name, account }),
      );
      return environmentInfo(engine.state, mustBeEnvironment(engine.state, account, name));
    }),
    deleteEnvironment: call('DeleteEnvironment', async ({ name, force, stopJobs }, metadata) => {
      const account = auth.account(metadata);
      const endpoints = inside(engine.state, account, name).map((endpoint) => info(endpoint));
      const audit = entryOf(auth, metadata, {
        ...{ action: 'deleteEnvironment', object: name, account },
        before: { endpoints: endpoints.map(({ spec }) => spec?.name) },
        after: { force, stopJobs },
      });
      await engine.command({ kind: 'delete-environment', account, environment: name, force, stopJobs }, audit);
      return { endpoints };
    }),
    listBuilds: call('ListBuilds', ({ environment, endpoint: wanted }, metadata) => {
      const { account } = auth.wholeReader(metadata);
      const { state: image } = engine;
      const only = wanted === '' ? null : endpointNamed(image, account, orDefault(environment), wanted).config.id;
      const rows = [...image.environments.values()].filter(
        (row) => row.account === account && (environment === '' || row.name === environment),
      );
      const builds = rows.flatMap(({ name }) => buildInfos(image, account, name, only));
      return { builds: only === null ? builds : withSettings(builds, image, only, cipher) };
    }),
    listDeployments: call('ListDeployments', ({ environment: requested, limit }, metadata) => {
      const { account } = auth.wholeReader(metadata);
      const history = historyOf(engine.state, account, orDefault(requested)).toReversed();
      return { deployments: history.slice(0, limit === 0 ? 100 : Math.min(limit, 1_000)).map(deploymentInfo) };
    }),
  };
}

/** @throws CapstanError INVALID_ARGUMENT */
function checkSource(source: SourceRevision): void {
  const violation = sourceViolation(source);
  if (violation !== null) throw new CapstanError('INVALID_ARGUMENT', `${violation.field}: ${violation.rule}`, { field: violation.field });
}

/** The settings that an endpoint gets, those that its caller left out included. With the values of its environment: must not be logged. */
function wholeSpec(endpoint: CheckedEndpoint): EndpointSpec {
  return { ...specOfInput({ ...endpoint, envSealed: null }), env: JSON.parse(endpoint.env) as Record<string, string> };
}

function orDefault(environment: string): string {
  return environment === '' ? 'default' : environment;
}

function inside(state: State, account: string, environment: string): EndpointRecord[] {
  return liveEndpoints(state, account).filter(({ config }) => config.environment === environment);
}

function historyOf(state: State, account: string, environment: string): readonly DeploymentRow[] {
  return state.deployments.get(environmentKey(account, environment)) ?? [];
}

function mustBeEnvironment(state: State, account: string, name: string): EnvironmentRow {
  const row = state.environments.get(environmentKey(account, name));
  if (row === undefined)
    throw new CapstanError('NOT_FOUND', `environment ${JSON.stringify(name)} does not exist`, { field: 'environment' });
  return row;
}

/** Returns the one kept build whose digest has this prefix. */
function wholeDigest(history: readonly DeploymentRow[], prefix: string): string {
  if (!new RegExp(`^[0-9a-f]{${SHORTEST_DIGEST},64}$`).test(prefix))
    throw new CapstanError('INVALID_ARGUMENT', `build: must be ${SHORTEST_DIGEST} to 64 lower-case hex digits`, { field: 'build' });
  const all = new Set(history.flatMap(({ endpoints }) => endpoints.map(({ build }) => build)));
  const [digest, ...others] = [...all].filter((each) => each.startsWith(prefix));
  if (digest === undefined)
    throw new CapstanError('NOT_FOUND', `build: no kept build has a digest that begins with ${prefix}`, { field: 'build' });
  if (others.length > 0)
    throw new CapstanError('INVALID_ARGUMENT', `build: several builds have a digest that begins with ${prefix}; use more digits`, {
      field: 'build',
    });
  return digest;
}

function patched(spec: EndpointSpec, patch: EndpointPatch | undefined): EndpointSpec {
  if (patch === undefined) return spec;
  const { rateLimits, env, unsetEnv, ...settings } = patch;
  const present = Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined));
  const removed = new Set(unsetEnv);
  const kept = Object.entries(spec.env).filter(([name]) => !removed.has(name));
  return { ...spec, ...present, rateLimits: { ...spec.rateLimits, ...rateLimits }, env: { ...Object.fromEntries(kept), ...env } };
}

function environmentInfo(state: State, row: EnvironmentRow): EnvironmentInfo {
  const endpoints = inside(state, row.account, row.name);
  return {
    name: row.name,
    createdAtMs: BigInt(row.createdAt),
    endpoints: endpoints.length,
    workersMax: endpoints.reduce((sum, { config }) => sum + config.workersMax, 0),
    deployment: row.deployments,
  };
}

/** Returns the builds of an environment, newest first; with `only`, those of one endpoint. */
function buildInfos(state: State, account: string, environment: string, only: string | null): BuildInfo[] {
  const found = new Map<string, { at: number; endpoints: Set<string>; functions: Set<string>; release?: ReleaseInfo }>();
  for (const deployment of historyOf(state, account, environment)) {
    const { at } = deployment;
    for (const { id, build, input, source } of deployment.endpoints) {
      if (only !== null && id !== only) continue;
      const entry = found.get(build) ?? { at: 0, endpoints: new Set(), functions: new Set() };
      found.set(build, entry);
      entry.at = Math.max(entry.at, at);
      entry.release = { ...releaseInfo(deployment), source };
      entry.endpoints.add(input.name);
      for (const fn of input.functions) entry.functions.add(`${input.name}.${fn.name}`);
    }
  }
  const current = inside(state, account, environment);
  const infos = [...found].map(([digest, { at, endpoints, functions, release }]): BuildInfo => {
    const having = current.filter(({ config }) => state.releases.get(config.release)?.buildDigest === digest);
    return {
      digest,
      size: state.builds.get(digest)?.size ?? 0,
      environment,
      deployedAtMs: BigInt(at),
      endpoints: [...endpoints].toSorted(),
      current: having.map(({ config }) => config.name).toSorted(),
      functions: [...functions].toSorted(),
      release,
    };
  });
  return infos.toSorted((a, b) => Number(b.deployedAtMs - a.deployedAtMs));
}

/** Adds what a return to each build of the endpoint restores, and which environment values that changes. */
function withSettings(builds: readonly BuildInfo[], state: State, id: string, cipher: Cipher): BuildInfo[] {
  const endpoint = state.endpoints.get(id);
  if (endpoint === undefined) return [...builds];
  const { config } = endpoint;
  const values = (encrypted: string | null | undefined): Record<string, string> =>
    encrypted == null ? {} : openEnv(cipher, config, encrypted);
  const present = values(state.releases.get(config.release)?.envSealed);
  const history = historyOf(state, config.account, config.environment);
  return builds.map((build): BuildInfo => {
    const { input, kept } = withBuild(history, id, build.digest) ?? {};
    if (input === undefined) return build;
    const env = values(input.envSealed);
    const envNames = Object.keys(env).toSorted();
    const envChanged = envNames.filter((name) => present[name] !== undefined && present[name] !== env[name]);
    return { ...build, settings: { spec: shownSpec(state, specOfInput(input)), envNames, envChanged, ...keptMessage(kept) } };
  });
}

function releaseInfo({ number, cause, key = '', keyName = '' }: DeploymentRow): ReleaseInfo {
  return { number, cause: cause === 'DEPLOY' ? DeploymentCause.DEPLOY : DeploymentCause.ROLLBACK, key, keyName };
}

function deploymentInfo(deployment: DeploymentRow): DeploymentInfo {
  const { environment, at, endpoints } = deployment;
  return {
    ...releaseInfo(deployment),
    environment,
    atMs: BigInt(at),
    endpoints: endpoints.map(({ id, build, input, source }) => ({ endpointId: id, name: input.name, buildDigest: build, source })),
  };
}

/** Refuses a request that names nothing. */
function checkUndeploy(environment: string, endpoints: readonly string[], all: boolean): void {
  if (all) {
    if (environment === '')
      throw new CapstanError('INVALID_ARGUMENT', 'environment: is required to delete all of its endpoints', { field: 'environment' });
    if (endpoints.length > 0)
      throw new CapstanError('INVALID_ARGUMENT', 'endpoints: must be empty when all endpoints are deleted', { field: 'endpoints' });
  } else if (endpoints.length === 0 || endpoints.includes(''))
    throw new CapstanError('INVALID_ARGUMENT', 'endpoints: must have at least one id or name', { field: 'endpoints' });
}
