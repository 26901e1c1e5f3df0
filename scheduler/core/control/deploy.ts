/** Deployments: create or update endpoints, all or none, from a manifest or from an earlier deployment. */
import { ENDPOINT_ID, ENDPOINT_ID_LENGTH, NOT_AN_ID_RULE } from '../../../lib/endpoint-names.ts';
import { fieldsKeptIn } from '../../../lib/endpoint-settings.ts';
import { CapstanError } from '../../../lib/errors.ts';
import { invariant, present } from '../../../lib/invariant.ts';
import { endpointNotFound } from '../../../lib/job-errors.ts';
import type { EndpointEntry } from '../../../proto/gen/capstan/v1/control.ts';

import type { StepContext } from '../context.ts';
import { buildNotFound, ownedBuild } from './builds.ts';
import { ensureEnvironment, latestOf, previousOf, record, sweepBuilds, withBuild } from './deployments.ts';
import {
  type EndpointConfig,
  type EndpointInput,
  endpointNameKey,
  type EndpointRecord,
  newEndpointRecord,
  newStarts,
  type Release,
} from '../state/endpoints.ts';
import { emptyUpdate, endpointEntry } from '../fleet/directory.ts';
import type { SourceRevision } from '../../../lib/source-revision.ts';
import type { Write } from '../effects.ts';
import type { Command } from '../events.ts';
import { type State, liveEndpoints } from '../state.ts';
import { type BuildRow, type DeployedInput, environmentKey, type KeptNames } from '../state/control-rows.ts';
import { quotaOf } from '../endpoints/quotas.ts';
import { secretVersions } from '../endpoints/secret-use.ts';
import { randomName } from '../random.ts';
import { keepCapacity } from '../endpoints/releases.ts';
import { putRow } from '../rows.ts';

type Deploy = Extract<Command, { kind: 'deploy' }>;
type Rollback = Extract<Command, { kind: 'rollback' }>;

/** One endpoint to create or update, and its build. */
interface Change {
  readonly input: EndpointInput;
  readonly build: BuildRow;
  readonly source?: SourceRevision | undefined;
  readonly kept?: KeptNames | undefined;
}

/** The build of workers that bring their own program. */
const noBuild: BuildRow = { digest: '', size: 0, createdAt: 0, owners: [] };

/** Creates or updates one endpoint per resource. Refuses the whole deployment if it would exceed the quota. */
export function deploy(ctx: StepContext, call: number, command: Deploy): void {
  const { account, environment } = command;
  const build = command.build === '' ? noBuild : ownedBuild(ctx.state, account, command.build);
  if (build === undefined) {
    ctx.reply(call, buildNotFound(command.build));
    return;
  }
  const changes = command.endpoints.map((input) => ({ input, build, source: command.source, kept: command.kept?.get(input.name) }));
  const refusal = nameTaken(ctx.state, command) ?? overQuota(ctx.state, { account, environment }, changes, 'deploys');
  if (refusal !== null) {
    ctx.reply(call, refusal);
    return;
  }
  apply(ctx, call, { account, environment, cause: 'DEPLOY', changes });
}

/** Deploys the settings and builds of an earlier deployment again. Endpoints deleted since then stay deleted. */
export function rollback(ctx: StepContext, call: number, command: Rollback): void {
  const { account, environment, endpoint: only, build } = command;
  const found = targets(ctx.state, command);
  const live = found.filter(({ id }) => ctx.state.endpoints.get(id)?.config.removing === undefined && ctx.state.endpoints.has(id));
  if (live.length === 0) {
    const whose = only === null ? `environment ${environment}` : `endpoint ${ctx.state.endpoints.get(only)?.config.name ?? only}`;
    const error =
      build === null
        ? new CapstanError('CONFLICT', `${whose} has no previous build`)
        : new CapstanError('NOT_FOUND', `${whose} has no kept deployment with the build ${build.slice(0, 12)}`, { field: 'build' });
    ctx.reply(call, error);
    return;
  }
  const changes = live.flatMap(({ input, build: digest, source, kept }) => {
    const row = digest === '' ? noBuild : ctx.state.builds.get(digest);
    return row === undefined ? [] : [{ input, build: row, source, kept }];
  });
  const refusal = overQuota(ctx.state, { account, environment }, changes, 'stays');
  if (refusal !== null) ctx.reply(call, refusal);
  else apply(ctx, call, { account, environment, cause: 'ROLLBACK', changes });
}

/** Changes settings of one endpoint, which keeps its build. */
export function updateEndpoint(ctx: StepContext, call: number, id: string, input: EndpointInput): void {
  const endpoint = ctx.state.endpoints.get(id);
  const release = endpoint === undefined ? undefined : ctx.state.releases.get(endpoint.config.release);
  if (endpoint === undefined || release === undefined || endpoint.config.removing !== undefined) {
    ctx.reply(call, endpointNotFound(id));
    return;
  }
  const { account, environment } = endpoint.config;
  const build = { ...noBuild, digest: release.buildDigest, size: release.buildSize };
  const refusal = overQuota(ctx.state, { account, environment }, [{ input, build }], 'stays');
  if (refusal !== null) {
    ctx.reply(call, refusal);
    return;
  }
  const { config, write } = putEndpoint(ctx, account, environment, { input, build });
  ctx.emit({ kind: 'directory', update: { ...emptyUpdate(), endpoints: [endpointEntry(ctx.state, config)] } }, write);
  ctx.reply(call, { kind: 'deployed', environment, endpoints: [{ id, created: false }] }, write);
}

function apply(
  ctx: StepContext,
  call: number,
  what: { account: string; environment: string; cause: 'DEPLOY' | 'ROLLBACK'; changes: readonly Change[] },
): void {
  const { account, environment, cause, changes } = what;
  const answers: { id: string; created: boolean }[] = [];
  const entries: EndpointEntry[] = [];
  const deployed: DeployedInput[] = [];
  ensureEnvironment(ctx, account, environment, ctx.now.wall);
  for (const change of changes) {
    const { config, created } = putEndpoint(ctx, account, environment, change);
    answers.push({ id: config.id, created });
    entries.push(endpointEntry(ctx.state, config));
    const { input, build, source, kept } = change;
    const facts = { ...(source === undefined ? {} : { source }), ...(kept === undefined ? {} : { kept }) };
    deployed.push({ id: config.id, build: build.digest, input, ...facts });
  }
  const write = record(ctx, { account, environment, at: ctx.now.wall, cause, ...ctx.author, endpoints: deployed });
  sweepBuilds(ctx);
  ctx.emit({ kind: 'directory', update: { ...emptyUpdate(), endpoints: entries } }, write);
  ctx.reply(call, { kind: 'deployed', environment, endpoints: answers }, write);
}

function putEndpoint(
  ctx: StepContext,
  account: string,
  environment: string,
  change: Change,
): { readonly config: EndpointConfig; readonly created: boolean; readonly write: Write } {
  const { name, kind, routes, limits, scalerType } = change.input;
  const settings = { ...fieldsKeptIn('endpoint', change.input), scalerType, name, kind, routes, limits };
  const nameKey = endpointNameKey(account, environment, name);
  const knownId = ctx.state.endpointsByName.get(nameKey);
  const known =
    knownId === undefined ? undefined : present(ctx.state.endpoints.get(knownId), 'a name leads to an endpoint', { endpoint: knownId });
  invariant(known?.config.removing === undefined, 'an endpoint that is removed has no name', { endpoint: knownId });
  const id = knownId ?? freshEndpointId(ctx.state);
  const release = releaseFor(ctx, { id, account, environment }, known?.config ?? null, change);
  const config: EndpointConfig = { ...settings, id, account, environment, release, ...boundary(ctx.state, known?.config ?? null, release) };
  if (known === undefined) {
    ctx.state.endpoints.set(id, newEndpointRecord(config));
    ctx.state.endpointsByName.set(nameKey, id);
  } else {
    const replaced = release !== known.config.release;
    known.config = config;
    if (replaced) replaceWorkers(ctx, known, `release ${release} is deployed`);
  }
  ctx.state.dirtyEndpoints.add(id);
  return { config, created: known === undefined, write: putRow(ctx, 'endpoint', id, config) };
}

/** Gives an endpoint a release with the same settings and the present secrets, where these have changed. */
export function renewRelease(ctx: StepContext, endpoint: EndpointRecord, reason: string): Write | null {
  const known = ctx.state.releases.get(endpoint.config.release);
  if (known === undefined) return null;
  const secrets = secretVersions(ctx.state, endpoint.config, Object.keys(known.secrets ?? {}));
  if (JSON.stringify(secrets) === JSON.stringify(known.secrets)) return null;
  const release: Release = { ...known, secrets, id: randomName(ctx.state.random, 14) };
  ctx.state.releases.set(release.id, release);
  putRow(ctx, 'release', release.id, release);
  const config = { ...endpoint.config, release: release.id, ...boundary(ctx.state, endpoint.config, release.id) };
  endpoint.config = config;
  replaceWorkers(ctx, endpoint, reason);
  ctx.state.dirtyEndpoints.add(config.id);
  const write = putRow(ctx, 'endpoint', config.id, config);
  ctx.emit({ kind: 'directory', update: { ...emptyUpdate(), endpoints: [endpointEntry(ctx.state, config)] } }, write);
  return write;
}

/** The endpoint has a new release: its starts count anew, and as many workers of it are requested as there are. */
function replaceWorkers(ctx: StepContext, endpoint: EndpointRecord, reason: string): void {
  endpoint.starts = newStarts();
  keepCapacity(ctx.state, ctx.now, endpoint, reason);
}

/**
 * Returns the error for a new endpoint whose name is or could become the id of one: URLs hold either, and an id comes
 * first. Endpoints that already have such a name keep it, and are reached by their id.
 */
function nameTaken(state: State, { account, environment, endpoints }: Deploy): CapstanError | null {
  for (const { name } of endpoints) {
    if (state.endpointsByName.has(endpointNameKey(account, environment, name))) continue;
    if (!ENDPOINT_ID.test(name) && state.endpoints.get(name)?.config.account !== account) continue;
    return new CapstanError('INVALID_ARGUMENT', `endpoints.name: ${JSON.stringify(name)} ${NOT_AN_ID_RULE}; nothing was changed`, {
      field: 'endpoints.name',
    });
  }
  return null;
}

/** Returns the endpoints to roll back, each with its target. */
function targets(state: State, { account, environment, endpoint, build }: Rollback): DeployedInput[] {
  const history = state.deployments.get(environmentKey(account, environment)) ?? [];
  const currentBuild = (id: string): string => state.releases.get(state.endpoints.get(id)?.config.release ?? '')?.buildDigest ?? '';
  if (build !== null) {
    const ids = endpoint === null ? [...new Set(history.flatMap(({ endpoints }) => endpoints.map(({ id }) => id)))] : [endpoint];
    return ids.flatMap((id) => withBuild(history, id, build) ?? []);
  }
  const ids = endpoint === null ? (history.at(-1)?.endpoints ?? []).map(({ id }) => id) : [endpoint];
  return ids.flatMap((id) => (latestOf(history, id) === null ? [] : (previousOf(history, id, currentBuild(id)) ?? [])));
}

/**
 * Returns the error for changes that exceed the quota. `stays` requests no more workers than present: after the quota
 * was lowered an endpoint may keep its maxima, so that a setting can be fixed or a build rolled back.
 */
function overQuota(
  state: State,
  { account, environment }: { readonly account: string; readonly environment: string },
  changes: readonly Change[],
  kind: 'deploys' | 'stays',
): CapstanError | null {
  const changed = new Map(changes.map(({ input }) => [input.name, input.workersMax]));
  let others = 0;
  let present = 0;
  for (const { config } of liveEndpoints(state, account)) {
    if (config.environment !== environment || !changed.has(config.name)) others += config.workersMax;
    present += config.workersMax;
  }
  let sum = others;
  for (const workersMax of changed.values()) sum += workersMax;
  const quota = quotaOf(state, account);
  // A lowered quota must not prevent a decrease towards it.
  if (sum <= quota || sum < present || (kind === 'stays' && sum === present)) return null;
  const requested = [...changed].map(([name, workersMax]) => `${name} ${workersMax}`).join(', ');
  return new CapstanError(
    'QUOTA_EXCEEDED',
    `workersMax: the sum over all endpoints would be ${sum}, the account's quota is ${quota} (other endpoints: ${others}; requested: ${requested}); nothing was changed. An operator raises it with: capstan account set ${account} --workers ${sum}`,
    { field: 'workersMax' },
  );
}

/** Returns the present release if no setting that workers depend on changed, otherwise a new one. */
function releaseFor(
  ctx: StepContext,
  owner: Pick<EndpointConfig, 'id' | 'account' | 'environment'>,
  present: EndpointConfig | null,
  { input, build }: Change,
): string {
  const secrets = secretVersions(ctx.state, owner, input.secretNames);
  const wanted = {
    endpoint: owner.id,
    buildDigest: build.digest,
    buildSize: build.size,
    functions: input.functions,
    ...fieldsKeptIn('release', input),
    envSealed: input.envSealed,
    envDigest: input.envDigest,
    ...(secrets === undefined ? {} : { secrets }),
  };
  const known = present === null ? undefined : ctx.state.releases.get(present.release);
  if (present !== null && known !== undefined && sameRelease(known, wanted)) return known.id;
  const release: Release = { id: randomName(ctx.state.random, 14), ...wanted };
  ctx.state.releases.set(release.id, release);
  putRow(ctx, 'release', release.id, release);
  return release.id;
}

/** Encrypted values differ at each encryption, so their digest is compared. */
function sameRelease(a: Omit<Release, 'id'>, b: Omit<Release, 'id'>): boolean {
  const facts = (release: Omit<Release, 'id'>): string => {
    const { endpoint, buildDigest, functions, envDigest, secrets } = release;
    return JSON.stringify([endpoint, buildDigest, functions, envDigest, secrets, fieldsKeptIn('release', release)]);
  };
  return facts(a) === facts(b);
}

/** Returns the queue position from which jobs run on the present release, and the previous release. */
function boundary(state: State, present: EndpointConfig | null, release: string): Pick<EndpointConfig, 'previousRelease' | 'releaseFrom'> {
  if (present === null) return { previousRelease: null, releaseFrom: 0 };
  if (present.release === release) return { previousRelease: present.previousRelease, releaseFrom: present.releaseFrom };
  return { previousRelease: present.release, releaseFrom: state.nextQueuePosition };
}

function freshEndpointId(state: State): string {
  for (;;) {
    const id = randomName(state.random, ENDPOINT_ID_LENGTH);
    if (ENDPOINT_ID.test(id) && !state.endpoints.has(id)) return id;
  }
}
