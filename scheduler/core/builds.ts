/**
 * Builds and the accounts that own them. An account owns a build from the moment it has sent all of its bytes; knowing
 * the digest is not enough to deploy it. Equal bytes of several accounts share one blob and one row.
 *
 * An account owns a build while one of its kept deployments or releases has it, and for `uploadKeepMs` after it last
 * sent it or asked for it. A row is kept while it has an owner, or a worker of a deleted endpoint still runs the
 * build; the bytes of builds without a row go with the sweep of the artifact store.
 */
import { CapstanError } from '../../proto/errors.ts';

import type { StepResult, Write } from './effects.ts';
import type { Command } from './events.ts';
import type { State } from './image.ts';
import type { BuildRow, BuildUse } from './image/control-rows.ts';
import type { Now } from './now.ts';
import { putRow } from './rows.ts';

/** How often builds that nobody deployed are looked for, ms. */
export const buildSweepMs = 600_000;
/** A build that is asked for again is written again at most this often, ms. */
const renewEveryMs = 60_000;

/** The row of a build, where the account owns it. */
export function ownedBuild(image: State, account: string, digest: string): BuildRow | undefined {
  const build = image.builds.get(digest);
  return build?.owners.some((owner) => owner.account === account) === true ? build : undefined;
}

/** What an account has in the artifact store, unfinished uploads left out. */
export function buildUseOf(image: State, account: string): BuildUse {
  return image.buildUse.get(account) ?? { bytes: 0, builds: 0 };
}

/** Whether a worker of the build is placed on the node. */
export function runsBuild(image: State, node: string, digest: string): boolean {
  for (const id of image.nodes.get(node)?.workers ?? []) {
    if (image.releases.get(image.workers.get(id)?.release ?? '')?.buildDigest === digest) return true;
  }
  return false;
}

/** The same whether nobody sent the build or another account did. */
export function buildNotFound(digest: string): CapstanError {
  return new CapstanError('NOT_FOUND', `build ${digest} is not in the artifact store: upload it first`, { field: 'build_digest' });
}

/** Records that an account sent a build, or asked for one that it owns. */
export function putBuild(image: State, out: StepResult, now: Now, call: number, command: Extract<Command, { kind: 'put-build' }>): void {
  const { account, digest, size } = command;
  const known = image.builds.get(digest) ?? { digest, size, createdAt: now.wall, owners: [] };
  const owner = known.owners.find((each) => each.account === account);
  const recent = owner !== undefined && Math.abs(now.wall - owner.at) < renewEveryMs;
  const owners = [...known.owners.filter((each) => each !== owner), { account, at: now.wall }];
  out.do({ kind: 'answer', call, result: { kind: 'done' } }, recent ? null : setBuild(image, out, { ...known, owners }));
}

/** Ends the ownership of builds that an account neither deploys nor sent lately, and forgets builds that nothing needs. */
export function forgetBuilds(image: State, out: StepResult, now: Now): void {
  const { uploadKeepMs } = image.settings;
  const accounts = accountsByBuild(image);
  const running = new Set([...image.releases.values()].map(({ buildDigest }) => buildDigest));
  for (const build of [...image.builds.values()]) {
    const users = accounts.get(build.digest);
    const owners = build.owners.filter(({ account, at }) => users?.has(account) === true || now.wall - at < uploadKeepMs);
    const kept = owners.length > 0 || users !== undefined || running.has(build.digest);
    if (!kept) dropBuild(image, out, build.digest);
    else if (owners.length < build.owners.length) setBuild(image, out, { ...build, owners });
  }
}

/** Take-over: counts the builds of accounts, and gives builds of rows without owners, which earlier versions wrote, to the accounts that deployed them. */
export function adoptBuilds(image: State, out: StepResult): void {
  for (const build of image.builds.values()) count(image, build, 1);
  const unowned = [...image.builds.values()].filter(({ owners }) => owners.length === 0).map(({ digest }) => digest);
  if (unowned.length === 0) return;
  const accounts = accountsByBuild(image);
  for (const digest of unowned) {
    const build = image.builds.get(digest);
    const users = accounts.get(digest);
    if (build === undefined || users === undefined) continue;
    setBuild(image, out, { ...build, owners: [...users].toSorted().map((account) => ({ account, at: build.createdAt })) });
  }
}

/** The accounts with a kept deployment or a release of each build. */
function accountsByBuild(image: State): Map<string, Set<string>> {
  const accounts = new Map<string, Set<string>>();
  const add = (digest: string, account: string): void => {
    const users = accounts.get(digest) ?? new Set();
    accounts.set(digest, users.add(account));
  };
  for (const rows of image.deployments.values()) {
    for (const { account, endpoints } of rows) for (const { build } of endpoints) add(build, account);
  }
  for (const { endpoint, buildDigest } of image.releases.values()) {
    const account = image.endpoints.get(endpoint)?.config.account;
    if (account !== undefined) add(buildDigest, account);
  }
  return accounts;
}

function setBuild(image: State, out: StepResult, build: BuildRow): Write {
  count(image, image.builds.get(build.digest), -1);
  image.builds.set(build.digest, build);
  count(image, build, 1);
  return putRow(image, out, 'build', build.digest, build);
}

function dropBuild(image: State, out: StepResult, digest: string): void {
  count(image, image.builds.get(digest), -1);
  image.builds.delete(digest);
  putRow(image, out, 'build', digest, null);
}

/** A build counts whole for each of its owners: what one of them keeps must not depend on the others. */
function count(image: State, build: BuildRow | undefined, by: 1 | -1): void {
  for (const { account } of build?.owners ?? []) {
    const use = image.buildUse.get(account) ?? { bytes: 0, builds: 0 };
    const builds = use.builds + by;
    if (builds === 0) image.buildUse.delete(account);
    else image.buildUse.set(account, { bytes: use.bytes + by * (build?.size ?? 0), builds });
  }
}
