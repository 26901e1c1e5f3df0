/**
 * Remembers that no node could take a worker. Placement is not tried again, for any endpoint with the same needs, until
 * a change could have made room (`capacity` of the state).
 */
import type { State } from '../../state.ts';
import type { Release } from '../../state/endpoints.ts';
import { isolationRuleOf } from './isolation-rule.ts';
import type { RejectionGroup } from './rejections.ts';
import { languageOf } from './runtime-choice.ts';

/** Returns why no node can take a worker of the release, if this is known and still valid. */
export function knownRefusal(state: State, release: Release): readonly RejectionGroup[] | null {
  return state.refusals.capacity === state.capacity ? (state.refusals.known.get(needsOf(state, release)) ?? null) : null;
}

export function noteRefusal(state: State, release: Release, groups: readonly RejectionGroup[]): void {
  // Room on a disk also depends on the build.
  if (groups.some(({ reason }) => reason === 'DISK')) return;
  if (state.refusals.capacity !== state.capacity) state.refusals.known.clear();
  state.refusals.capacity = state.capacity;
  state.refusals.known.set(needsOf(state, release), groups);
}

function needsOf(state: State, release: Release): string {
  const account = state.endpoints.get(release.endpoint)?.config.account ?? '';
  const { least, runtimes, network } = isolationRuleOf(state, account, release);
  const { runtime, imageName, packages, python, gpuIds, gpuCount, cpu } = release;
  return JSON.stringify([runtime, imageName, languageOf(release), packages, python, gpuIds, gpuCount, cpu, least, runtimes, network]);
}
