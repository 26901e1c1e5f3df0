/**
 * The history of an environment: the settings and builds that each deployment gave its endpoints. A deployment is kept
 * while, for some existing endpoint, it is the newest one with one of the endpoint's N newest builds (setting
 * `buildsKept`). Builds are kept by the rules of `builds.ts`.
 */
import { CapstanError } from '../../../lib/errors.ts';
import { present } from '../../../lib/invariant.ts';

import type { StepContext } from '../context.ts';
import { forgetBuilds } from './builds.ts';
import type { Write } from '../effects.ts';
import type { State } from '../state.ts';
import { type DeployedInput, type DeploymentRow, environmentKey } from '../state/control-rows.ts';
import { putRow } from '../rows.ts';

export function createEnvironment(ctx: StepContext, call: number, account: string, name: string): void {
  const write = ensureEnvironment(ctx, account, name, ctx.now.wall);
  const result =
    write === null
      ? new CapstanError('ALREADY_EXISTS', `environment ${name} already exists`, { field: 'name' })
      : ({ kind: 'done' } as const);
  ctx.reply(call, result, write);
}

/** Creates the environment if missing. Returns null if it exists. */
export function ensureEnvironment(ctx: StepContext, account: string, name: string, at: number): Write | null {
  const key = environmentKey(account, name);
  if (ctx.state.environments.has(key)) return null;
  const row = { account, name, createdAt: at, deployments: 0 };
  ctx.state.environments.set(key, row);
  return putRow(ctx, 'environment', key, row);
}

/** Adds a deployment to the history of its environment. */
export function record(ctx: StepContext, deployed: Omit<DeploymentRow, 'number'>): Write {
  const { account, environment } = deployed;
  const key = environmentKey(account, environment);
  const known = present(ctx.state.environments.get(key), 'an environment exists before its deployments', { account, environment });
  const row = { ...known, deployments: known.deployments + 1 };
  ctx.state.environments.set(key, row);
  putRow(ctx, 'environment', key, row);
  const deployment: DeploymentRow = { ...deployed, number: row.deployments };
  const history = ctx.state.deployments.get(key) ?? [];
  ctx.state.deployments.set(key, [...history, deployment]);
  return putRow(ctx, 'deployment', deploymentKey(deployment), deployment);
}

/** Returns the endpoint's entry in its newest deployment. */
export function latestOf(history: readonly DeploymentRow[], id: string): DeployedInput | null {
  for (const { endpoints } of history.toReversed()) {
    const found = endpoints.find((deployed) => deployed.id === id);
    if (found !== undefined) return found;
  }
  return null;
}

/** Returns the endpoint's newest entry with a build other than the present one. */
export function previousOf(history: readonly DeploymentRow[], id: string, present: string): DeployedInput | null {
  for (const { endpoints } of history.toReversed()) {
    const found = endpoints.find((deployed) => deployed.id === id && deployed.build !== present);
    if (found !== undefined) return found;
  }
  return null;
}

/** Returns the endpoint's newest entry with this build. */
export function withBuild(history: readonly DeploymentRow[], id: string, build: string): DeployedInput | null {
  for (const { endpoints } of history.toReversed()) {
    const found = endpoints.find((deployed) => deployed.id === id && deployed.build === build);
    if (found !== undefined) return found;
  }
  return null;
}

/** Deletes the deployments, releases and builds that are no longer needed. */
export function sweepBuilds(ctx: StepContext): void {
  for (const [key, history] of ctx.state.deployments) {
    const kept = keptOf(ctx.state, history);
    for (const deployment of history) {
      if (!kept.has(deployment)) putRow(ctx, 'deployment', deploymentKey(deployment), null);
    }
    if (kept.size === 0) ctx.state.deployments.delete(key);
    else if (kept.size < history.length)
      ctx.state.deployments.set(
        key,
        [...kept].toSorted((a, b) => a.number - b.number),
      );
  }
  const releases = new Set<string>();
  for (const { config } of ctx.state.endpoints.values()) releases.add(config.release);
  for (const worker of ctx.state.workers.values()) releases.add(worker.release);
  for (const release of [...ctx.state.releases.values()]) {
    if (releases.has(release.id)) continue;
    ctx.state.releases.delete(release.id);
    putRow(ctx, 'release', release.id, null);
  }
  forgetBuilds(ctx);
}

function keptOf(state: State, history: readonly DeploymentRow[]): Set<DeploymentRow> {
  const kept = new Set<DeploymentRow>();
  const seen = new Map<string, Set<string>>();
  for (const deployment of history.toReversed()) {
    for (const { id, build } of deployment.endpoints) {
      if (!state.endpoints.has(id)) continue;
      const builds = seen.get(id) ?? new Set();
      seen.set(id, builds);
      if (builds.has(build) || builds.size >= state.settings.buildsKept) continue;
      builds.add(build);
      kept.add(deployment);
    }
  }
  return kept;
}

/** Numbers are padded so that rows are read in order. */
export function deploymentKey({ account, environment, number }: DeploymentRow): string {
  return `${environmentKey(account, environment)}/${String(number).padStart(10, '0')}`;
}
