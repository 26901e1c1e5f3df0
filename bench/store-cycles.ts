/** The store alone: runs bench/store/cycles.ts in a separate process and reads its lines. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

export interface StoreCycles {
  /** Cycles of insert, claim and complete per second, by number of waiting rows. */
  readonly depths: readonly { readonly depth: number; readonly cyclesPerSecond: number; readonly p50Ms: number; readonly p99Ms: number }[];
  /** Ratio of the deepest queue to the shallowest. */
  readonly ratio: number;
}

export async function measureStore(options: {
  readonly seconds: number;
  readonly rounds: number;
  readonly depths: readonly number[];
}): Promise<StoreCycles> {
  const args = ['--seconds', String(options.seconds), '--rounds', String(options.rounds), '--depths', options.depths.join(',')];
  const { stdout } = await promisify(execFile)(process.execPath, [join(import.meta.dirname, 'store/cycles.ts'), ...args], {
    maxBuffer: 1 << 24,
  });
  const lines = stdout
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  const depths = lines
    .filter((line) => line['bench'] === 'store-cycles')
    .map((line) => ({
      depth: Number(line['depth']),
      cyclesPerSecond: Number(line['cyclesPerSecond']),
      p50Ms: Number(line['p50Ms']),
      p99Ms: Number(line['p99Ms']),
    }));
  const ratio = Number(lines.find((line) => line['bench'] === 'store-depth-ratio')?.['ratio']);
  if (depths.length !== options.depths.length || Number.isNaN(ratio))
    throw new Error(`bench/store/cycles.ts printed something else than expected:\n${stdout}`);
  return { depths, ratio };
}
