/** What nvidia-smi itself says, to compare with. It is only asked: nothing here changes a setting of a card. */
import { execFile } from 'node:child_process';
import { open, readdir, type FileHandle } from 'node:fs/promises';
import { promisify } from 'node:util';

const COLUMNS = [
  'uuid',
  'name',
  'memory.total',
  'memory.used',
  'driver_version',
  'utilization.gpu',
  'temperature.gpu',
  'power.draw',
  'mig.mode.current',
  'ecc.errors.uncorrected.volatile.total',
] as const;
/** One column under two names: drivers before 535 know the second only, those after 570 may drop it. */
const THROTTLE_COLUMNS = ['clocks_event_reasons.active', 'clocks_throttle_reasons.active'] as const;

export type GpuRow = Readonly<Record<(typeof COLUMNS)[number], string>>;

export const program = process.env['CAPSTAN_NVIDIA_SMI'] ?? 'nvidia-smi';

async function ask(...args: string[]): Promise<string> {
  try {
    return (await promisify(execFile)(program, args, { timeout: 30_000, maxBuffer: 64 << 20 })).stdout;
  } catch (error) {
    // It explains its failures on stdout.
    const { stdout = '', stderr = '', message } = error as { stdout?: string; stderr?: string; message: string };
    throw new Error(
      [message.split('\n')[0], stdout.trim().slice(0, 300), stderr.trim().slice(0, 300)].filter((text) => text !== '').join(': '),
      { cause: error },
    );
  }
}

async function table(columns: readonly string[]): Promise<string[][]> {
  const text = await ask(`--query-gpu=${columns.join(',')}`, '--format=csv,noheader,nounits');
  return text
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => line.split(',').map((cell) => cell.trim()));
}

/** The GPUs of this machine. */
export async function gpus(): Promise<GpuRow[]> {
  const rows = await table(COLUMNS);
  return rows.map((cells) => Object.fromEntries(COLUMNS.map((name, i) => [name, cells[i] ?? ''])) as GpuRow);
}

/** Masks of the reasons for lower clocks by uuid; undefined where the driver knows no such column. */
export async function throttleReasons(): Promise<ReadonlyMap<string, bigint> | undefined> {
  for (const column of THROTTLE_COLUMNS) {
    try {
      const rows = await table(['uuid', column]);
      return new Map(rows.flatMap(([uuid = '', mask = '']) => (/^0x[0-9a-f]+$/i.test(mask) ? [[uuid, BigInt(mask)] as const] : [])));
    } catch (error) {
      if (!/not a valid field/i.test(String(error))) throw error;
    }
  }
  return undefined;
}

/** The whole report as XML, for the captures that the parser is tested with. */
export function report(): Promise<string> {
  return ask('-q', '-x');
}

/** Memory in use on all GPUs, MiB. */
export async function usedMebibytes(): Promise<number> {
  return (await table(['memory.used'])).reduce((sum, [used]) => sum + (Number(used) || 0), 0);
}

/** A file that nothing refers to is closed. */
const awake: FileHandle[] = [];

/**
 * Keeps the device files open: without persistence mode the driver starts a card anew for every nvidia-smi, which takes seconds.
 * Opening is all that nvidia-persistenced does, too; no setting changes. Returns how many were opened.
 */
export async function keepAwake(): Promise<number> {
  const names = (await readdir('/dev')).filter((name) => /^nvidia\d+$/.test(name));
  const opened = await Promise.allSettled(names.map((name) => open(`/dev/${name}`, 'r')));
  awake.push(...opened.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : [])));
  return awake.length;
}
