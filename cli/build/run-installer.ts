/** Runs pip or npm, and reports its message when it fails. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';

import { ToolError } from '../terminal/tool-error.ts';

const MOST_OUTPUT = 64 * 1024 * 1024;

export interface Ended {
  readonly ok: boolean;
  readonly stdout: string;
  readonly stderr: string;
}

/** @throws CapstanError CONFIG when the program does not exist. */
export async function runInstaller(program: string, args: readonly string[], cwd: string): Promise<Ended> {
  return new Promise((resolve, reject) => {
    execFile(program, args, { cwd, maxBuffer: MOST_OUTPUT }, (error, stdout, stderr) => {
      if (error?.code === 'ENOENT')
        reject(new ToolError('CONFIG', `${program} is required to install packages, and was not found`, `Install ${program}.`));
      else resolve({ ok: error === null, stdout, stderr });
    });
  });
}

/** Returns the last lines that describe the error. */
export function faultOf({ stderr, stdout }: Ended): string {
  const lines = `${stderr}\n${stdout}`.split('\n').filter((line) => /error|no matching|could not/i.test(line) && line.trim() !== '');
  return lines
    .slice(0, 4)
    .map((line) => line.replace(/^(ERROR|npm (ERR!|error)):?\s*/i, ''))
    .join('\n  ');
}

/** Returns the SHA-256 of a file, hex; null when the file does not exist. */
export async function digestOf(path: string): Promise<string | null> {
  try {
    return createHash('sha256')
      .update(await readFile(path))
      .digest('hex');
  } catch {
    return null; // no file: the requirement is not a path
  }
}
