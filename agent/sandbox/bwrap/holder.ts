/**
 * A mount namespace that outlives the sandboxes started in it, with a slot for each spare: a build that is mounted in a
 * slot appears in the spare's sandbox, which got a copy of the slot's mount that follows it. A shell inside carries out
 * the mounts; it ends with this process, and with it everything that it mounted.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { statSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';

import { CapstanError } from '../../../lib/errors.ts';
import { LineSplitter } from '../../runtimes/lines.ts';
import { withoutInherited } from '../host/descriptors.ts';
import { quoted } from './quoted.ts';

/** Builds that stay prepared. */
const MAX_STAGED = 64;

/** `$1`: an empty folder of the agent, which is a mount point in the namespace only. */
const SETUP = [
  'set -e',
  'cd "$1"',
  'mount -t tmpfs -o mode=0755,size=1m capstan "$1"',
  'cd "$1"',
  'mkdir staged slots',
  // Only mounts in slots may appear elsewhere.
  'mount -t tmpfs -o mode=0755,size=16m slots slots',
  'mount --make-shared slots',
  'set +e',
  'echo ready',
  'while read -r line; do if eval "$line" 2>/dev/null >/dev/null; then echo ok; else echo failed; fi; done',
].join('\n');

export interface HolderTools {
  /** `unshare` and the flags with which it makes the namespace. */
  readonly unshare: readonly string[];
  /** `nsenter` and the flags before the pid. */
  readonly nsenter: readonly string[];
  /** The same for its user namespace alone, if it has one. */
  readonly nsenterUser?: readonly string[];
}

export class Holder {
  readonly #shell: ChildProcess;
  readonly #tools: HolderTools;
  readonly #folder: string;
  readonly #answers: ((line: string) => void)[] = [];
  readonly #staged = new Map<string, number>();
  #next = 1;
  #failed = false;

  private constructor(shell: ChildProcess, tools: HolderTools, folder: string) {
    this.#shell = shell;
    this.#folder = folder;
    this.#tools = tools;
    const lines = new LineSplitter((line) => this.#answers.shift()?.(line));
    const { stdout, stdin } = this.#streams;
    stdout.on('data', (data: Buffer) => lines.push(data));
    stdin.on('error', () => undefined);
    const over = (): void => {
      this.#failed = true;
      for (const answer of this.#answers.splice(0)) answer('gone');
    };
    shell.once('exit', over);
    shell.once('error', over);
  }

  /** Rejects with UNAVAILABLE where the namespace cannot be made; its message says why. */
  static async open(tools: HolderTools, folder: string): Promise<Holder> {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const [command = '', ...args] = tools.unshare;
    const stdio = ['pipe', 'pipe', 'pipe'] as const;
    const shell = withoutInherited(stdio, (all) =>
      spawn(command, [...args, '/bin/sh', '-c', SETUP, 'sh', folder], { stdio: all, cwd: '/', detached: true }),
    );
    let problem = '';
    shell.stderr?.on('data', (data: Buffer) => (problem += data.toString('utf8').slice(0, 300)));
    const holder = new Holder(shell, tools, folder);
    if ((await holder.#answer()) === 'ready') return holder;
    await holder.close();
    throw new CapstanError('UNAVAILABLE', `no namespace for spares: ${problem.trim().split('\n')[0] ?? 'unshare failed'}`);
  }

  /** The words with which a command line runs inside. */
  get enter(): readonly string[] {
    return [...this.#tools.nsenter, '--target', String(this.#shell.pid), '--'];
  }

  /** The words with which a command line runs in its user namespace, and in no other of its namespaces. */
  get enterUser(): readonly string[] | undefined {
    const { nsenterUser } = this.#tools;
    return nsenterUser === undefined ? undefined : [...nsenterUser, '--target', String(this.#shell.pid), '--'];
  }

  get works(): boolean {
    return !this.#failed;
  }

  /** Creates a slot. Rejects with UNAVAILABLE. */
  async slot(): Promise<Slot> {
    const name = `slots/${this.#next++}`;
    await this.#run(`mkdir ${name} ${name}/build`);
    return {
      name,
      path: join(this.#folder, name),
      remove: () => this.#run(`umount -l ${name}/build; rm -rf ${name}/bin ${name}/work ${name}/env; rmdir ${name}/build ${name}`),
    };
  }

  /** Mounts a build in a slot, read-only. Rejects with UNAVAILABLE. */
  async fill(slot: Slot, build: string): Promise<void> {
    const { dev, ino, ctimeMs } = statSync(build);
    // A build that was removed and fetched again has another folder.
    const key = `${dev}:${ino}:${ctimeMs}:${build}`;
    const known = this.#staged.get(key);
    const number = known ?? this.#next++;
    const staged = `staged/${number}`;
    const prepare = `mkdir ${staged} && mount --bind ${quoted(build)} ${staged} && mount -o remount,bind,ro,nosuid,nodev ${staged} && `;
    await this.#run(`${known === undefined ? prepare : ''}mount --bind ${staged} ${slot.name}/build`);
    this.#staged.delete(key);
    this.#staged.set(key, number);
    const [oldest] = this.#staged;
    if (this.#staged.size <= MAX_STAGED || oldest === undefined) return;
    this.#staged.delete(oldest[0]);
    await this.#run(`umount -l staged/${oldest[1]} && rmdir staged/${oldest[1]}`);
  }

  async close(): Promise<void> {
    const { exitCode, signalCode, pid } = this.#shell;
    if (pid === undefined || exitCode !== null || signalCode !== null) return;
    const gone = once(this.#shell, 'exit');
    this.#streams.stdin.end();
    await gone;
  }

  get #streams(): { readonly stdin: Writable; readonly stdout: Readable } {
    const { stdin, stdout } = this.#shell;
    if (stdin === null || stdout === null) throw new Error('the shell of the holder has no pipes');
    return { stdin, stdout };
  }

  #answer(): Promise<string> {
    if (this.#failed) return Promise.resolve('gone');
    return new Promise((resolve) => this.#answers.push(resolve));
  }

  async #run(line: string): Promise<void> {
    const answer = this.#answer();
    if (!this.#failed) this.#streams.stdin.write(`${line}\n`);
    if ((await answer) !== 'ok') throw new CapstanError('UNAVAILABLE', 'a mount in the namespace of spares failed');
  }
}

export interface Slot {
  readonly name: string;
  /** As the holder's namespace sees it. */
  readonly path: string;
  /** Rejects with UNAVAILABLE. */
  remove(): Promise<void>;
}
