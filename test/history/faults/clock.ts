/** Faults of clocks: the wall clock of one part steps forward or back, and back to the right time later. The monotonic clock goes on. */
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import type { Random } from '../../simulator/random.ts';
import type { HistoryStack } from '../stack/stack.ts';
import type { Fault, FaultSource } from './fault.ts';

/** The furthest step in either direction, s. */
export const FURTHEST_S = 90;
const LASTS_MS = [2_000, 15_000] as const;
const LIBRARY = 'faketime/libfaketimeMT.so.1';

/** Path of Debian's libfaketime; undefined where it is not installed. */
export function findLibrary(): string | undefined {
  for (const name of readdirSync('/usr/lib')) {
    const found = name.endsWith('-linux-gnu') ? listed(join('/usr/lib', name, LIBRARY)) : undefined;
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Environment of a part whose clock can step, and the source of its steps; each part has a file that says how wrong its clock is. */
export function clockFaults(
  library: string,
  folder: string,
): { readonly env: (part: string) => NodeJS.ProcessEnv; readonly source: FaultSource } {
  const fileOf = (part: string): string => join(folder, `clock-${part}`);
  const set = (part: string, seconds: number): void => writeFileSync(fileOf(part), `${seconds < 0 ? '' : '+'}${seconds}\n`);
  const env = (part: string): NodeJS.ProcessEnv => {
    set(part, 0);
    return { LD_PRELOAD: library, FAKETIME_TIMESTAMP_FILE: fileOf(part), FAKETIME_CACHE_DURATION: '1', FAKETIME_DONT_FAKE_MONOTONIC: '1' };
  };
  const source = (random: Random, stack: HistoryStack): Fault => {
    const part = random.pick([...stack.parts.keys()]);
    const seconds = random.int(1, FURTHEST_S) * (random.chance(0.5) ? 1 : -1);
    const [least, most] = LASTS_MS;
    return {
      target: `${part} by ${seconds} s`,
      lastsMs: random.int(least, most),
      begin: () => set(part, seconds),
      heal: () => set(part, 0),
    };
  };
  return { env, source };
}

function listed(path: string): string | undefined {
  const folder = path.slice(0, path.lastIndexOf('/'));
  try {
    return readdirSync(folder).some((name) => path.endsWith(`/${name}`)) ? path : undefined;
  } catch {
    return undefined; // no such folder
  }
}
