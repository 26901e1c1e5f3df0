/**
 * A log file that stays small: at its limit it becomes `<name>.1`, what was that becomes
 * `<name>.2`, and so on. Written synchronously: what a part said right before it died is there.
 *
 * A file that cannot be written (a full disk, a folder that is gone) ends nobody: its lines are dropped
 * and counted, each further line tries again, and the first one that is written follows the count.
 */
import { closeSync, fstatSync, openSync, renameSync, rmSync, writeSync } from 'node:fs';

import { errnoOf, isErrno, messageOf } from '../../lib/to-error.ts';

const ROTATE_BYTES = 10_000_000;
const KEEP_FILES = 3;

export interface LogFile {
  write(text: string): void;
  close(): void;
}

/** Opens the file for appending. `limit` is in bytes. `onTrouble` is told once that lines are dropped, and once that they are written again. */
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
    // One write may take only a part, where the disk ends.
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
        if (dropped > 0) onTrouble(`${path} is writable again; ${dropped} lines are missing in it`);
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

/** A line as parts log them. */
function missing(count: number): string {
  const msg = `${count} lines are missing: the file was not writable`;
  return `${JSON.stringify({ level: 40, time: Date.now(), name: 'supervisor', msg })}\n`;
}

function renameIfThere(from: string, to: string): void {
  try {
    renameSync(from, to);
  } catch (error) {
    if (!isErrno(error, 'ENOENT')) throw error;
  }
}
