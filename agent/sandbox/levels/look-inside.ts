/**
 * Runs a short program where the launcher has put a worker: in the mount and pid namespaces of its sandbox, or in the agent's own,
 * without root's rights. What a worker may open follows from both. A process of another user than the worker's, so that the worker
 * cannot take it over. Namespaces that a worker makes are never entered: there, /bin/sh is the worker's program, and it would run
 * outside of the user namespace that confines the worker.
 */
import { spawn } from 'node:child_process';
import type { Readable } from 'node:stream';

import { MAX_LOOK, type Look } from '../../runtimes/gpu-view.ts';
import { killGroup } from '../../runtimes/process-group.ts';
import { findProgram } from '../host/requirements.ts';
import type { Vantage } from '../launcher.ts';
import { CLEAN_ENVIRONMENT } from '../user/clean-environment.ts';

/** The user `nobody`. */
const NOBODY = 65_534;
/** Of setpriv. With them, nothing that runs there gains rights by a program that is set-user-id. */
const RIGHTS = [`--reuid=${NOBODY}`, `--regid=${NOBODY}`, '--clear-groups', '--no-new-privs', '--inh-caps=-all', '--bounding-set=-all'];

export interface Glance {
  readonly vantage: Vantage;
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
export async function lookInside({ vantage, command, limitMs }: Glance): Promise<Look | undefined> {
  const place = placeOf(vantage);
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

/** Undefined where a program for it is missing. */
function placeOf({ place, isAgentsUser }: Vantage): Place | undefined {
  const isRoot = process.getuid?.() === 0;
  // Workers see the same device files as the agent.
  if (place === undefined) return { root: '', enter: [], user: isRoot && !isAgentsUser ? { uid: NOBODY, gid: NOBODY } : {} };
  // A user may not enter the namespaces of a sandbox without becoming its root. The worker is this user: it opens what he opens.
  if (!isRoot) return { root: `/proc/${place}/root`, enter: [], user: {} };
  const [nsenter, setpriv] = [findProgram('nsenter'), findProgram('setpriv')];
  if (nsenter === undefined || setpriv === undefined) return undefined;
  return { root: '', enter: [nsenter, '--target', String(place), '--mount', '--pid', '--', setpriv, ...RIGHTS, '--'], user: {} };
}
