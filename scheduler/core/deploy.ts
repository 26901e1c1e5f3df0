/** Deployments: endpoints are created or updated, all of them or none, from a manifest or from an earlier deployment. */
import { CapstanError } from '../../proto/errors.ts';
import type { EndpointEntry } from '../../proto/gen/capstan/v1/control.ts';

import { buildNotFound, ownedBuild } from './builds.ts';
import { ensureEnvironment, latestOf, previousOf, record, sweepBuilds, withBuild } from './deployments.ts';
import { type EndpointConfig, type EndpointInput, endpointNameKey, newEndpointRecord, newStarts, type Release } from './image/endpoints.ts';
import { emptyUpdate, endpointEntry } from './directory.ts';
import type { StepResult, Write } from './effects.ts';
import type { Command } from './events.ts';
import { type State, liveEndpoints } from './image.ts';
import { type BuildRow, type DeployedInput, environmentKey } from './image/control-rows.ts';
import type { Now } from './now.ts';
import { quotaOf } from './keys.ts';
import { randomName } from './random.ts';
import { keepCapacity } from './rollout.ts';
import { putRow } from './rows.ts';

type Deploy = Extract<Command, { kind: 'deploy' }>;
type Rollback = Extract<Command, { kind: 'rollback' }>;

/** One endpoint to create or update, and the build it gets. */
interface Change {
  readonly input: EndpointInput;
  readonly build: BuildRow;
}

/** Of workers that bring their own program. */
const noBuild: BuildRow = { digest: '', size: 0, createdAt: 0, owners: [] };

/** Creates or updates one endpoint per resource. Refuses the whole when the quota would be passed. */
export function deploy(image: State, out: StepResult, now: Now, call: number, command: Deploy): void {
  const { account, environment } = command;
  const build = command.build === '' ? noBuild : ownedBuild(image, account, command.build);
  if (build === undefined) {
    out.do({ kind: 'answer', call, result: buildNotFound(command.build) });
    return;
  }
  const changes = command.endpoints.map((input) => ({ input, build }));
  const refusal = overQuota(image, account, environment, changes, 'deploys');
  if (refusal !== null) {
    out.do({ kind: 'answer', call, result: refusal });
    return;
  }
  apply(image, out, now, call, { account, environment, cause: 'DEPLOY', changes });
}

/** Deploys what an earlier deployment gave the endpoints once more. Those deleted since stay deleted. */
export function rollback(image: State, out: StepResult, now: Now, call: number, command: Rollback): void {
  const { account, environment, endpoint: only, build } = command;
  const found = targets(image, command);
  const live = found.filter(({ id }) => image.endpoints.get(id)?.config.removing === undefined && image.endpoints.has(id));
  if (live.length === 0) {
    const whose = only === null ? `environment ${environment}` : `endpoint ${image.endpoints.get(only)?.config.name ?? only}`;
    const error =
      build === null
        ? new CapstanError('CONFLICT', `${whose} has no earlier build to go back to`)
        : new CapstanError('NOT_FOUND', `${whose} has no kept deployment of the build ${build.slice(0, 12)}`, { field: 'build' });
    out.do({ kind: 'answer', call, result: error });
    return;
  }
  const changes = live.flatMap(({ input, build: digest }) => {
    const row = digest === '' ? noBuild : image.builds.get(digest);
    return row === undefined ? [] : [{ input, build: row }];
  });
  const refusal = overQuota(image, account, environment, changes, 'stays');
  if (refusal !== null) out.do({ kind: 'answer', call, result: refusal });
  else apply(image, out, now, call, { account, environment, cause: 'ROLLBACK', changes });
}

/** Changes settings of one endpoint; it keeps its build. */
export function updateEndpoint(image: State, out: StepResult, now: Now, call: number, id: string, input: EndpointInput): void {
  const endpoint = image.endpoints.get(id);
  const release = endpoint === undefined ? undefined : image.releases.get(endpoint.config.release);
  if (endpoint === undefined || release === undefined || endpoint.config.removing !== undefined) {
    out.do({ kind: 'answer', call, result: new CapstanError('NOT_FOUND', `endpoint ${id} not found`) });
    return;
  }
  const { account, environment } = endpoint.config;
  const build = { ...noBuild, digest: release.buildDigest, size: release.buildSize };
  const refusal = overQuota(image, account, environment, [{ input, build }], 'stays');
  if (refusal !== null) {
    out.do({ kind: 'answer', call, result: refusal });
    return;
  }
  const { config, write } = putEndpoint(image, out, now, account, environment, { input, build });
  out.do({ kind: 'directory', update: { ...emptyUpdate(), endpoints: [endpointEntry(image, config)] } }, write);
  out.do({ kind: 'answer', call, result: { kind: 'deployed', environment, endpoints: [{ id, created: false }] } }, write);
}

function apply(
  image: State,
  out: StepResult,
  now: Now,
  call: number,
  what: { account: string; environment: string; cause: 'DEPLOY' | 'ROLLBACK'; changes: readonly Change[] },
): void {
  const { account, environment, cause, changes } = what;
  const answers: { id: string; created: boolean }[] = [];
  const entries: EndpointEntry[] = [];
  const deployed: DeployedInput[] = [];
  ensureEnvironment(image, out, account, environment, now.wall);
  for (const change of changes) {
    const { config, created } = putEndpoint(image, out, now, account, environment, change);
    answers.push({ id: config.id, created });
    entries.push(endpointEntry(image, config));
    deployed.push({ id: config.id, build: change.build.digest, input: change.input });
  }
  const write = record(image, out, { account, environment, at: now.wall, cause, endpoints: deployed });
  sweepBuilds(image, out, now);
  out.do({ kind: 'directory', update: { ...emptyUpdate(), endpoints: entries } }, write);
  out.do({ kind: 'answer', call, result: { kind: 'deployed', environment, endpoints: answers } }, write);
}

function putEndpoint(
  image: State,
  out: StepResult,
  now: Now,
  account: string,
  environment: string,
  change: Change,
): { readonly config: EndpointConfig; readonly created: boolean; readonly write: Write } {
  const { functions: _functions, command: _command, packages: _packages, python: _python, runtime: _runtime, ...more } = change.input;
  const { envSealed: _sealed, envDigest: _digest, ...settings } = more;
  const nameKey = endpointNameKey(account, environment, settings.name);
  const known = image.endpoints.get(image.endpointsByName.get(nameKey) ?? '');
  const id = known?.config.id ?? freshEndpointId(image);
  const release = releaseFor(image, out, id, known?.config ?? null, change);
  const config: EndpointConfig = { ...settings, id, account, environment, release, ...boundary(image, known?.config ?? null, release) };
  if (known === undefined) {
    image.endpoints.set(id, newEndpointRecord(config));
    image.endpointsByName.set(nameKey, id);
  } else {
    const replaced = release !== known.config.release;
    known.config = config;
    if (replaced) {
      known.starts = newStarts();
      keepCapacity(image, now, known, `release ${release} is deployed`);
    }
  }
  image.dirtyEndpoints.add(id);
  return { config, created: known === undefined, write: putRow(image, out, 'endpoint', id, config) };
}

/** Which endpoints go back to what. */
function targets(image: State, { account, environment, endpoint, build }: Rollback): DeployedInput[] {
  const history = image.deployments.get(environmentKey(account, environment)) ?? [];
  const currentBuild = (id: string): string => image.releases.get(image.endpoints.get(id)?.config.release ?? '')?.buildDigest ?? '';
  if (build !== null) {
    const ids = endpoint === null ? [...new Set(history.flatMap(({ endpoints }) => endpoints.map(({ id }) => id)))] : [endpoint];
    return ids.flatMap((id) => withBuild(history, id, build) ?? []);
  }
  const ids = endpoint === null ? (history.at(-1)?.endpoints ?? []).map(({ id }) => id) : [endpoint];
  return ids.flatMap((id) => (latestOf(history, id) === null ? [] : (previousOf(history, id, currentBuild(id)) ?? [])));
}

/**
 * The refusal of changes that the quota does not allow. What `stays` asks for no more than there is already: under a quota
 * that was lowered it may keep its maxima, so that a setting can be mended or a build taken back.
 */
function overQuota(
  image: State,
  account: string,
  environment: string,
  changes: readonly Change[],
  kind: 'deploys' | 'stays',
): CapstanError | null {
  const changed = new Map(changes.map(({ input }) => [input.name, input.workersMax]));
  let others = 0;
  let present = 0;
  for (const { config } of liveEndpoints(image, account)) {
    if (config.environment !== environment || !changed.has(config.name)) others += config.workersMax;
    present += config.workersMax;
  }
  let sum = others;
  for (const workersMax of changed.values()) sum += workersMax;
  const quota = quotaOf(image, account);
  // A quota that was lowered must not keep anybody from going down towards it.
  if (sum <= quota || sum < present || (kind === 'stays' && sum === present)) return null;
  const asked = [...changed].map(([name, workersMax]) => `${name} ${workersMax}`).join(', ');
  return new CapstanError(
    'QUOTA_EXCEEDED',
    `workersMax: the sum over all endpoints would be ${sum}, the account's quota is ${quota} (other endpoints have ${others}; asked for: ${asked}); nothing was changed`,
    { field: 'workersMax' },
  );
}

/** The present release when nothing a worker depends on changed, else a new one. */
function releaseFor(image: State, out: StepResult, endpoint: string, present: EndpointConfig | null, { input, build }: Change): string {
  const wanted = {
    endpoint,
    buildDigest: build.digest,
    buildSize: build.size,
    runtime: input.runtime,
    functions: input.functions,
    imageName: input.imageName,
    command: input.command,
    packages: input.packages,
    python: input.python,
    gpuIds: input.gpuIds,
    gpuCount: input.gpuCount,
    cpu: input.cpu,
    envSealed: input.envSealed,
    envDigest: input.envDigest,
    maxConcurrency: input.maxConcurrency,
  };
  const known = present === null ? undefined : image.releases.get(present.release);
  if (present !== null && known !== undefined && sameRelease(known, wanted)) return known.id;
  const release: Release = { id: randomName(image.random, 14), ...wanted };
  image.releases.set(release.id, release);
  putRow(image, out, 'release', release.id, release);
  return release.id;
}

/** Encrypted values differ at each encryption; their digest tells whether they changed. */
function sameRelease(a: Omit<Release, 'id'>, b: Omit<Release, 'id'>): boolean {
  const facts = ({
    endpoint,
    buildDigest,
    runtime,
    functions,
    imageName,
    command,
    packages,
    python,
    ...more
  }: Omit<Release, 'id'>): string => {
    const { gpuIds, gpuCount, cpu, envDigest, maxConcurrency } = more;
    const program = [endpoint, buildDigest, runtime, functions, imageName, command, packages, python];
    return JSON.stringify([...program, gpuIds, gpuCount, cpu, envDigest, maxConcurrency]);
  };
  return facts(a) === facts(b);
}

/** From which job on the present release counts, and which one counted before. */
function boundary(image: State, present: EndpointConfig | null, release: string): Pick<EndpointConfig, 'previousRelease' | 'releaseFrom'> {
  if (present === null) return { previousRelease: null, releaseFrom: 0 };
  if (present.release === release) return { previousRelease: present.previousRelease, releaseFrom: present.releaseFrom };
  return { previousRelease: present.release, releaseFrom: image.nextQueuePosition };
}

function freshEndpointId(image: State): string {
  for (;;) {
    const id = randomName(image.random, 14);
    if (!image.endpoints.has(id)) return id;
  }
}
