/**
 * Whether a node can take one more worker of a release: small checks in a fixed order; the first that fails gives the
 * reason.
 */
import type { WorkerRuntime } from '../../../../lib/isolation.ts';
import type { State } from '../../state.ts';
import type { EndpointConfig, Release } from '../../state/endpoints.ts';
import type { NodeRecord, NodeUsage } from '../../state/fleet.ts';
import type { Settings } from '../../settings.ts';
import { workerReserve, type Reserve } from './cpu-size.ts';
import { driverObjection, driverRuleOf, driverRuleOn, newestDriver, type DriverRule } from './driver-rule.ts';
import { isolationRuleOf, type IsolationRule } from './isolation-rule.ts';
import type { DeviceFacts, NodeFacts } from '../../state/node-facts.ts';
import type { Rejected } from '../../state/rejections.ts';
import { chooseRuntime, runtimeWish, type RuntimeWish } from './runtime-choice.ts';

/** Needs of one worker, computed once per placement. */
export interface Wanted {
  readonly endpoint: string;
  readonly release: Release;
  readonly runtime: RuntimeWish;
  readonly rule: IsolationRule;
  readonly drivers: DriverRule;
  readonly reserve: Reserve;
  readonly settings: Settings;
}

/** What a node would allocate to the worker, and the figures for the ranking. */
export interface Fit {
  readonly runtime: WorkerRuntime;
  readonly devices: readonly DeviceFacts[];
  /** The worst preference of `gpuIds` among the devices; 0 without devices. */
  readonly preference: number;
  /** The devices are of several models. */
  readonly mixed: boolean;
  /** Number of missing items: of the build and the image, if needed. */
  readonly missingLocally: number;
}

export function wanted(state: State, { id, account }: Pick<EndpointConfig, 'id' | 'account'>, release: Release): Wanted {
  const { settings } = state;
  const reserve = workerReserve(release, { cpuMillis: settings.unsizedCpuMillis, memoryBytes: settings.unsizedMemoryBytes });
  const runtime = runtimeWish(release);
  const [rule, drivers] = [isolationRuleOf(state, account, release), driverRuleOf(state, release, runtime.image)];
  return { endpoint: id, release, runtime, rule, drivers, reserve, settings };
}

/** Returns the allocatable resources of a node; Infinity for those that its agent does not report. */
export function capacityOf(facts: NodeFacts, settings: Settings): { readonly cpuMillis: number; readonly memoryBytes: number } {
  return {
    cpuMillis: facts.cpuMillis === 0 ? Number.POSITIVE_INFINITY : facts.cpuMillis * settings.cpuOvercommit,
    memoryBytes:
      facts.memoryBytes === 0
        ? Number.POSITIVE_INFINITY
        : Math.max(0, facts.memoryBytes * settings.memoryOvercommit - settings.memoryReserveBytes),
  };
}

/** Returns the fit of a worker on a node with this usage, or why there is none. */
export function fitOn(want: Wanted, node: NodeRecord, usage: NodeUsage): Fit | Rejected {
  const facts = connected(node, want);
  if ('reason' in facts) return facts;
  const runtime = chooseRuntime(want.runtime, facts, want.rule);
  if (typeof runtime !== 'string') return runtime;
  const chosen = want.release.gpuIds === '' ? noDevices : chooseDevices(want, facts, { usage, inContainer: runtime === 'container' });
  if ('reason' in chosen) return chosen;
  const objection = roomFor(want, facts, usage) ?? diskFor(want, facts);
  if (objection !== null) return objection;
  return { runtime, ...chosen, missingLocally: missingLocally(want, facts, runtime) };
}

type Chosen = Pick<Fit, 'devices' | 'preference' | 'mixed'>;

const noDevices: Chosen = { devices: [], preference: 0, mixed: false };

/** A node whose known devices are not the wanted ones would not take the worker if it were connected, either. */
function connected({ session, facts, config }: NodeRecord, want: Wanted): NodeFacts | Rejected {
  if (facts !== null && session !== null && !config.draining) return facts;
  const missing = facts === null ? null : knownMissing(want, facts);
  if (missing !== null) return missing;
  return { reason: session === null || facts === null ? 'NODE_DISCONNECTED' : 'NODE_DRAINING', detail: '' };
}

/** Returns what the known devices of a node lack, whether or not they can be read now; null if nothing, or if they are not known. */
function knownMissing({ release, settings }: Wanted, { knownKinds }: NodeFacts): Rejected | null {
  if (release.gpuIds === '' || knownKinds === null || knownKinds.some(({ model }) => model === '')) return null;
  const count = Math.max(1, release.gpuCount);
  const selection = settings.gpus.select(release.gpuIds);
  const fitting = knownKinds.filter((kind) => !(kind.slice && count > 1) && selection.preference(kind) !== null);
  const all = fitting.reduce((sum, kind) => sum + kind.count, 0);
  return all < count ? gpuMissing(all, release) : null;
}

function gpuMissing(fitting: number, { gpuIds }: Release): Rejected {
  return { reason: 'GPU_MISSING', detail: `${fitting === 0 ? 'no' : `only ${fitting}`} ${gpuIds}` };
}

/** Free devices of one model. */
interface FreeKind {
  readonly model: string;
  readonly memoryBytes: number;
  readonly preference: number;
  readonly free: readonly DeviceFacts[];
}

/** Where devices are chosen. */
interface DeviceChoice {
  readonly usage: NodeUsage;
  readonly inContainer: boolean;
}

function chooseDevices(want: Wanted, facts: NodeFacts, { usage, inContainer }: DeviceChoice): Chosen | Rejected {
  const { release, settings } = want;
  const drivers = driverRuleOn(want.drivers, facts);
  const count = Math.max(1, release.gpuCount);
  const selection = settings.gpus.select(release.gpuIds);
  let fitting = 0;
  let sick = 0;
  let problem = '';
  const old: DeviceFacts[] = [];
  let needed = '';
  let all = 0;
  const kinds: FreeKind[] = [];
  // Most nodes of a busy fleet have no free devices.
  const full = usage.devices.size >= facts.devices.length;
  for (const { model, memoryBytes, slice, devices } of facts.kinds) {
    // A program sees only one slice, whatever it is given.
    if (slice && count > 1) continue;
    const preference = selection.preference({ model, memoryBytes, slice });
    if (preference === null) continue;
    fitting += devices.length;
    const free: DeviceFacts[] = [];
    for (const device of devices) {
      const objection = driverObjection(drivers, device, inContainer);
      if (objection !== '') {
        old.push(device);
        needed = objection;
      } else if (!device.healthy) {
        sick++;
        problem = device.problem;
      } else if (!full && !usage.devices.has(device.uuid) && !usage.orphans.has(device.uuid)) free.push(device);
    }
    all += free.length;
    if (free.length > 0) kinds.push({ model, memoryBytes, preference, free });
  }
  if (all >= count) return pick(kinds, count);
  if (fitting < count && facts.deviceProblem !== '')
    return knownMissing(want, facts) ?? { reason: 'DEVICE_PROBLEM', detail: facts.deviceProblem };
  if (fitting < count) return gpuMissing(fitting, release);
  const serving = fitting - old.length;
  if (serving < count) return { reason: 'CUDA_TOO_OLD', detail: `${newestDriver(old)}; needs ${needed}` };
  if (serving - sick < count) return { reason: 'DEVICE_PROBLEM', detail: `${sick} of ${serving} unhealthy: ${problem}` };
  return { reason: 'GPU_BUSY', detail: `${all} of ${serving - sick} free` };
}

/**
 * Returns devices of the best preference with enough devices of one model, otherwise the best available ones. The
 * smallest come first, so that big ones stay free.
 */
function pick(kinds: FreeKind[], count: number): Chosen {
  kinds.sort((a, b) => a.preference - b.preference || a.memoryBytes - b.memoryBytes || (a.model < b.model ? -1 : 1));
  for (const { free, preference } of kinds) {
    if (free.length >= count) return { devices: free.slice(0, count), preference, mixed: false };
  }
  const devices: DeviceFacts[] = [];
  let worst = 0;
  for (const { free, preference } of kinds) {
    if (devices.length === count) break;
    devices.push(...free.slice(0, count - devices.length));
    worst = Math.max(worst, preference);
  }
  return { devices, preference: worst, mixed: true };
}

function roomFor({ reserve, settings }: Wanted, facts: NodeFacts, usage: NodeUsage): Rejected | null {
  const all = capacityOf(facts, settings);
  if (usage.cpuMillis + reserve.cpuMillis > all.cpuMillis) {
    const reserved = `${cores(usage.cpuMillis)} of ${cores(all.cpuMillis)} vCPU reserved`;
    return { reason: 'CPU', detail: `${reserved}, needs ${cores(reserve.cpuMillis)}` };
  }
  if (usage.memoryBytes + reserve.memoryBytes > all.memoryBytes) {
    const reserved = `${gigabytes(usage.memoryBytes)} of ${gigabytes(all.memoryBytes)} GB reserved`;
    return { reason: 'MEMORY', detail: `${reserved}, needs ${gigabytes(reserve.memoryBytes)}` };
  }
  return null;
}

/** Size of a build's archive and its unpacked files, in multiples of the archive. */
const UNPACKED_FACTOR = 4;

function diskFor({ release, settings }: Wanted, facts: NodeFacts): Rejected | null {
  if (facts.diskFreeBytes === null || facts.builds.has(release.buildDigest)) return null;
  const needed = release.buildSize * UNPACKED_FACTOR + settings.diskReserveBytes;
  if (facts.diskFreeBytes >= needed) return null;
  return { reason: 'DISK', detail: `${gigabytes(facts.diskFreeBytes)} GB free, needs ${gigabytes(needed)}` };
}

function missingLocally({ release, runtime: wish }: Wanted, facts: NodeFacts, runtime: WorkerRuntime): number {
  const build = release.buildDigest === '' || facts.builds.has(release.buildDigest) ? 0 : 1;
  const image = runtime !== 'container' || facts.images.has(wish.image) ? 0 : 1;
  return build + image;
}

function cores(millis: number): string {
  return String(Math.round(millis / 100) / 10);
}

function gigabytes(bytes: number): string {
  return String(Math.round((bytes / 1024 ** 3) * 10) / 10);
}
