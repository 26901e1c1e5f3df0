/**
 * Merges probe results into the reported devices: a device once seen stays, unhealthy with a reason, until it is seen
 * again.
 */
import type { Device } from '../../proto/gen/capstan/v1/nodes.ts';
import { MIG_PARENT } from './nvidia-probe.ts';
import type { DeviceFacts, ProbeResult } from './probe.ts';

export interface DeviceSet {
  readonly devices: readonly Device[];
  readonly problem: string;
}

export const NO_DEVICES: DeviceSet = { devices: [], problem: '' };

/** Returns the set after a full probe, which lists every device. */
export function afterFullProbe(before: DeviceSet, result: ProbeResult): DeviceSet {
  if (result.kind !== 'devices') return withoutAnswer(before, result);
  return { devices: merge(before.devices, result.devices, result.problem), problem: result.problem };
}

/**
 * Returns the set after a light probe, which has the gauges of whole GPUs, and of slices only whether their GPU is
 * present.
 */
export function afterLightProbe(before: DeviceSet, result: ProbeResult): DeviceSet {
  if (result.kind !== 'devices') return withoutAnswer(before, result);
  const rows = result.devices.filter(({ uuid }) => uuid !== '');
  const parents = new Map(rows.map((row) => [row.uuid, row]));
  const slices: DeviceFacts[] = [];
  for (const { uuid, parentUuid } of before.devices) {
    const parent = parentUuid === '' ? undefined : parents.get(parentUuid);
    if (parent === undefined) continue;
    const problem = parent.problem === MIG_PARENT ? undefined : parent.problem;
    const { temperatureCelsius } = parent;
    slices.push({
      uuid,
      parentUuid,
      ...(temperatureCelsius === undefined ? {} : { temperatureCelsius }),
      ...(problem === undefined ? {} : { problem }),
    });
  }
  const whole = result.devices.filter((row) => row.problem !== MIG_PARENT);
  return {
    devices: merge(before.devices, [...whole, ...slices], result.problem),
    problem: before.devices.length > 0 ? before.problem : result.problem,
  };
}

/** True when anything other than a gauge differs: such a change is reported immediately. */
export function differs(a: DeviceSet, b: DeviceSet): boolean {
  const shape = ({ devices, problem }: DeviceSet): string =>
    JSON.stringify([
      problem,
      devices.map((device) => [
        device.uuid,
        device.model,
        String(device.memoryBytes),
        device.computeCapability,
        device.driverVersion,
        device.cudaVersion,
        device.healthy,
        device.problem,
        device.recoveryAction,
        device.xids.length,
        String(device.eccUncorrected ?? ''),
      ]),
    ]);
  return shape(a) !== shape(b);
}

function withoutAnswer(before: DeviceSet, result: Exclude<ProbeResult, { kind: 'devices' }>): DeviceSet {
  if (result.kind === 'none') {
    return { devices: before.devices.map((device) => unhealthy(device, 'nvidia-smi disappeared')), problem: '' };
  }
  return { devices: before.devices.map((device) => unhealthy(device, result.problem)), problem: result.problem };
}

/**
 * Placeholder name of a GPU whose UUID could not be read. CUDA does not accept it, so such a device is never healthy.
 */
const UNIDENTIFIED = 'unidentified at ';

/**
 * A GPU without a readable UUID is matched to the one seen before on the same bus; without a match it gets a
 * placeholder name.
 */
function identified(before: readonly Device[], found: readonly DeviceFacts[]): DeviceFacts[] {
  return found.flatMap((facts) => {
    if (facts.uuid !== '') return [facts];
    const { pciBusId = '', problem = 'its UUID is not readable' } = facts;
    const known = before.filter((device) => device.pciBusId === pciBusId && pciBusId !== '' && !device.uuid.startsWith(UNIDENTIFIED));
    if (known.length === 0) return [{ ...facts, uuid: `${UNIDENTIFIED}${pciBusId}`, problem }];
    return known.map(({ uuid, parentUuid }) => ({ uuid, problem, ...(parentUuid === '' ? {} : { parentUuid }) }));
  });
}

/** Devices that cannot be told apart count as one unusable device. */
function distinct(found: readonly DeviceFacts[]): DeviceFacts[] {
  return [...Map.groupBy(found, ({ uuid }) => uuid).values()].flatMap(([first, ...others]) => {
    if (first === undefined) return [];
    return others.length === 0 ? [first] : [{ ...first, problem: first.problem ?? 'nvidia-smi lists its UUID more than once' }];
  });
}

/** `message`: what nvidia-smi printed beside its result; it may name a lost GPU by its bus. */
function merge(before: readonly Device[], answer: readonly DeviceFacts[], message: string): Device[] {
  const found = distinct(identified(before, answer));
  const known = new Map(before.map((device) => [device.uuid, device]));
  const devices = found.map((facts) => deviceOf(facts, known.get(facts.uuid)));
  // A GPU that is present in another form (cut into slices, or whole again) is not lost.
  const seen = new Set(found.flatMap(({ uuid, parentUuid }) => (parentUuid === undefined ? [uuid] : [uuid, parentUuid])));
  const lost = before
    .filter(({ uuid, parentUuid }) => !seen.has(uuid) && !seen.has(parentUuid) && !uuid.startsWith(UNIDENTIFIED))
    .map((device) => unhealthy(device, names(message, device) ? message : 'nvidia-smi no longer lists it'));
  return [...devices, ...lost];
}

function names(message: string, { pciBusId }: Device): boolean {
  return pciBusId !== '' && message.toLowerCase().includes(pciBusId);
}

function deviceOf(facts: DeviceFacts, before: Device | undefined): Device {
  return {
    uuid: facts.uuid,
    model: facts.model ?? before?.model ?? '',
    memoryBytes: facts.memoryBytes === undefined ? (before?.memoryBytes ?? 0n) : BigInt(facts.memoryBytes),
    memoryUsedBytes: facts.memoryUsedBytes === undefined ? (before?.memoryUsedBytes ?? 0n) : BigInt(facts.memoryUsedBytes),
    computeCapability: facts.computeCapability ?? before?.computeCapability ?? '',
    driverVersion: facts.driverVersion ?? before?.driverVersion ?? '',
    cudaVersion: facts.cudaVersion ?? before?.cudaVersion ?? '',
    utilizationPercent: facts.utilizationPercent,
    temperatureCelsius: facts.temperatureCelsius,
    powerMilliwatts: facts.powerMilliwatts,
    throttleReasons: facts.throttleReasons,
    parentUuid: facts.parentUuid ?? before?.parentUuid ?? '',
    healthy: facts.problem === undefined,
    problem: facts.problem ?? '',
    pciBusId: facts.pciBusId ?? before?.pciBusId ?? '',
    eccCorrected: facts.eccCorrected === undefined ? before?.eccCorrected : BigInt(facts.eccCorrected),
    eccUncorrected: facts.eccUncorrected === undefined ? before?.eccUncorrected : BigInt(facts.eccUncorrected),
    recoveryAction: facts.recoveryAction ?? before?.recoveryAction ?? '',
    xids: before?.xids ?? [],
  };
}

function unhealthy(device: Device, problem: string): Device {
  const gauges = { utilizationPercent: undefined, temperatureCelsius: undefined, powerMilliwatts: undefined, throttleReasons: undefined };
  return { ...device, healthy: false, problem, ...gauges };
}
