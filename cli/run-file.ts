/** `run.json` in the data folder: where the running stack serves, for the commands on this host. */
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { z } from 'zod';

import { isErrno } from '../lib/to-error.ts';

const schema = z.object({ pid: z.int().positive(), http: z.string(), grpc: z.string(), url: z.string().optional() });

/** `http` and `grpc` are `host:port`; `url` is the gateway's for this host (`http://` and `http` where an older version wrote it); `pid` is the supervisor's. */
export type RunFile = Readonly<z.output<typeof schema>>;

export function writeRunFile(dataDir: string, run: RunFile): void {
  const path = pathOf(dataDir);
  writeFileSync(`${path}.new`, `${JSON.stringify(run)}\n`, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}

export function removeRunFile(dataDir: string): void {
  rmSync(pathOf(dataDir), { force: true });
}

/** What runs on this data folder; null when nothing does, or nothing that can be told. */
export function readRunFile(dataDir: string): RunFile | null {
  let text: string;
  try {
    text = readFileSync(pathOf(dataDir), 'utf8');
  } catch {
    return null; // no file, or none that this user may read: the defaults apply
  }
  try {
    const run = schema.parse(JSON.parse(text));
    return isAlive(run.pid) ? run : null;
  } catch {
    return null; // left over by something else
  }
}

function pathOf(dataDir: string): string {
  return join(dataDir, 'run.json');
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return isErrno(error, 'EPERM');
  }
}
