/** The control plane's changes: deployments, keys, nodes. Each is all or nothing. */
import { CapstanError } from '../../proto/errors.ts';
import { EndpointKind } from '../../proto/gen/capstan/v1/common.ts';
import type { DirectoryUpdate, EndpointEntry, KeyEntry } from '../../proto/gen/capstan/v1/control.ts';

import type { Decision, Write } from './effects.ts';
import type { Command, EndpointInput } from './events.ts';
import { endpointNameKey, newEndpoint, newNode, type EndpointConfig, type Image, type KeyRow, type Release } from './image.ts';
import { randomName } from './random.ts';
import { putRow } from './rows.ts';

type Deploy = Extract<Command, { command: 'deploy' }>;

/** Creates or updates one endpoint per resource. Refuses the whole when the quota would be passed. */
export function deploy(image: Image, out: Decision, call: number, command: Deploy): void {
  const refusal = overQuota(image, command);
  if (refusal !== null) {
    out.do({ effect: 'answer', call, result: refusal });
    return;
  }
  let last: Write | null = null;
  if (!image.builds.has(command.build.digest)) {
    image.builds.set(command.build.digest, command.build);
    last = putRow(image, out, 'build', command.build.digest, command.build);
  }
  const answers: { id: string; created: boolean }[] = [];
  const entries: EndpointEntry[] = [];
  for (const input of command.endpoints) {
    const nameKey = endpointNameKey(command.account, command.environment, input.name);
    const known = image.endpoints.get(image.endpointsByName.get(nameKey) ?? '');
    const id = known?.config.id ?? freshEndpointId(image);
    const release = releaseFor(image, out, id, known === undefined ? null : known.config.release, command, input);
    const config = toConfig(id, command, input, release);
    if (known === undefined) {
      image.endpoints.set(id, newEndpoint(config));
      image.endpointsByName.set(nameKey, id);
    } else known.config = config;
    last = putRow(image, out, 'endpoint', id, config);
    image.unsettled.add(id);
    answers.push({ id, created: known === undefined });
    entries.push(endpointEntry(config));
  }
  out.do({ effect: 'directory', update: { ...emptyUpdate(), endpoints: entries } }, last);
  out.do({ effect: 'answer', call, result: { answer: 'deployed', environment: command.environment, endpoints: answers } }, last);
}

export function putKey(image: Image, out: Decision, call: number, key: KeyRow): void {
  image.keys.set(key.hash, key);
  const write = putRow(image, out, 'key', key.hash, key);
  out.do({ effect: 'directory', update: { ...emptyUpdate(), keys: [keyEntry(key)] } }, write);
  out.do({ effect: 'answer', call, result: { answer: 'done' } }, write);
}

/** Keeps the signing secret of an account that has none. */
export function putWebhookSecret(
  image: Image,
  out: Decision,
  call: number,
  command: Extract<Command, { command: 'put-webhook-secret' }>,
): void {
  const known = image.accounts.get(command.account);
  if (known !== undefined && known.webhookSecretSealed !== null) {
    out.do({ effect: 'answer', call, result: { answer: 'done' } });
    return;
  }
  const row = { ...known, webhookSecretSealed: command.sealed };
  image.accounts.set(command.account, row);
  out.do({ effect: 'answer', call, result: { answer: 'done' } }, putRow(image, out, 'account', command.account, row));
}

export function putJoinToken(image: Image, out: Decision, call: number, hash: string): void {
  if (image.joinTokens.has(hash)) {
    out.do({ effect: 'answer', call, result: { answer: 'done' } });
    return;
  }
  image.joinTokens.add(hash);
  out.do({ effect: 'answer', call, result: { answer: 'done' } }, putRow(image, out, 'join-token', hash, {}));
}

export function join(image: Image, out: Decision, call: number, command: Extract<Command, { command: 'join' }>): void {
  if (!image.joinTokens.has(command.tokenHash)) {
    out.do({ effect: 'answer', call, result: new CapstanError('UNAUTHENTICATED', 'the join token is not valid') });
    return;
  }
  image.nodes.set(command.node.id, newNode(command.node));
  out.do({ effect: 'answer', call, result: { answer: 'done' } }, putRow(image, out, 'node', command.node.id, command.node));
}

/** A gateway's view of an endpoint. */
export function endpointEntry(config: EndpointConfig): EndpointEntry {
  return {
    id: config.id,
    name: config.name,
    accountId: config.account,
    environment: config.environment,
    kind: config.kind === 'QUEUE' ? EndpointKind.QUEUE : EndpointKind.LOAD_BALANCED,
  };
}

/** A gateway's view of a key. */
export function keyEntry(key: KeyRow): KeyEntry {
  return { hash: Buffer.from(key.hash, 'hex'), accountId: key.account, scope: key.scope, endpointIds: [...key.endpoints] };
}

/** The whole directory, for a gateway that begins to watch. */
export function wholeDirectory(image: Image): DirectoryUpdate {
  return {
    ...emptyUpdate(),
    reset: true,
    keys: [...image.keys.values()].map(keyEntry),
    endpoints: [...image.endpoints.values()].map((endpoint) => endpointEntry(endpoint.config)),
  };
}

function emptyUpdate(): DirectoryUpdate {
  return { reset: false, keys: [], endpoints: [], removedKeys: [], removedEndpoints: [] };
}

function overQuota(image: Image, command: Deploy): CapstanError | null {
  const changed = new Map(command.endpoints.map((input) => [endpointNameKey(command.account, command.environment, input.name), input]));
  let sum = 0;
  for (const { config } of image.endpoints.values()) {
    if (config.account !== command.account) continue;
    if (!changed.has(endpointNameKey(config.account, config.environment, config.name))) sum += config.workersMax;
  }
  const others = sum;
  for (const input of changed.values()) sum += input.workersMax;
  const quota = image.settings.workerQuota;
  if (sum <= quota) return null;
  const asked = [...changed.values()].map((input) => `${input.name} ${input.workersMax}`).join(', ');
  return new CapstanError(
    'QUOTA_EXCEEDED',
    `workersMax: the sum over all endpoints would be ${sum}, the account's quota is ${quota} (other endpoints have ${others}; asked for: ${asked}); nothing was changed`,
    { field: 'workersMax' },
  );
}

/** The present release when nothing a worker depends on changed, else a new one. */
function releaseFor(image: Image, out: Decision, endpoint: string, present: string | null, command: Deploy, input: EndpointInput): string {
  const wanted = {
    endpoint,
    buildDigest: command.build.digest,
    buildSize: command.build.size,
    runtime: input.runtime,
    functions: input.functions,
    envSealed: input.envSealed,
    envDigest: input.envDigest,
    maxConcurrency: input.maxConcurrency,
  };
  const known = present === null ? undefined : image.releases.get(present);
  if (known !== undefined && sameRelease(known, wanted)) return known.id;
  const release: Release = { id: randomName(image.random, 14), ...wanted };
  image.releases.set(release.id, release);
  putRow(image, out, 'release', release.id, release);
  return release.id;
}

/** Encrypted values differ at each encryption; their digest tells whether they changed. */
function sameRelease(a: Omit<Release, 'id'>, b: Omit<Release, 'id'>): boolean {
  const facts = (release: Omit<Release, 'id'>): string =>
    JSON.stringify([release.endpoint, release.buildDigest, release.runtime, release.functions, release.envDigest, release.maxConcurrency]);
  return facts(a) === facts(b);
}

function toConfig(id: string, command: Deploy, input: EndpointInput, release: string): EndpointConfig {
  return {
    id,
    account: command.account,
    environment: command.environment,
    name: input.name,
    kind: input.kind,
    imageName: input.imageName,
    workersMin: input.workersMin,
    workersMax: input.workersMax,
    idleTimeoutS: input.idleTimeoutS,
    gpuIds: input.gpuIds,
    gpuCount: input.gpuCount,
    cpu: input.cpu,
    maxConcurrency: input.maxConcurrency,
    executionTimeoutMs: input.executionTimeoutMs,
    scalerType: input.scalerType,
    scalerValue: input.scalerValue,
    maxAttempts: input.maxAttempts,
    routes: input.routes,
    limits: input.limits,
    requestsPerWorker: input.requestsPerWorker,
    release,
  };
}

function freshEndpointId(image: Image): string {
  for (;;) {
    const id = randomName(image.random, 14);
    if (!image.endpoints.has(id)) return id;
  }
}
