/** Compares the versions of a service's parts, and says what to upgrade in which order. Pure. */

export type PartKind = 'scheduler' | 'gateway' | 'agent' | 'tool';

export interface PartVersion {
  readonly part: PartKind;
  /** Its address, or the name of its node; empty for the tool. */
  readonly name: string;
  /** Null when the part is too old to tell, or is not connected. */
  readonly version: string | null;
  /** Such as `owner` or `disconnected`. */
  readonly state: string;
}

export interface UpgradeStep {
  readonly part: PartKind;
  readonly name: string;
  readonly from: string | null;
  readonly to: string;
  /** How, in one line. */
  readonly how: string;
}

/** Versions of the tool, a gateway and an agent work with the next version of the scheduler, so schedulers come first. */
const ORDER: readonly PartKind[] = ['scheduler', 'gateway', 'agent', 'tool'];

const HOW: Readonly<Record<PartKind, string>> = {
  scheduler: 'install, then restart it; gateways hold submissions for up to 20 s, and handlers keep running',
  gateway: 'install, then restart it; with several, one after another',
  agent: 'capstan node drain, wait for its jobs, install, restart it, capstan node resume',
  tool: 'install',
};

/** Returns the newest version that any part has; null when none tells its version. */
export function newestVersion(parts: readonly PartVersion[]): string | null {
  return (
    parts
      .flatMap(({ version }) => version ?? [])
      .toSorted(compareVersions)
      .at(-1) ?? null
  );
}

/** Returns the parts that are older than the newest one, in the order in which to upgrade them: of schedulers, standbys before owners. */
export function upgradeSteps(parts: readonly PartVersion[]): UpgradeStep[] {
  const to = newestVersion(parts);
  if (to === null) return [];
  return parts
    .filter(({ version, state }) => (version === null ? state !== DISCONNECTED : compareVersions(version, to) < 0))
    .toSorted((a, b) => ORDER.indexOf(a.part) - ORDER.indexOf(b.part) || Number(a.state === OWNER) - Number(b.state === OWNER))
    .map(({ part, name, version: from, state }) => {
      const how = part === 'scheduler' && state === OWNER ? HANDS_OVER : HOW[part];
      return { part, name, from, to, how: from === null ? `unless it already has this version: ${how}` : how };
    });
}

export const OWNER = 'owner';
export const STANDBY = 'standby';
/** A node without a session: its version is known when it connects. */
export const DISCONNECTED = 'disconnected';

const HANDS_OVER = 'install, then restart it after its standbys: it hands the queue over';

/** By semantic versioning: negative when `a` comes first. Build metadata (`+…`) does not count. */
export function compareVersions(a: string, b: string): number {
  const [left, right] = [parse(a), parse(b)];
  for (let i = 0; i < 3; i++) {
    const difference = (left.numbers[i] ?? 0) - (right.numbers[i] ?? 0);
    if (difference !== 0) return difference;
  }
  // A pre-release comes before its release.
  if (left.before.length === 0 || right.before.length === 0) return Number(right.before.length > 0) - Number(left.before.length > 0);
  for (let i = 0; i < Math.max(left.before.length, right.before.length); i++) {
    const difference = compareIdentifiers(left.before[i], right.before[i]);
    if (difference !== 0) return difference;
  }
  return 0;
}

function parse(version: string): { readonly numbers: readonly number[]; readonly before: readonly string[] } {
  const [, core = '', before = ''] = /^(\d+(?:\.\d+)*)(?:-([^+]*))?/.exec(version) ?? [];
  return { numbers: core.split('.').map(Number), before: before === '' ? [] : before.split('.') };
}

/** Numbers come before words; fewer identifiers come before more. */
function compareIdentifiers(a: string | undefined, b: string | undefined): number {
  if (a === undefined || b === undefined) return Number(b === undefined) - Number(a === undefined);
  const [isNumber, isOtherNumber] = [/^\d+$/.test(a), /^\d+$/.test(b)];
  if (isNumber && isOtherNumber) return Number(a) - Number(b);
  if (isNumber !== isOtherNumber) return isNumber ? -1 : 1;
  return a < b ? -1 : Number(a > b);
}
