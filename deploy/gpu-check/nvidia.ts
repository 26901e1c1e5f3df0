/** What nvidia-smi itself says, to compare with. It is only asked: nothing here changes a setting of a card. */
import { execFile } from 'node:child_process';
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
  'clocks_throttle_reasons.active',
] as const;

export type GpuRow = Readonly<Record<(typeof COLUMNS)[number], string>>;

export const program = process.env['CAPSTAN_NVIDIA_SMI'] ?? 'nvidia-smi';

async function ask(...args: string[]): Promise<string> {
  return (await promisify(execFile)(program, args, { timeout: 30_000, maxBuffer: 64 << 20 })).stdout;
}

/** The GPUs of this machine. */
export async function gpus(): Promise<GpuRow[]> {
  const text = await ask(`--query-gpu=${COLUMNS.join(',')}`, '--format=csv,noheader,nounits');
  return text
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => {
      const cells = line.split(',').map((cell) => cell.trim());
      return Object.fromEntries(COLUMNS.map((name, i) => [name, cells[i] ?? ''])) as GpuRow;
    });
}

/** The whole report as XML, for the captures that the parser is tested with. */
export function report(): Promise<string> {
  return ask('-q', '-x');
}

/** Memory in use on all GPUs, MiB. */
export async function usedMebibytes(): Promise<number> {
  return (await gpus()).reduce((sum, row) => sum + Number(row['memory.used']), 0);
}

/** Processes that compute on a GPU, by their ids on the host. */
export async function computing(): Promise<number[]> {
  const text = await ask('--query-compute-apps=pid', '--format=csv,noheader,nounits');
  return text
    .split('\n')
    .map((line) => Number(line.trim()))
    .filter((pid) => Number.isInteger(pid) && pid > 0);
}
