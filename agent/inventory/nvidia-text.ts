/** The texts that nvidia-smi prints, as values: numbers with units, tables without a header, the list of MIG slices. */
import type { DeviceFacts } from './probe.ts';

const MEBIBYTE = 1024 * 1024;
const UNITS: Readonly<Record<string, number>> = { B: 1, KiB: 1024, MiB: MEBIBYTE, GiB: 1024 * MEBIBYTE };

/** `81920 MiB` in bytes; absent for `N/A` and whatever else is no amount. */
export function bytesOf(text: string | undefined): number | undefined {
  const [, amount, unit = 'MiB'] = /^\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)?\s*$/.exec(text ?? '') ?? [];
  const factor = UNITS[unit];
  return amount === undefined || factor === undefined ? undefined : Math.round(Number(amount) * factor);
}

/** `65 %`, `44 C`, `44`: the number; absent for anything else. */
export function numberOf(text: string | undefined): number | undefined {
  const [, amount] = /^\s*(\d+(?:\.\d+)?)\s*(?:%|C)?\s*$/.exec(text ?? '') ?? [];
  return amount === undefined ? undefined : Math.round(Number(amount));
}

/** `00000000:3B:00.0` of nvidia-smi and `0000:3b:00` of the kernel as one: `0000:3b:00`. */
export function busIdOf(text: string | undefined): string | undefined {
  const [, domain, rest] = /^\s*([0-9a-f]{4,8}):([0-9a-f]{2}:[0-9a-f]{2})(?:\.[0-9a-f])?\s*$/i.exec(text ?? '') ?? [];
  return domain === undefined || rest === undefined ? undefined : `${domain.slice(-4)}:${rest}`.toLowerCase();
}

/** A text that says something: not empty, `N/A`, `[Not Supported]` or an error mark. */
export function textOf(text: string | undefined): string | undefined {
  const trimmed = text?.trim();
  return trimmed === undefined || trimmed === '' || isVoid(trimmed) || isTrouble(trimmed) ? undefined : trimmed;
}

/** nvidia-smi's way to say inside of a value that a card is in trouble. */
export function isTrouble(text: string): boolean {
  return /ERR!|Unknown Error|requires reset|GPU is lost|\[Unknown\b/i.test(text);
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
  'mig.mode.current',
  'compute_cap',
] as const;
/** Old drivers know neither MIG nor compute_cap and refuse the whole query for them. */
export const OLD_COLUMNS = LIGHT_COLUMNS.slice(0, -2);

export interface LightRow extends DeviceFacts {
  readonly migEnabled: boolean;
}

/** Rows of `--format=csv,noheader,nounits`; lines that are no row are skipped, so a warning among them does no harm. */
export function parseLight(text: string): LightRow[] {
  const rows: LightRow[] = [];
  for (const line of text.split('\n')) {
    const cells = line.split(',').map((cell) => cell.trim());
    const [uuid = '', name, total, used, driver, utilization, temperature, mig, capability] = cells;
    if (!/^GPU-[0-9A-Za-z-]+$/.test(uuid) || cells.length < OLD_COLUMNS.length) continue;
    const trouble = cells.find(isTrouble);
    rows.push({
      uuid,
      migEnabled: mig === 'Enabled',
      ...facts({
        model: textOf(name),
        memoryBytes: bytesOf(total),
        memoryUsedBytes: bytesOf(used),
        driverVersion: textOf(driver),
        utilizationPercent: numberOf(utilization),
        temperatureCelsius: numberOf(temperature),
        computeCapability: textOf(capability),
        problem: trouble === undefined ? undefined : `nvidia-smi reports ${trouble}`,
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
    const gpu = /^GPU \d+:.*\(UUID: (GPU-[^)\s]+)\)/.exec(line);
    if (gpu?.[1] !== undefined) parentUuid = gpu[1];
    const slice = /^\s+MIG (\S+)\s+Device\s+(\d+):\s*\(UUID: (MIG-[^)\s]+)\)/.exec(line);
    const [, profile, index, uuid] = slice ?? [];
    if (profile !== undefined && uuid !== undefined && parentUuid !== '') slices.push({ parentUuid, index: Number(index), uuid, profile });
  }
  return slices;
}

/** Leaves out what is not known: an absent fact must not overwrite one that another probe found. */
export function facts<T extends object>(values: { [K in keyof T]: T[K] | undefined }): Partial<T> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Partial<T>;
}
