/** Whether this host has the level `user`: found by running a trivial worker at it. */
import { execFile } from 'node:child_process';
import type { Stats } from 'node:fs';
import { lstat, readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { CapstanError } from '../../../lib/errors.ts';
import type { MissingIsolation } from '../../../lib/isolation.ts';
import { messageOf } from '../../../lib/to-error.ts';
import { UserLauncher, type UserLauncherOptions } from './user-launcher.ts';

/** Time for the trivial worker to start, run and end, ms. */
const TRIAL_MS = 30_000;
const OTHERS_MAY_PASS = 0o001;
const OTHERS_MAY_WRITE = 0o002;
const STICKY = 0o1000;
const SANDBOX = 'or install bubblewrap (apt install bubblewrap), whose sandbox needs no such folder';

/**
 * Runs as a worker. Prints which of the private paths it can read, which of the needed ones it cannot, and its Python.
 */
const TRIAL = `
import { accessSync, constants } from 'node:fs';
import { execFileSync } from 'node:child_process';
const [, given] = process.argv;
const { hidden, needed, python } = JSON.parse(given);
const reads = (path) => { try { accessSync(path, constants.R_OK); return true; } catch { return false; } };
let version = '';
try { version = execFileSync('python3', ['-c', python], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim(); } catch {}
console.log(JSON.stringify({ uid: process.getuid(), seen: hidden.filter(reads), missed: needed.filter((path) => !reads(path)), python: version }));
`;
const PYTHON_VERSION = 'import sys; print("%d.%d" % sys.version_info[:2])';

export interface UserLevelOptions extends UserLauncherOptions {
  /** The data folder of the agent, and of a scheduler beside it. */
  readonly dataDir: string;
  /** Files and folders of our own that workers read. */
  readonly reads: readonly string[];
}

export type UserLevel =
  | { readonly kind: 'available'; readonly launcher: UserLauncher }
  | { readonly kind: 'missing'; readonly missing: MissingIsolation };

/**
 * Opens the level, or says why it is missing and what adds it. Rejects with CONFIG when the range of user ids is
 * invalid.
 */
export async function openUserLevel(options: UserLevelOptions): Promise<UserLevel> {
  if (process.platform !== 'linux') return missing('it requires Linux', 'run the agent on Linux');
  if (process.getuid?.() !== 0) return missing('the agent does not run as root', 'run the agent as root, or install bubblewrap');
  let launcher: UserLauncher;
  try {
    launcher = await UserLauncher.open(options);
  } catch (error) {
    if (error instanceof CapstanError) throw error;
    return missing(messageOf(error), `set CAPSTAN_WORKER_DIR to a folder that the agent can write to, ${SANDBOX}`);
  }
  const problem = await tried(launcher, options);
  if (problem === undefined) return { kind: 'available', launcher };
  await launcher.close();
  return { kind: 'missing', missing: problem };
}

interface Seen {
  readonly uid: number;
  readonly seen: readonly string[];
  readonly missed: readonly string[];
  readonly python: string;
}

async function tried(launcher: UserLauncher, { folder, dataDir, reads, hostEnv }: UserLevelOptions): Promise<MissingIsolation | undefined> {
  for (const path of [folder, process.execPath, ...reads]) {
    const unsafe = await parentOf(path, isChangeable);
    if (unsafe !== undefined) {
      return missing(`other users can replace what is in ${unsafe}, a parent of ${path}`, `chmod go-w ${unsafe}`).missing;
    }
    const closed = await parentOf(path, (facts) => (facts.mode & OTHERS_MAY_PASS) === 0);
    if (closed !== undefined) {
      const rule = `other users cannot pass through ${closed}, a parent of ${path}`;
      return missing(rule, `move it to a folder that every user can enter, such as /opt or /var/lib, ${SANDBOX}`).missing;
    }
  }
  const hidden = [dataDir, ...(await readdir(dataDir).catch(() => [])).map((name) => join(dataDir, name))];
  const outcome = await runTrial(launcher, JSON.stringify({ hidden, needed: reads, python: PYTHON_VERSION }), hostEnv);
  if (typeof outcome === 'string') return missing(outcome, `see the reason, ${SANDBOX}`).missing;
  const [seen] = outcome.seen;
  if (seen !== undefined) return missing(`workers could read ${seen}`, `chmod 0700 ${dataDir}`).missing;
  const [missed] = outcome.missed;
  if (missed !== undefined) return missing(`workers cannot read ${missed}`, `let every user read it, ${SANDBOX}`).missing;
  const own = await pythonOf(hostEnv);
  if (own !== '' && own !== outcome.python) {
    const theirs = outcome.python === '' ? 'none' : outcome.python;
    return missing(`the agent's python3 is ${own}, that of other users ${theirs}`, `install Python for every user, ${SANDBOX}`).missing;
  }
  return undefined;
}

/** Runs the trial as a host program would be run. Returns what it saw, or the reason why there is nothing. */
async function runTrial(launcher: UserLauncher, given: string, hostEnv: Readonly<Record<string, string>>): Promise<Seen | string> {
  const args = ['--input-type=module', '--eval', TRIAL, given];
  const trial = launcher.launch({ kind: 'host', command: process.execPath, args, env: hostEnv, pipes: 0, lifeline: false, reads: [] });
  const timer = setTimeout(() => trial.kill(`a trial worker did not end within ${TRIAL_MS} ms`), TRIAL_MS);
  let [output, errors] = ['', ''];
  trial.stdout?.on('data', (data: Buffer) => (output += data.toString()));
  trial.stderr?.on('data', (data: Buffer) => (errors += data.toString()));
  const exit = await trial.gone;
  clearTimeout(timer);
  if (exit.kind === 'not-started') return exit.reason;
  if (exit.code === 0 && output.endsWith('\n')) return JSON.parse(output) as Seen;
  const [first = ''] = errors.trim().split('\n');
  return exit.reason ?? `a trial worker failed: ${first || `exit code ${exit.code ?? 'unknown'}`}`;
}

/** Empty where there is none. */
function pythonOf(hostEnv: Readonly<Record<string, string>>): Promise<string> {
  return new Promise((resolve) => {
    execFile('python3', ['-c', PYTHON_VERSION], { env: hostEnv }, (error, stdout) => resolve(error === null ? stdout.trim() : ''));
  });
}

/** The first parent that the rule holds for, from the root on. */
async function parentOf(path: string, rule: (facts: Stats) => boolean): Promise<string | undefined> {
  const parents: string[] = [];
  for (let parent = dirname(path); ; parent = dirname(parent)) {
    parents.unshift(parent);
    if (parent === dirname(parent)) break;
  }
  for (const parent of parents) {
    // What is missing will be created, and what cannot be read is found by the trial.
    const facts = await lstat(parent).catch(() => undefined);
    if (facts?.isDirectory() === true && rule(facts)) return parent;
  }
  return undefined;
}

/** In a folder like /tmp, users can replace only what is theirs. */
function isChangeable({ mode }: Stats): boolean {
  return (mode & OTHERS_MAY_WRITE) !== 0 && (mode & STICKY) === 0;
}

function missing(reason: string, remedy: string): Extract<UserLevel, { kind: 'missing' }> {
  return { kind: 'missing', missing: { without: 'user', reason, remedy } };
}
