/** The gauges of a device in one minute, and the minutes of an hour as a text of the store. */
import { THROTTLE_REASONS } from '../../lib/throttle-reasons.ts';
import type { Device } from '../../proto/gen/capstan/v1/nodes.ts';

/** What one minute, or a longer step, shows. Null: the device did not report it. */
export interface DeviceMinute {
  /** Means, percent and watts. */
  utilization: number | null;
  power: number | null;
  /** The highest, bytes and degrees Celsius. */
  memory: number | null;
  temperature: number | null;
  /** All of NVML's reasons for lower clocks, but those that are none (an idle GPU, clocks that were asked for). */
  throttle: number;
  /** The last counts. */
  eccCorrected: number | null;
  eccUncorrected: number | null;
  /** The last error of the driver; 0 without one. */
  xid: number;
}

const MEBIBYTE = 2 ** 20;
const LOWERING = THROTTLE_REASONS.reduce((mask, [bit]) => mask | bit, 0n);

/** Samples of one minute. */
export class MinuteSamples {
  #utilization: number[] = [];
  #power: number[] = [];
  readonly #sum: DeviceMinute = emptyMinute();

  add(device: Device): void {
    if (device.utilizationPercent !== undefined) this.#utilization.push(device.utilizationPercent);
    if (device.powerMilliwatts !== undefined) this.#power.push(device.powerMilliwatts / 1_000);
    const throttle = Number((device.throttleReasons ?? 0n) & LOWERING);
    combine(this.#sum, {
      ...emptyMinute(),
      memory: device.memoryBytes === 0n ? null : Number(device.memoryUsedBytes),
      temperature: device.temperatureCelsius ?? null,
      throttle,
      eccCorrected: device.eccCorrected === undefined ? null : Number(device.eccCorrected),
      eccUncorrected: device.eccUncorrected === undefined ? null : Number(device.eccUncorrected),
    });
  }

  /** `errors` of the driver, of which those within the minute count. */
  end(from: number, errors: Device['xids']): DeviceMinute {
    const within = errors.filter(({ atMs }) => Number(atMs) >= from && Number(atMs) < from + 60_000);
    return { ...this.#sum, utilization: mean(this.#utilization), power: mean(this.#power), xid: within.at(-1)?.code ?? 0 };
  }
}

export function emptyMinute(): DeviceMinute {
  return {
    utilization: null,
    power: null,
    memory: null,
    temperature: null,
    throttle: 0,
    eccCorrected: null,
    eccUncorrected: null,
    xid: 0,
  };
}

/** Adds a later minute to a longer step, but its means: those are of all minutes. */
export function combine(sum: DeviceMinute, next: DeviceMinute): void {
  sum.memory = highest(sum.memory, next.memory);
  sum.temperature = highest(sum.temperature, next.temperature);
  sum.throttle |= next.throttle;
  sum.eccCorrected = next.eccCorrected ?? sum.eccCorrected;
  sum.eccUncorrected = next.eccUncorrected ?? sum.eccUncorrected;
  if (next.xid !== 0) sum.xid = next.xid;
}

export function mean(values: readonly number[]): number | null {
  return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length;
}

function highest(a: number | null, b: number | null): number | null {
  return a === null ? b : b === null ? a : Math.max(a, b);
}

/** Places of an encoded minute in which 0 says nothing: reasons for lower clocks, and the error of the driver. */
const ABSENT_AT_ZERO: ReadonlySet<number> = new Set([5, 8]);

/** `[minute, %, W, MiB, °C, throttle, corrected, uncorrected, xid]`; what says nothing at the end is left out. */
export function encodeMinute(minute: number, of: DeviceMinute): (number | null)[] {
  const { utilization, power, memory, temperature, throttle, eccCorrected, eccUncorrected, xid } = of;
  const mebibytes = memory === null ? null : memory / MEBIBYTE;
  const gauges = [utilization, power, mebibytes, temperature].map((value) => (value === null ? null : Math.round(value)));
  const values = [minute, ...gauges, throttle, eccCorrected, eccUncorrected, xid];
  while (values.length > 1) {
    const last = values.at(-1);
    if (last !== null && !(last === 0 && ABSENT_AT_ZERO.has(values.length - 1))) break;
    values.pop();
  }
  return values;
}

/** The minutes of a text by their number within the hour; a text that is none has no minutes. */
export function decodeMinutes(text: string): Map<number, DeviceMinute> {
  const minutes = new Map<number, DeviceMinute>();
  const rows: unknown = JSON.parse(text);
  if (!Array.isArray(rows)) return minutes;
  for (const row of rows) {
    if (!Array.isArray(row)) continue;
    const at = (place: number): number | null => {
      const value: unknown = row[place];
      return typeof value === 'number' ? value : null;
    };
    const memory = at(3);
    minutes.set(at(0) ?? 0, {
      utilization: at(1),
      power: at(2),
      memory: memory === null ? null : memory * MEBIBYTE,
      temperature: at(4),
      throttle: at(5) ?? 0,
      eccCorrected: at(6),
      eccUncorrected: at(7),
      xid: at(8) ?? 0,
    });
  }
  return minutes;
}
