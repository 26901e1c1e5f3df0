/** The texts that nvidia-smi prints, as values: numbers with units, tables without a header, the list of MIG slices. */
import type { DeviceFacts } from './probe.ts';

const MEBIBYTE = 1024 * 1024;
const UNITS: Readonly<Record<string, number>> = { B: 1, KiB: 1024, MiB: MEBIBYTE, GiB: 1024 * MEBIBYTE };

/** More than any device has, bytes: an amount beyond it is an error of the program that printed it. */
const MAX_BYTES = 2 ** 50;
const MAX_CELSIUS = 1_000;
/** Longest text that is kept of a value, characters. */
const MAX_TEXT = 200;

/** True for the UUID of a whole GPU; false for an error in its place. */
export function isGpuUuid(text: string): boolean {
  return /^GPU-[0-9A-Za-z-]{1,64}$/.test(text);
}

/** True for the UUID of a MIG slice, in the form of today or in the older one with the parent's UUID and two numbers. */
export function isSliceUuid(text: string): boolean {
  return /^MIG-[0-9A-Za-z-]{1,64}(?:\/\d{1,4}\/\d{1,4})?$/.test(text);
}

/** Why a device without a UUID cannot be used. */
export function uuidProblem(text: string | undefined): string {
  const shown = text?.trim().slice(0, MAX_TEXT) ?? '';
  return shown === '' ? 'nvidia-smi reports no UUID' : `nvidia-smi reports ${shown} instead of its UUID`;
}

/** `81920 MiB` in bytes; absent for `N/A` and whatever else is no amount. */
export function bytesOf(text: string | undefined): number | undefined {
  const [, amount, unit = 'MiB'] = /^\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)?\s*$/.exec(text ?? '') ?? [];
  const factor = UNITS[unit];
  if (amount === undefined || factor === undefined) return undefined;
  const bytes = Math.round(Number(amount) * factor);
  return bytes <= MAX_BYTES ? bytes : undefined;
}

/** A share of 0 to 100; absent for anything else. */
export function percentOf(text: string | undefined): number | undefined {
  const percent = numberOf(text);
  return percent !== undefined && percent <= 100 ? percent : undefined;
}

/** A temperature in degrees Celsius; absent for anything else. */
export function celsiusOf(text: string | undefined): number | undefined {
  const celsius = numberOf(text);
  return celsius !== undefined && celsius <= MAX_CELSIUS ? celsius : undefined;
}

/** `65 %`, `44 C`, `44`: the number; absent for anything else. */
export function numberOf(text: string | undefined): number | undefined {
  const [, amount] = /^\s*(\d+(?:\.\d+)?)\s*(?:%|C)?\s*$/.exec(text ?? '') ?? [];
  const number = Math.round(Number(amount));
  return amount === undefined || number > Number.MAX_SAFE_INTEGER ? undefined : number;
}

/** `00000000:3B:00.0` of nvidia-smi and `0000:3b:00` of the kernel as one: `0000:3b:00`. */
export function busIdOf(text: string | undefined): string | undefined {
  const [, domain, rest] = /^\s*([0-9a-f]{4,8}):([0-9a-f]{2}:[0-9a-f]{2})(?:\.[0-9a-f])?\s*$/i.exec(text ?? '') ?? [];
  return domain === undefined || rest === undefined ? undefined : `${domain.slice(-4)}:${rest}`.toLowerCase();
}

/** A text that says something: not empty, `N/A`, `[Not Supported]` or an error mark. */
export function textOf(text: string | undefined): string | undefined {
  const trimmed = text?.trim();
  return trimmed === undefined || trimmed === '' || isVoid(trimmed) || isTrouble(trimmed) ? undefined : trimmed.slice(0, MAX_TEXT);
}

/** Errors that nvidia-smi prints in the place of a value: `ERR!`, and NVML's own ones that concern the card or its driver. */
const TROUBLE =
  /ERR!|Unknown Error|requires reset|GPU is lost|\[Unknown\b|Insufficient External Power|Driver Not Loaded|IRQ Issue|access blocked|version mismatch|\[Timeout\]/i;

/** True for a value that says that a card is in trouble. */
export function isTrouble(text: string): boolean {
  return TROUBLE.test(text);
}

/** What nvidia-smi says about its failure: the first line that is neither a row of a table nor XML, 300 characters at most. */
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

/** Columns of the light probe, in order; the names are nvidia-smi's (`--help-query-gpu`). */
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
] as const;
/** Old drivers know neither MIG nor compute_cap and refuse the whole query for them. */
export const OLD_COLUMNS = LIGHT_COLUMNS.slice(0, -2);

export interface LightRow extends DeviceFacts {
  readonly migEnabled: boolean;
}

/**
 * Rows of `--format=csv,noheader,nounits`. Other lines are skipped: warnings, and a row that
 * breaks off. A row without a UUID stands for a GPU that cannot be used.
 */
export function parseLight(text: string): LightRow[] {
  const rows: LightRow[] = [];
  for (const line of text.split('\n')) {
    const cells = line.split(',').map((cell) => cell.trim());
    const [uuid = '', name, total, used, driver, utilization, temperature, bus, , , mig, capability] = cells;
    const pciBusId = busIdOf(bus);
    const identified = isGpuUuid(uuid);
    // Without UUID and bus nothing says which GPU it is, or whether it is a row at all.
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
  /** Position among the slices of its GPU. */
  readonly index: number;
  readonly uuid: string;
  /** For example `1g.10gb`. */
  readonly profile: string;
}

/** The MIG slices of `nvidia-smi -L`, the only place that prints their UUIDs. */
export function parseList(text: string): ListedSlice[] {
  const slices: ListedSlice[] = [];
  let parentUuid = '';
  for (const line of text.split('\n')) {
    const gpu = /^GPU \d+:.*\(UUID: ([^)]*)\)/.exec(line);
    // The slices below a GPU without a UUID belong to no other one.
    if (gpu?.[1] !== undefined) parentUuid = isGpuUuid(gpu[1]) ? gpu[1] : '';
    const slice = /^\s+MIG (\S+)\s+Device\s+(\d+):\s*\(UUID: ([^)]*)\)/.exec(line);
    const [, profile, index, uuid] = slice ?? [];
    if (profile !== undefined && uuid !== undefined && isSliceUuid(uuid) && parentUuid !== '')
      slices.push({ parentUuid, index: Number(index), uuid, profile });
  }
  return slices;
}

/** Leaves out what is not known: an absent fact must not overwrite one that another probe found. */
export function facts<T extends object>(values: { [K in keyof T]: T[K] | undefined }): Partial<T> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Partial<T>;
}
