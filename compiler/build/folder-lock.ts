/**
 * Allows one build of a folder at a time, because all builds write its `.tool` and an upload must not send another
 * build's artifact. A second build waits.
 */
import { mkdirSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

import { acquireLock } from '../../lib/lock.mjs';
import { isErrno } from '../../lib/to-error.ts';
import { mustBeFolder } from '../application/application.ts';
import { TOOL_FOLDER } from '../artifact/artifact.ts';
import type { Terminal } from '../../terminal/terminal.ts';

const LOOK_EVERY_MS = 100;

/** @throws CapstanError NOT_FOUND when the folder does not exist, and whatever the work throws. */
export async function withFolder<T>(folder: string, terminal: Terminal, work: () => Promise<T>): Promise<T> {
  await mustBeFolder(folder);
  const inside = join(folder, TOOL_FOLDER);
  const path = join(inside, 'lock');
  for (let shown = false; ;) {
    const lock = acquire(inside, path);
    if ('release' in lock) {
      try {
        return await work();
      } finally {
        lock.release();
        removeIfEmpty(inside);
      }
    }
    if (!shown) terminal.step(`waiting for process ${lock.heldBy}, which is building ${folder}`);
    shown = true;
    await pause(LOOK_EVERY_MS);
  }
}

/** The previous build may remove the folder with its lock if it produced nothing. */
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
