/** What a release requires of the drivers of its devices: its own settings, and those of its image. */
import { compareVersions, unmetRequirement } from '../../../../lib/nvidia-requirement.ts';
import type { State } from '../../state.ts';
import type { Release } from '../../state/endpoints.ts';
import type { DeviceFacts, NodeFacts } from '../../state/node-facts.ts';

export interface DriverRule {
  readonly minCuda: string;
  readonly minDriver: string;
  /** Full reference of the image; empty if there is none. */
  readonly imageName: string;
  /** Its requirements, for nodes that do not have it; they apply where the release runs in a container. */
  readonly image: readonly string[];
}

/** Characters of a requirement that are shown. */
const MAX_SHOWN = 100;

/**
 * `image`: full reference; empty if there is none. A node that lacks it would pull it, so what the nodes that have it know counts, as far as
 * they agree: one of them must not keep it from the others by a report of its own.
 */
export function driverRuleOf({ nodes }: Pick<State, 'nodes'>, { minCuda, minDriver, gpuIds }: Release, image: string): DriverRule {
  const rule = { minCuda, minDriver, imageName: image, image: [] };
  if (gpuIds === '' || image === '') return rule;
  let agreed: readonly string[] | undefined;
  for (const { facts } of nodes.values()) {
    if (facts?.images.has(image) !== true) continue;
    const known = facts.imageRequirements[image] ?? [];
    if (agreed !== undefined && agreed.join('\n') !== known.join('\n')) return rule;
    agreed = known;
  }
  return { ...rule, image: agreed ?? [] };
}

/** The rule on one node, which knows best what an image that it has requires. */
export function driverRuleOn(rule: DriverRule, { images, imageRequirements }: Pick<NodeFacts, 'images' | 'imageRequirements'>): DriverRule {
  return images.has(rule.imageName) ? { ...rule, image: imageRequirements[rule.imageName] ?? [] } : rule;
}

/** Returns what a device's driver lacks; empty if it suffices. */
export function driverObjection(rule: DriverRule, device: DeviceFacts, inContainer: boolean): string {
  if (isOlder(device.cuda, rule.minCuda)) return `CUDA ${rule.minCuda}`;
  if (isOlder(device.driver, rule.minDriver)) return `driver ${rule.minDriver}`;
  const unmet = inContainer && rule.image.length > 0 ? unmetRequirement(rule.image, device) : null;
  return unmet === null ? '' : `${unmet.slice(0, MAX_SHOWN)} for the image`;
}

/** One that is not known is older than any that is required. */
function isOlder(own: string, wanted: string): boolean {
  return wanted !== '' && (own === '' || compareVersions(own, wanted) < 0);
}

/** The newest driver of these devices, as text. */
export function newestDriver(devices: readonly DeviceFacts[]): string {
  const [first] = devices.toSorted((a, b) => compareVersions(b.cuda, a.cuda) || compareVersions(b.driver, a.driver));
  const { cuda = '', driver = '' } = first ?? {};
  return `CUDA ${cuda === '' ? 'unknown' : cuda}, driver ${driver === '' ? 'unknown' : driver}`;
}
