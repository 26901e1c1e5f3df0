/**
 * Remembers that no node could take a worker. Placement is not tried again, for any endpoint with the same needs, until
 * a change could have made room (`capacityVersion` of the state).
 */
import type { State } from '../../state.ts';
import type { EndpointRecord, Release } from '../../state/endpoints.ts';
import { isolationRuleOf } from './isolation-rule.ts';
import type { RejectionGroup } from '../../state/rejections.ts';
import { languageOf } from './runtime-choice.ts';

/** Returns why no node can take a worker of the release, if this is known and still valid. */
export function knownRefusal(state: State, endpoint: EndpointRecord, release: Release): readonly RejectionGroup[] | null {
  return state.refusals.capacityVersion === state.capacityVersion
    ? (state.refusals.known.get(needsOf(state, endpoint, release)) ?? null)
    : null;
}

interface Refusal {
  readonly release: Release;
  readonly groups: readonly RejectionGroup[];
}

export function noteRefusal(state: State, endpoint: EndpointRecord, { release, groups }: Refusal): void {
  // Room on a disk also depends on the build.
  if (groups.some(({ reason }) => reason === 'DISK')) return;
  if (state.refusals.capacityVersion !== state.capacityVersion) state.refusals.known.clear();
  state.refusals.capacityVersion = state.capacityVersion;
  state.refusals.known.set(needsOf(state, endpoint, release), groups);
}

/** Returns a key that is equal for workers with equal needs. */
export function needsOf(state: State, { config, claims }: EndpointRecord, release: Release): string {
  const { least, runtimes, network, isClosed, listens } = isolationRuleOf(state, config.account, release);
  // Only the endpoint itself may use the room that it has claimed.
  const claimant = claims.length === 0 ? '' : config.id;
  const { runtime, imageName, packages, python, gpuIds, gpuCount, minCuda, minDriver, cpu } = release;
  return JSON.stringify([
    runtime,
    imageName,
    languageOf(release),
    packages,
    python,
    gpuIds,
    gpuCount,
    minCuda,
    minDriver,
    cpu,
    least,
    runtimes,
    network,
    isClosed,
    listens,
    claimant,
  ]);
}
