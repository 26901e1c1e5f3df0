/**
 * A log file that stays small: at its limit it becomes `<name>.1`, what was that becomes
 * `<name>.2`, and so on. Written synchronously: what a part said right before it died is there.
 */
import { closeSync, fstatSync, openSync, renameSync, rmSync, writeSync } from 'node:fs';

import { isErrno } from '../../proto/thrown.ts';

const ROTATE_BYTES = 10_000_000;
const KEEP_FILES = 3;

export interface LogFile {
  write(text: string): void;
  close(): void;
}

/** Opens the file for appending. `limit` is in bytes. */
export function openLogFile(path: string, limit: number = ROTATE_BYTES, keep: number = KEEP_FILES): LogFile {
  let file = openSync(path, 'a', 0o600);
  let size = fstatSync(file).size;

  const rotate = (): void => {
    closeSync(file);
    rmSync(`${path}.${keep}`, { force: true });
    for (let number = keep - 1; number >= 1; number -= 1) renameIfThere(`${path}.${number}`, `${path}.${number + 1}`);
    renameIfThere(path, `${path}.1`);
    file = openSync(path, 'a', 0o600);
    size = 0;
  };
  return {
    write(text) {
      const bytes = Buffer.from(text);
      if (size > 0 && size + bytes.length > limit) rotate();
      writeSync(file, bytes);
      size += bytes.length;
    },
    close: () => closeSync(file),
  };
}

function renameIfThere(from: string, to: string): void {
  try {
    renameSync(from, to);
  } catch (error) {
    if (!isErrno(error, 'ENOENT')) throw error;
  }
}
