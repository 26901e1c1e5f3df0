/**
 * Power cuts for tests. Processes that run with {@link DiskRecording.env} record what they do to the files below a
 * folder; `survivors` then says what a power cut at any moment of the recording leaves of it, and `cut` writes that into
 * a new folder, on which a service may start again.
 *
 *   const disk = await recordDisk(t, folder);
 *   …start a service with disk.env on data in `folder`, wait for an acknowledgement…
 *   const moment = disk.position();
 *   const left = await disk.cut(t, moment);
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { join } from 'node:path';

import type { ExecutionContext } from 'ava';

import { folderOf } from '../folder.ts';
import { parseEvents } from './events.ts';
import { DiskModel, presentIn, writeSurvivors } from './survivors.ts';

const COMPILERS = ['/usr/bin/cc', '/usr/bin/gcc', '/usr/bin/clang'];
const compiler = COMPILERS.find((path) => existsSync(path));

/** Why power cuts cannot be recorded here; null if they can. */
export const whyNoPowerCuts =
  process.platform !== 'linux'
    ? 'calls of a process are recorded on Linux only'
    : compiler === undefined
      ? 'no C compiler is installed'
      : null;

export interface DiskRecording {
  /** For the processes to record. Their children are recorded as well, unless they get another environment. */
  readonly env: Readonly<Record<string, string>>;
  /** The moment: whatever was done to a file by now has a lower position. */
  position(): number;
  /** Path below the folder → bytes of each file that survives a power cut at this moment; null for a folder. */
  survivors(moment?: number): Map<string, Buffer | null>;
  /** Writes what survives a power cut at this moment into a new folder. */
  cut(t: ExecutionContext, moment?: number): Promise<string>;
}

/** Begins a recording of a folder, of which everything counts as synced now. */
export async function recordDisk(t: ExecutionContext, folder: string): Promise<DiskRecording> {
  if (compiler === undefined) throw new Error('no C compiler is installed');
  const root = realpathSync(folder);
  const own = await folderOf(t);
  const library = join(own, 'recorder.so');
  const log = join(own, 'log');
  execFileSync(compiler, ['-shared', '-fPIC', '-O1', '-o', library, join(import.meta.dirname, 'recorder.c'), '-ldl']);
  const present = await presentIn(root);
  const position = (): number => (existsSync(log) ? statSync(log).size : 0);
  const survivors = (moment = position()): Map<string, Buffer | null> => {
    const model = new DiskModel(root, present);
    for (const event of parseEvents(moment === 0 ? Buffer.alloc(0) : readFileSync(log).subarray(0, moment))) model.apply(event);
    return model.survivors();
  };
  return {
    env: { LD_PRELOAD: library, POWER_CUT_ROOT: root, POWER_CUT_LOG: log, UV_USE_IO_URING: '0' },
    position,
    survivors,
    async cut(into, moment) {
      const target = await folderOf(into);
      await writeSurvivors(survivors(moment), target);
      return target;
    },
  };
}
