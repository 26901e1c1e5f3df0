/** `.tool/dev/run.json` in a project's folder: the address of its development server, for `capstan call`. */
import { readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { z } from 'zod';

import { isErrno } from '../lib/to-error.ts';

/** Goes with the other files of the server. */
const FILE = '.tool/dev/run.json';
/** Only this host: the file is in the project's folder, and a project must not decide where inputs are sent. */
const LOOPBACK = /^http:\/\/(localhost|127\.\d+\.\d+\.\d+|\[::1\]):\d{1,5}$/;

const schema = z.object({ pid: z.int().positive(), url: z.string().regex(LOOPBACK) });

export type DevRunFile = Readonly<z.output<typeof schema>>;

/** Writes nothing for a server that loopback does not reach. */
export async function writeDevRunFile(folder: string, url: string): Promise<void> {
  if (!LOOPBACK.test(url)) return;
  const path = join(folder, FILE);
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, `${JSON.stringify({ pid: process.pid, url } satisfies DevRunFile)}\n`);
}

/** Returns the server of the folder, or of a folder around it; null when none runs. */
export function readDevRunFile(folder: string): DevRunFile | null {
  for (let at = folder; ; at = dirname(at)) {
    const found = read(join(at, FILE));
    if (found !== null) return found;
    if (dirname(at) === at) return null;
  }
}

function read(path: string): DevRunFile | null {
  try {
    const found = schema.parse(JSON.parse(readFileSync(path, 'utf8')));
    return isAlive(found.pid) ? found : null;
  } catch {
    return null; // absent, or left by another program
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return isErrno(error, 'EPERM');
  }
}
