/**
 * Builds and the accounts that own them. An account owns a build once it has sent all of its bytes; the digest alone
 * does not allow a deployment. Equal bytes of several accounts share one blob and one row.
 *
 * An account owns a build while one of its kept deployments or releases has it, and for `uploadKeepMs` after it last
 * sent or requested it. A row is kept while it has an owner, or while a worker of a deleted endpoint runs the build.
 * The sweep of the artifact store deletes the bytes of builds without a row.
 */
import { CapstanError } from '../../../lib/errors.ts';
import { invariant, present } from '../../../lib/invariant.ts';

import type { StepContext } from '../context.ts';
import type { Write } from '../effects.ts';
import type { Command } from '../events.ts';
import type { State } from '../state.ts';
import type { BuildRow, BuildUse } from '../state/control-rows.ts';
import { listedWorker } from '../references.ts';
import { putRow } from '../rows.ts';

/** Interval of the sweep of builds that are not deployed, ms. */
export const BUILD_SWEEP_MS = 600_000;
/** Minimum interval between two writes of a build that is requested again, ms. */
const RENEW_EVERY_MS = 60_000;

/** Returns the row of a build if the account owns it. */
export function ownedBuild(state: State, account: string, digest: string): BuildRow | undefined {
  const build = state.builds.get(digest);
  return build?.owners.some((owner) => owner.account === account) === true ? build : undefined;
}

/** Returns the account's use of the artifact store, without unfinished uploads. */
export function buildUseOf(state: State, account: string): BuildUse {
  return state.buildUse.get(account) ?? { bytes: 0, builds: 0 };
}

/** Whether a worker of the build is placed on the node. */
export function runsBuild(state: State, node: string, digest: string): boolean {
  // The node may have been removed meanwhile.
  for (const id of state.nodes.get(node)?.workers ?? []) {
    if (state.releases.get(listedWorker(state, id).release)?.buildDigest === digest) return true;
  }
  return false;
}

/** The error is the same whether the build does not exist or another account owns it. */
export function buildNotFound(digest: string): CapstanError {
  return new CapstanError('NOT_FOUND', `build ${digest} is not in the artifact store: upload it first`, { field: 'build_digest' });
}

/** Records that an account sent a build, or requested one that it owns. */
export function putBuild(ctx: StepContext, call: number, command: Extract<Command, { kind: 'put-build' }>): void {
  const { account, digest, size } = command;
  const known = ctx.state.builds.get(digest) ?? { digest, size, createdAt: ctx.now.wall, owners: [] };
  const owner = known.owners.find((each) => each.account === account);
  const recent = owner !== undefined && Math.abs(ctx.now.wall - owner.at) < RENEW_EVERY_MS;
  const owners = [...known.owners.filter((each) => each !== owner), { account, at: ctx.now.wall }];
  ctx.reply(call, { kind: 'done' }, recent ? null : setBuild(ctx, { ...known, owners }));
}

/**
 * Ends the ownership of builds that an account neither deploys nor sent recently, and deletes the rows of builds that
 * are not needed.
 */
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

/**
 * At take-over: counts the builds of accounts, and assigns rows without owners, which earlier versions wrote, to the
 * accounts that deployed them.
 */
export function adoptBuilds(ctx: StepContext): void {
  for (const build of ctx.state.builds.values()) count(ctx.state, build, 1);
  const unowned = [...ctx.state.builds.values()].filter(({ owners }) => owners.length === 0).map(({ digest }) => digest);
  if (unowned.length === 0) return;
  const accounts = accountsByBuild(ctx.state);
  for (const digest of unowned) {
    const build = present(ctx.state.builds.get(digest), 'a row without owners is in the state', { build: digest });
    const users = accounts.get(digest);
    // Nobody has deployed it: the sweep drops it.
    if (users === undefined) continue;
    setBuild(ctx, { ...build, owners: [...users].toSorted().map((account) => ({ account, at: build.createdAt })) });
  }
}

/** Returns the accounts with a kept deployment or a release of each build. */
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

/** A build counts in full for each of its owners: the use of one account must not depend on the others. */
function count(state: State, build: BuildRow | undefined, by: 1 | -1): void {
  if (build === undefined) return;
  for (const { account } of build.owners) {
    const use = state.buildUse.get(account) ?? { bytes: 0, builds: 0 };
    const builds = use.builds + by;
    const bytes = use.bytes + by * build.size;
    invariant(builds >= 0 && bytes >= 0, 'a build that an account gives up was counted for it', { account, build: build.digest });
    if (builds === 0) state.buildUse.delete(account);
    else state.buildUse.set(account, { bytes, builds });
  }
}
