/**
 * Builds and the accounts that own them. An account owns a build from the moment it has sent all of its bytes; knowing
 * the digest is not enough to deploy it. Equal bytes of several accounts share one blob and one row.
 *
 * An account owns a build while one of its kept deployments or releases has it, and for `uploadKeepMs` after it last
 * sent it or asked for it. A row is kept while it has an owner, or a worker of a deleted endpoint still runs the
 * build; the bytes of builds without a row go with the sweep of the artifact store.
 */
import { CapstanError } from '../../../lib/errors.ts';

import type { StepContext } from '../context.ts';
import type { Write } from '../effects.ts';
import type { Command } from '../events.ts';
import type { State } from '../state.ts';
import type { BuildRow, BuildUse } from '../state/control-rows.ts';
import { putRow } from '../rows.ts';

/** How often builds that nobody deployed are looked for, ms. */
export const BUILD_SWEEP_MS = 600_000;
/** A build that is asked for again is written again at most this often, ms. */
const RENEW_EVERY_MS = 60_000;

/** The row of a build, where the account owns it. */
export function ownedBuild(state: State, account: string, digest: string): BuildRow | undefined {
  const build = state.builds.get(digest);
  return build?.owners.some((owner) => owner.account === account) === true ? build : undefined;
}

/** What an account has in the artifact store, unfinished uploads left out. */
export function buildUseOf(state: State, account: string): BuildUse {
  return state.buildUse.get(account) ?? { bytes: 0, builds: 0 };
}

/** Whether a worker of the build is placed on the node. */
export function runsBuild(state: State, node: string, digest: string): boolean {
  for (const id of state.nodes.get(node)?.workers ?? []) {
    if (state.releases.get(state.workers.get(id)?.release ?? '')?.buildDigest === digest) return true;
  }
  return false;
}

/** The same whether nobody sent the build or another account did. */
export function buildNotFound(digest: string): CapstanError {
  return new CapstanError('NOT_FOUND', `build ${digest} is not in the artifact store: upload it first`, { field: 'build_digest' });
}

/** Records that an account sent a build, or asked for one that it owns. */
export function putBuild(ctx: StepContext, call: number, command: Extract<Command, { kind: 'put-build' }>): void {
  const { account, digest, size } = command;
  const known = ctx.state.builds.get(digest) ?? { digest, size, createdAt: ctx.now.wall, owners: [] };
  const owner = known.owners.find((each) => each.account === account);
  const recent = owner !== undefined && Math.abs(ctx.now.wall - owner.at) < RENEW_EVERY_MS;
  const owners = [...known.owners.filter((each) => each !== owner), { account, at: ctx.now.wall }];
  ctx.reply(call, { kind: 'done' }, recent ? null : setBuild(ctx, { ...known, owners }));
}

/** Ends the ownership of builds that an account neither deploys nor sent lately, and forgets builds that nothing needs. */
export function forgetBuilds(ctx: StepContext): void {
  const { uploadKeepMs } = ctx.state.settings;
  const accounts = accountsByBuild(ctx.state);
  const running = new Set([...ctx.state.releases.values()].map(({ buildDigest }) => buildDigest));
  for (const build of [...ctx.state.builds.values()]) {
    const users = accounts.get(build.digest);
    const owners = build.owners.filter(({ account, at }) => users?.has(account) === true || ctx.now.wall - at < uploadKeepMs);
    const kept = owners.length > 0 || users !== undefined || running.has(build.digest);
    if (!kept) dropBuild(ctx, build.digest);
    else if (owners.length < build.owners.length) setBuild(ctx, { ...build, owners });
  }
}

/** Take-over: counts the builds of accounts, and gives builds of rows without owners, which earlier versions wrote, to the accounts that deployed them. */
export function adoptBuilds(ctx: StepContext): void {
  for (const build of ctx.state.builds.values()) count(ctx.state, build, 1);
  const unowned = [...ctx.state.builds.values()].filter(({ owners }) => owners.length === 0).map(({ digest }) => digest);
  if (unowned.length === 0) return;
  const accounts = accountsByBuild(ctx.state);
  for (const digest of unowned) {
    const build = ctx.state.builds.get(digest);
    const users = accounts.get(digest);
    if (build === undefined || users === undefined) continue;
    setBuild(ctx, { ...build, owners: [...users].toSorted().map((account) => ({ account, at: build.createdAt })) });
  }
}

/** The accounts with a kept deployment or a release of each build. */
function accountsByBuild(state: State): Map<string, Set<string>> {
  const accounts = new Map<string, Set<string>>();
  const add = (digest: string, account: string): void => {
    const users = accounts.get(digest) ?? new Set();
    accounts.set(digest, users.add(account));
  };
  for (const rows of state.deployments.values()) {
    for (const { account, endpoints } of rows) for (const { build } of endpoints) add(build, account);
  }
  for (const { endpoint, buildDigest } of state.releases.values()) {
    const account = state.endpoints.get(endpoint)?.config.account;
    if (account !== undefined) add(buildDigest, account);
  }
  return accounts;
}

function setBuild(ctx: StepContext, build: BuildRow): Write {
  count(ctx.state, ctx.state.builds.get(build.digest), -1);
  ctx.state.builds.set(build.digest, build);
  count(ctx.state, build, 1);
  return putRow(ctx, 'build', build.digest, build);
}

function dropBuild(ctx: StepContext, digest: string): void {
  count(ctx.state, ctx.state.builds.get(digest), -1);
  ctx.state.builds.delete(digest);
  putRow(ctx, 'build', digest, null);
}

/** A build counts whole for each of its owners: what one of them keeps must not depend on the others. */
function count(state: State, build: BuildRow | undefined, by: 1 | -1): void {
  for (const { account } of build?.owners ?? []) {
    const use = state.buildUse.get(account) ?? { bytes: 0, builds: 0 };
    const builds = use.builds + by;
    if (builds === 0) state.buildUse.delete(account);
    else state.buildUse.set(account, { bytes: use.bytes + by * (build?.size ?? 0), builds });
  }
}
