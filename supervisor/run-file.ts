/** `run.json` in the data folder: the addresses of the running stack, for the commands on this host. */
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';

import { z } from 'zod';

import { replaceDurablySync } from '../lib/durable.ts';
import { isErrno } from '../lib/to-error.ts';

const schema = z.object({ pid: z.int().positive(), http: z.string(), grpc: z.string(), url: z.string().optional() });

/**
 * `http` and `grpc` are `host:port`; `url` is the gateway's for this host (`http://` and `http` where an older version
 * wrote it); `pid` is the supervisor's.
 */
export type RunFile = Readonly<z.output<typeof schema>>;

export function writeRunFile(dataDir: string, run: RunFile): void {
  replaceDurablySync(pathOf(dataDir), `${JSON.stringify(run)}\n`);
}

export function removeRunFile(dataDir: string): void {
  rmSync(pathOf(dataDir), { force: true });
}

/** Returns the stack that runs on this data folder; null when there is none, or when it cannot be determined. */
export function readRunFile(dataDir: string): RunFile | null {
  let text: string;
  try {
    text = readFileSync(pathOf(dataDir), 'utf8');
  } catch {
    return null; // no file, or not readable by this user: the defaults apply
  }
  try {
    const run = schema.parse(JSON.parse(text));
    return isAlive(run.pid) ? run : null;
  } catch {
    return null; // left by another program
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
