/** Parses the text that nvidia-smi prints: numbers with units, tables without a header, the list of MIG slices. */
import type { DeviceFacts } from './probe.ts';

const MEBIBYTE = 1024 * 1024;
const UNITS: Readonly<Record<string, number>> = { B: 1, KiB: 1024, MiB: MEBIBYTE, GiB: 1024 * MEBIBYTE };

/** More than any device has, bytes: a larger amount is an error in nvidia-smi's output. */
const MAX_BYTES = 2 ** 50;
const MAX_CELSIUS = 1_000;
/** Longest text kept of a value, characters. */
const MAX_TEXT = 200;

/** True for the UUID of a whole GPU; false for an error in its place. */
export function isGpuUuid(text: string): boolean {
  return /^GPU-[0-9A-Za-z-]{1,64}$/.test(text);
}

/** True for the UUID of a MIG slice, in today's form or in the older one with the parent's UUID and two numbers. */
export function isSliceUuid(text: string): boolean {
  return /^MIG-[0-9A-Za-z-]{1,64}(?:\/\d{1,4}\/\d{1,4})?$/.test(text);
}

/** Returns why a device without a UUID cannot be used. */
export function uuidProblem(text: string | undefined): string {
  const shown = text?.trim().slice(0, MAX_TEXT) ?? '';
  return shown === '' ? 'nvidia-smi reports no UUID' : `nvidia-smi reports ${shown} instead of its UUID`;
}

/** Converts `81920 MiB` to bytes; absent for `N/A` and anything that is not an amount. */
export function bytesOf(text: string | undefined): number | undefined {
  const [, amount, unit = 'MiB'] = /^\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)?\s*$/.exec(text ?? '') ?? [];
  const factor = UNITS[unit];
  if (amount === undefined || factor === undefined) return undefined;
  const bytes = Math.round(Number(amount) * factor);
  return bytes <= MAX_BYTES ? bytes : undefined;
}

/** A percentage, 0 to 100; absent for anything else. */
export function percentOf(text: string | undefined): number | undefined {
  const percent = numberOf(text);
  return percent !== undefined && percent <= 100 ? percent : undefined;
}

/** A temperature in degrees Celsius; absent for anything else. */
export function celsiusOf(text: string | undefined): number | undefined {
  const celsius = numberOf(text);
  return celsius !== undefined && celsius <= MAX_CELSIUS ? celsius : undefined;
}

/** Converts `67.03` (watts) to milliwatts; absent for anything else. */
export function milliwattsOf(text: string | undefined): number | undefined {
  const [, watts] = /^\s*(\d{1,5}(?:\.\d+)?)\s*(?:W)?\s*$/.exec(text ?? '') ?? [];
  return watts === undefined ? undefined : Math.round(Number(watts) * 1_000);
}

/** A mask in hexadecimal, `0x0000000000000004`; absent for anything else. */
export function maskOf(text: string | undefined): bigint | undefined {
  return /^\s*0x[0-9a-f]{1,16}\s*$/i.test(text ?? '') ? BigInt((text ?? '').trim()) : undefined;
}

/** Parses the number in `65 %`, `44 C`, `44`; absent for anything else. */
export function numberOf(text: string | undefined): number | undefined {
  const [, amount] = /^\s*(\d+(?:\.\d+)?)\s*(?:%|C)?\s*$/.exec(text ?? '') ?? [];
  const number = Math.round(Number(amount));
  return amount === undefined || number > Number.MAX_SAFE_INTEGER ? undefined : number;
}

/** Normalizes `00000000:3B:00.0` (nvidia-smi) and `0000:3b:00` (kernel) to `0000:3b:00`. */
export function busIdOf(text: string | undefined): string | undefined {
  const [, domain, rest] = /^\s*([0-9a-f]{4,8}):([0-9a-f]{2}:[0-9a-f]{2})(?:\.[0-9a-f])?\s*$/i.exec(text ?? '') ?? [];
  return domain === undefined || rest === undefined ? undefined : `${domain.slice(-4)}:${rest}`.toLowerCase();
}

/** Returns the text if it has information: not empty, `N/A`, `[Not Supported]` or an error mark. */
export function textOf(text: string | undefined): string | undefined {
  const trimmed = text?.trim();
  return trimmed === undefined || trimmed === '' || isVoid(trimmed) || isTrouble(trimmed) ? undefined : trimmed.slice(0, MAX_TEXT);
}

/** Errors that nvidia-smi prints in place of a value: `ERR!`, and NVML errors about the card or its driver. */
const TROUBLE =
  /ERR!|Unknown Error|requires reset|GPU is lost|\[Unknown\b|Insufficient External Power|Driver Not Loaded|IRQ Issue|access blocked|version mismatch|\[Timeout\]/i;

/** True for a value that reports a failing card. */
export function isTrouble(text: string): boolean {
  return TROUBLE.test(text);
}

/** Returns nvidia-smi's error message: the first line that is neither a table row nor XML, at most 300 characters. */
export function messageIn(...outputs: readonly string[]): string {
  for (const output of outputs) {
    for (const line of output.split('\n')) {
      const text = line.trim();
      if (text !== '' && !/^(?:<|GPU-|MIG-|GPU \d+:)/.test(text)) return text.slice(0, 300);
    }
  }
  return '';
}

function isVoid(text: string): boolean {
  return /^\[?(N\/A|Not Supported|Not Available|None|Insufficient Permissions|Unknown)\]?$/i.test(text);
}

/** Columns of the light probe, in order, with nvidia-smi's names (`--help-query-gpu`). */
export const LIGHT_COLUMNS = [
  'uuid',
  'name',
  'memory.total',
  'memory.used',
  'driver_version',
  'utilization.gpu',
  'temperature.gpu',
  'pci.bus_id',
  'fan.speed',
  'power.draw',
  'mig.mode.current',
  'compute_cap',
  'clocks_throttle_reasons.active',
] as const;
/** Drivers from 535 on have the last column under this name; the earlier one is deprecated. */
export const RENAMED_COLUMNS = [...LIGHT_COLUMNS.slice(0, -1), 'clocks_event_reasons.active'];
/** Old drivers know neither MIG nor the columns behind it and refuse the whole query because of them. */
export const OLD_COLUMNS = LIGHT_COLUMNS.slice(0, -3);

export interface LightRow extends DeviceFacts {
  readonly migEnabled: boolean;
}

/**
 * Parses the rows of `--format=csv,noheader,nounits`. Other lines are skipped: warnings, and truncated rows. A row
 * without a UUID stands for an unusable GPU.
 */
export function parseLight(text: string): LightRow[] {
  const rows: LightRow[] = [];
  for (const line of text.split('\n')) {
    const cells = line.split(',').map((cell) => cell.trim());
    const [uuid = '', name, total, used, driver, utilization, temperature, bus, , power, mig, capability, throttle] = cells;
    const pciBusId = busIdOf(bus);
    const identified = isGpuUuid(uuid);
    // Without UUID and bus, the line identifies no GPU and may not be a row at all.
    if (cells.length < OLD_COLUMNS.length || (!identified && pciBusId === undefined)) continue;
    const trouble = cells.find(isTrouble);
    const reported = trouble === undefined ? undefined : `nvidia-smi reports ${trouble.slice(0, MAX_TEXT)}`;
    const problem = identified ? reported : uuidProblem(uuid);
    rows.push({
      uuid: identified ? uuid : '',
      migEnabled: mig === 'Enabled',
      ...facts({
        model: textOf(name),
        memoryBytes: bytesOf(total),
        memoryUsedBytes: bytesOf(used),
        driverVersion: textOf(driver),
        utilizationPercent: percentOf(utilization),
        temperatureCelsius: celsiusOf(temperature),
        powerMilliwatts: milliwattsOf(power),
        throttleReasons: maskOf(throttle),
        pciBusId,
        computeCapability: textOf(capability),
        problem,
      }),
    });
  }
  return rows;
}

export interface ListedSlice {
  readonly parentUuid: string;
  /** Index among the slices of its GPU. */
  readonly index: number;
  readonly uuid: string;
  /** For example `1g.10gb`. */
  readonly profile: string;
}

/** Returns the MIG slices of `nvidia-smi -L`, the only output with their UUIDs. */
export function parseList(text: string): ListedSlice[] {
  const slices: ListedSlice[] = [];
  let parentUuid = '';
  for (const line of text.split('\n')) {
    const gpu = /^GPU \d+:.*\(UUID: ([^)]*)\)/.exec(line);
    // The slices below a GPU without a UUID belong to no other GPU.
    if (gpu?.[1] !== undefined) parentUuid = isGpuUuid(gpu[1]) ? gpu[1] : '';
    const slice = /^\s+MIG (\S+)\s+Device\s+(\d+):\s*\(UUID: ([^)]*)\)/.exec(line);
    const [, profile, index, uuid] = slice ?? [];
    if (profile !== undefined && uuid !== undefined && isSliceUuid(uuid) && parentUuid !== '')
      slices.push({ parentUuid, index: Number(index), uuid, profile });
  }
  return slices;
}

/** Removes unknown facts: an absent fact must not overwrite one from another probe. */
export function facts<T extends object>(values: { [K in keyof T]: T[K] | undefined }): Partial<T> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Partial<T>;
}
