/**
 * Runs a short program at the place of a worker's process: in its mount and pid namespaces, without root's rights. What a worker may
 * open follows from both. A process of another user than the worker's, so that the worker cannot take it over.
 */
import { spawn } from 'node:child_process';
import { readFile, readlink } from 'node:fs/promises';
import type { Readable } from 'node:stream';

import { MAX_LOOK, type Look } from '../runtimes/gpu-view.ts';
import { killGroup } from '../runtimes/process-group.ts';
import { findProgram } from './bwrap/requirements.ts';
import { CLEAN_ENVIRONMENT } from './user/clean-environment.ts';

/** The user `nobody`. */
const NOBODY = 65_534;

export interface Glance {
  readonly pid: number;
  /** The program with its arguments. `root`: the folder below which it finds the worker's files; empty where it runs at the worker's place. */
  readonly command: (root: string) => readonly string[];
  readonly limitMs: number;
}

interface Place {
  readonly root: string;
  readonly enter: readonly string[];
  readonly user: { readonly uid?: number; readonly gid?: number };
}

/** Resolves with undefined when the process is gone, cannot be entered, or the program has not ended in time. */
export async function lookInside({ pid, command, limitMs }: Glance): Promise<Look | undefined> {
  const place = await placeOf(pid).catch(() => undefined);
  if (place === undefined) return undefined;
  const { root, enter, user } = place;
  const [program = '', ...args] = [...enter, ...command(root)];
  const child = spawn(program, args, { ...user, cwd: '/', env: CLEAN_ENVIRONMENT, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr] as readonly Readable[])
    stream.on('data', (bytes: Buffer) => {
      if (output.length < MAX_LOOK) output += bytes.toString();
    });
  const { promise, resolve } = Promise.withResolvers<number | null>();
  child.once('error', () => resolve(null));
  // Not `close`: what it leaves behind may keep its output open.
  child.once('exit', resolve);
  const timer = setTimeout(() => {
    if (child.pid !== undefined) killGroup(child.pid);
    resolve(null);
  }, limitMs);
  const exitCode = await promise;
  clearTimeout(timer);
  // The last bytes of a program that has ended are in its pipes.
  await new Promise((done) => setImmediate(done));
  child.stdout.destroy();
  child.stderr.destroy();
  if (exitCode === null) return undefined;
  const text = root === '' ? output : output.replaceAll(root, '');
  return { exitCode, output: text.slice(0, MAX_LOOK).trim() };
}

/** Rejects when the process is gone, or belongs to another user. */
async function placeOf(pid: number): Promise<Place | undefined> {
  const isRoot = process.getuid?.() === 0;
  const [own, its] = await Promise.all([readlink('/proc/self/ns/mnt'), readlink(`/proc/${pid}/ns/mnt`)]);
  if (own === its) {
    const uid = Number(/^Uid:\s*(\d+)/m.exec(await readFile(`/proc/${pid}/status`, 'utf8'))?.[1]);
    return { root: '', enter: [], user: isRoot && uid !== 0 ? { uid: NOBODY, gid: NOBODY } : {} };
  }
  // A user may not enter the namespaces of a sandbox without becoming its root. The worker is this user: it opens what he opens.
  if (!isRoot) return { root: `/proc/${pid}/root`, enter: [], user: {} };
  const nsenter = findProgram('nsenter');
  if (nsenter === undefined) return undefined;
  const rights = ['--setuid', String(NOBODY), '--setgid', String(NOBODY)];
  return { root: '', enter: [nsenter, '--target', String(pid), '--mount', '--pid', ...rights, '--'], user: {} };
}
