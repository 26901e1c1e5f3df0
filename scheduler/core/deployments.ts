/**
 * The history of an environment: what each deployment gave its endpoints. A deployment is kept
 * while, for some endpoint that is there, it is the newest one with one of the endpoint's N newest
 * builds (setting `buildsKept`). Builds are kept by the rules of `builds.ts`.
 */
import { CapstanError } from '../../proto/errors.ts';

import { forgetBuilds } from './builds.ts';
import type { StepResult, Write } from './effects.ts';
import type { State } from './image.ts';
import { type DeployedInput, type DeploymentRow, environmentKey } from './image/control-rows.ts';
import type { Now } from './now.ts';
import { putRow } from './rows.ts';

export function createEnvironment(image: State, out: StepResult, now: Now, call: number, account: string, name: string): void {
  const write = ensureEnvironment(image, out, account, name, now.wall);
  const result =
    write === null
      ? new CapstanError('ALREADY_EXISTS', `environment ${name} is there already`, { field: 'name' })
      : ({ kind: 'done' } as const);
  out.do({ kind: 'answer', call, result }, write);
}

/** Makes the environment when it is not there; null when it is. */
export function ensureEnvironment(image: State, out: StepResult, account: string, name: string, at: number): Write | null {
  const key = environmentKey(account, name);
  if (image.environments.has(key)) return null;
  const row = { account, name, createdAt: at, deployments: 0 };
  image.environments.set(key, row);
  return putRow(image, out, 'environment', key, row);
}

/** Adds a deployment to the history of its environment. */
export function record(image: State, out: StepResult, deployed: Omit<DeploymentRow, 'number'>): Write {
  const { account, environment, at } = deployed;
  const key = environmentKey(account, environment);
  const known = image.environments.get(key) ?? { account, name: environment, createdAt: at, deployments: 0 };
  const row = { ...known, deployments: known.deployments + 1 };
  image.environments.set(key, row);
  putRow(image, out, 'environment', key, row);
  const deployment: DeploymentRow = { ...deployed, number: row.deployments };
  const history = image.deployments.get(key) ?? [];
  image.deployments.set(key, [...history, deployment]);
  return putRow(image, out, 'deployment', deploymentKey(deployment), deployment);
}

/** What the newest deployment of an endpoint gave it. */
export function latestOf(history: readonly DeploymentRow[], id: string): DeployedInput | null {
  for (const { endpoints } of history.toReversed()) {
    const found = endpoints.find((deployed) => deployed.id === id);
    if (found !== undefined) return found;
  }
  return null;
}

/** What the endpoint was given most recently with another build than the present one. */
export function previousOf(history: readonly DeploymentRow[], id: string, present: string): DeployedInput | null {
  for (const { endpoints } of history.toReversed()) {
    const found = endpoints.find((deployed) => deployed.id === id && deployed.build !== present);
    if (found !== undefined) return found;
  }
  return null;
}

/** What the endpoint was given most recently with this build. */
export function withBuild(history: readonly DeploymentRow[], id: string, build: string): DeployedInput | null {
  for (const { endpoints } of history.toReversed()) {
    const found = endpoints.find((deployed) => deployed.id === id && deployed.build === build);
    if (found !== undefined) return found;
  }
  return null;
}

/** Forgets the deployments, releases and builds that nothing needs any more. */
export function sweepBuilds(image: State, out: StepResult, now: Now): void {
  for (const [key, history] of image.deployments) {
    const kept = keptOf(image, history);
    for (const deployment of history) {
      if (!kept.has(deployment)) putRow(image, out, 'deployment', deploymentKey(deployment), null);
    }
    if (kept.size === 0) image.deployments.delete(key);
    else if (kept.size < history.length)
      image.deployments.set(
        key,
        [...kept].toSorted((a, b) => a.number - b.number),
      );
  }
  const releases = new Set<string>();
  for (const { config } of image.endpoints.values()) releases.add(config.release);
  for (const worker of image.workers.values()) releases.add(worker.release);
  for (const release of [...image.releases.values()]) {
    if (releases.has(release.id)) continue;
    image.releases.delete(release.id);
    putRow(image, out, 'release', release.id, null);
  }
  forgetBuilds(image, out, now);
}

function keptOf(image: State, history: readonly DeploymentRow[]): Set<DeploymentRow> {
  const kept = new Set<DeploymentRow>();
  const seen = new Map<string, Set<string>>();
  for (const deployment of history.toReversed()) {
    for (const { id, build } of deployment.endpoints) {
      if (!image.endpoints.has(id)) continue;
      const builds = seen.get(id) ?? new Set();
      seen.set(id, builds);
      if (builds.has(build) || builds.size >= image.settings.buildsKept) continue;
      builds.add(build);
      kept.add(deployment);
    }
  }
  return kept;
}

/** Numbers are padded, so that rows come back in order. */
export function deploymentKey({ account, environment, number }: DeploymentRow): string {
  return `${environmentKey(account, environment)}/${String(number).padStart(10, '0')}`;
}
