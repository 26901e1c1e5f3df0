/**
 * One build of a folder at a time: all of them write its `.tool`, and the artifact that one uploads must not be
 * another's. Whoever comes second waits.
 */
import { mkdirSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

import { acquireLock } from '../../lib/lock.mjs';
import { isErrno } from '../../lib/to-error.ts';
import { mustBeFolder } from '../deploy/application.ts';
import { TOOL_FOLDER } from '../deploy/artifact.ts';
import type { Terminal } from '../terminal/terminal.ts';

const LOOK_EVERY_MS = 100;

/** @throws CapstanError NOT_FOUND when there is no such folder, and whatever the work throws. */
export async function withFolder<T>(folder: string, terminal: Terminal, work: () => Promise<T>): Promise<T> {
  await mustBeFolder(folder);
  const inside = join(folder, TOOL_FOLDER);
  const path = join(inside, 'lock');
  for (let told = false; ;) {
    const lock = acquire(inside, path);
    if ('release' in lock) {
      try {
        return await work();
      } finally {
        lock.release();
        removeIfEmpty(inside);
      }
    }
    if (!told) terminal.step(`waiting for process ${lock.heldBy}, which is building ${folder}`);
    told = true;
    await pause(LOOK_EVERY_MS);
  }
}

/** The one before may take the folder away with its lock, if it made nothing. */
function acquire(inside: string, path: string): ReturnType<typeof acquireLock> {
  for (;;) {
    mkdirSync(inside, { recursive: true });
    try {
      return acquireLock(path);
    } catch (error) {
      if (!isErrno(error, 'ENOENT')) throw error;
    }
  }
}

function removeIfEmpty(folder: string): void {
  try {
    rmdirSync(folder);
  } catch (error) {
    if (!isErrno(error, 'ENOTEMPTY', 'ENOENT')) throw error;
  }
}
