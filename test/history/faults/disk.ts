/** Faults of disks: the data folder of the scheduler or of an agent, on a small disk of its own, becomes full for a while. */
import { execFileSync } from 'node:child_process';
import { closeSync, openSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';

import { isErrno } from '../../../lib/to-error.ts';
import type { FaultSource } from './fault.ts';

/** Room for a run's data, small enough to be filled at once. */
const DISK_MIB = 256;
const BLOCK = Buffer.alloc(1 << 20);
const FILLER = 'filler';
const LASTS_MS = [500, 8_000] as const;

/** Parts with a disk of their own. */
export const ON_OWN_DISK = ['scheduler', 'agent-b'] as const;

export function mountDisk(folder: string): void {
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${DISK_MIB}m,mode=0700`, 'tmpfs', folder]);
}

export function unmountDisk(folder: string): void {
  execFileSync('umount', [folder]);
}

export const disk: FaultSource = (random, stack) => {
  const name = random.pick(ON_OWN_DISK);
  const part = stack.parts.get(name);
  const file = join(stack.folder, name, FILLER);
  const [least, most] = LASTS_MS;
  return {
    target: `the disk of ${name} is full`,
    lastsMs: random.int(least, most),
    // The store cannot go on without its disk. An agent needs none to go on.
    ...(name === 'scheduler' ? { mayEnd: [name] } : {}),
    begin: () => fill(file),
    heal: async () => {
      rmSync(file, { force: true });
      await part?.ready;
    },
  };
};

/** Leaves not one byte, also after what others free meanwhile. */
function fill(file: string): void {
  const descriptor = openSync(file, 'a');
  try {
    for (let bytes = BLOCK.length; bytes >= 1;) {
      try {
        writeSync(descriptor, BLOCK, 0, bytes);
      } catch (error) {
        if (!isErrno(error, 'ENOSPC')) throw error;
        bytes = Math.floor(bytes / 2);
      }
    }
  } finally {
    closeSync(descriptor);
  }
}
