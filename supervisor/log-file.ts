/**
 * A log file of bounded size: at its limit it becomes `<name>.1`, the previous one becomes `<name>.2`, and so on.
 * Writes are synchronous, so that the last lines of a part before a crash are in the file.
 *
 * A file that cannot be written (a full disk, a missing folder) stops nothing: its lines are dropped and counted, each
 * further line tries again, and the first written line follows the count.
 */
import { closeSync, fstatSync, openSync, rmSync, writeSync } from 'node:fs';

import { moveUnsyncedSync } from '../lib/durable.ts';
import { errnoOf, isErrno, messageOf } from '../lib/to-error.ts';

const ROTATE_BYTES = 10_000_000;
const KEEP_FILES = 3;

export interface LogFile {
  write(text: string): void;
  close(): void;
}

/**
 * Opens the file for appending. `limit` is in bytes. `onTrouble` is called when lines are first dropped, and when they
 * are written again.
 */
export function openLogFile(
  path: string,
  limit: number = ROTATE_BYTES,
  keep: number = KEEP_FILES,
  onTrouble: (text: string) => void = () => undefined,
): LogFile {
  let file: number | null = openSync(path, 'a', 0o600);
  let size = fstatSync(file).size;
  let dropped = 0;
  /** A write ended in the middle of a line. */
  let isTorn = false;

  const close = (): void => {
    if (file !== null) closeSync(file);
    file = null;
  };
  const rotate = (): void => {
    close();
    rmSync(`${path}.${keep}`, { force: true });
    for (let number = keep - 1; number >= 1; number -= 1) renameIfThere(`${path}.${number}`, `${path}.${number + 1}`);
    renameIfThere(path, `${path}.1`);
  };
  const append = (text: string): void => {
    const bytes = Buffer.from(isTorn ? `\n${text}` : text);
    if (size > 0 && size + bytes.length > limit) rotate();
    if (file === null) {
      file = openSync(path, 'a', 0o600);
      size = fstatSync(file).size;
    }
    // A write may be partial when the disk becomes full.
    for (let written = 0; written < bytes.length;) {
      const count = writeSync(file, bytes, written);
      written += count;
      size += count;
      isTorn = written < bytes.length;
    }
  };
  return {
    write(text) {
      try {
        if (dropped > 0) append(missing(dropped));
        if (dropped > 0) onTrouble(`${path} is writable again; ${dropped} lines are missing from it`);
        dropped = 0;
        append(text);
      } catch (error) {
        if (errnoOf(error) === undefined) throw error;
        dropped += 1;
        if (dropped === 1) onTrouble(`${path} is not writable; lines are lost until it is: ${messageOf(error)}`);
      }
    },
    close,
  };
}

/** A line in the format of the parts' logs. */
function missing(count: number): string {
  const msg = `${count} lines are missing: the file was not writable`;
  return `${JSON.stringify({ level: 40, time: Date.now(), name: 'supervisor', msg })}\n`;
}

function renameIfThere(from: string, to: string): void {
  try {
    moveUnsyncedSync(from, to);
  } catch (error) {
    if (!isErrno(error, 'ENOENT')) throw error;
  }
}
