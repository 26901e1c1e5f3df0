/** A file system of a few megabytes, to be filled: a tmpfs of the test's own. It takes root. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmdirSync, statfsSync, writeFileSync, rmSync, openSync, writeSync, closeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { ExecutionContext } from 'ava';

import { isErrno } from '../../lib/to-error.ts';
import { folderOf } from './folder.ts';

/** Why there can be none here, for the title of a test that is skipped; empty where there can. */
export const whyNoSmallDisk: string = tryMount();

export interface SmallDisk {
  readonly path: string;
  /** Takes what is left but for `bytes`. */
  fill(leaveBytes?: number): void;
  /** Gives back what `fill` took. */
  free(): void;
  unmount(): void;
}

/** Mounts one for a test, on a folder of its own or on this one; it goes with the test, after the teardowns that were registered later. */
export async function smallDisk(t: ExecutionContext, size: string, folder?: string): Promise<SmallDisk> {
  const path = folder ?? (await folderOf(t));
  mount(path, size);
  let isMounted = true;
  const unmount = (): void => {
    if (!isMounted) return;
    isMounted = false;
    // Lazily: a process that is ending may still have a file open.
    execFileSync('umount', ['--lazy', path]);
  };
  t.teardown(unmount);
  const ballast = join(path, 'ballast');
  return {
    path,
    fill(leaveBytes = 0) {
      const { bavail, bsize } = statfsSync(path);
      const file = openSync(ballast, 'a');
      try {
        for (let left = bavail * bsize - leaveBytes; left > 0;) left -= writeSync(file, Buffer.alloc(Math.min(left, 65_536)));
      } catch (error) {
        if (!isErrno(error, 'ENOSPC')) throw error;
      } finally {
        closeSync(file);
      }
    },
    free: () => rmSync(ballast),
    unmount,
  };
}

function mount(path: string, size: string): void {
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'capstan-test', path], { stdio: 'pipe' });
}

function tryMount(): string {
  const path = mkdtempSync(join(tmpdir(), 'capstan-mount-'));
  try {
    mount(path, '64k');
    writeFileSync(join(path, 'file'), '');
    execFileSync('umount', [path]);
    return '';
  } catch (error) {
    return ` (skipped: no tmpfs can be mounted: ${error instanceof Error ? (error.message.split('\n').at(1) ?? error.message) : String(error)})`;
  } finally {
    rmdirSync(path);
  }
}
