/** A PostgreSQL server of a stack with several schedulers, which comes back whenever it ends. */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs';
import { chown, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

import { Client } from 'pg';

import { guard } from '../../support/stack.ts';
import { freePort } from '../../support/free-port.ts';
import type { Victim } from './victim.ts';

/** The server refuses to run as root: any other user will do. */
const NOBODY = 65_534;
const asUser = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};
const RESTART_MS = 200;
const LOOK_MS = 50;
const ROLE = 'capstan';
const SETTINGS = { listen_addresses: '127.0.0.1', unix_socket_directories: '', max_connections: '100' };

export class Database implements Victim {
  readonly name = 'database';
  readonly #binaries: string;
  readonly #folder: string;
  readonly #log: string;
  #port = 0;
  #child: ChildProcess | undefined;
  #closing = false;
  #timer: NodeJS.Timeout | undefined;
  #ready: PromiseWithResolvers<void> = Promise.withResolvers();

  /** @param folder that does not exist yet; the server's user must be able to reach it. */
  constructor(binaries: string, folder: string, log: string) {
    this.#binaries = binaries;
    this.#folder = folder;
    this.#log = log;
  }

  /** `host:port` */
  get address(): string {
    return `127.0.0.1:${this.#port}`;
  }

  /** Settled while it accepts connections. */
  get ready(): Promise<unknown> {
    return this.#ready.promise;
  }

  /** The server and the processes of its connections. */
  get pids(): number[] {
    const pid = this.#pid;
    return pid === undefined ? [] : [pid, ...childrenOf(pid)];
  }

  /** What CAPSTAN_STORE is behind a proxy at `address`. */
  url(address: string): string {
    return `postgres://${ROLE}@${address}/postgres`;
  }

  async start(): Promise<void> {
    await mkdir(this.#folder, { mode: 0o700 });
    if (asUser.uid !== undefined) await chown(this.#folder, asUser.uid, asUser.gid);
    const data = ['-D', join(this.#folder, 'data'), '-U', ROLE, '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-instructions'];
    execFileSync(join(this.#binaries, 'initdb'), data, { ...asUser, cwd: this.#folder, stdio: ['ignore', 'ignore', 'inherit'] });
    this.#port = await freePort();
    this.#run();
    await this.ready;
  }

  /** As a crash: no checkpoint, every connection breaks. Resolves when it is gone. */
  async kill(): Promise<void> {
    const child = this.#child;
    if (child === undefined || this.#pid === undefined) return;
    const exited = once(child, 'exit');
    child.kill('SIGQUIT');
    await exited;
  }

  async close(): Promise<void> {
    this.#closing = true;
    clearTimeout(this.#timer);
    const child = this.#child;
    if (child === undefined || this.#pid === undefined) return;
    const exited = once(child, 'exit');
    for (const pid of this.pids) process.kill(pid, 'SIGCONT');
    child.kill('SIGINT');
    const timer = setTimeout(() => child.kill('SIGQUIT'), 20_000);
    await exited;
    clearTimeout(timer);
  }

  get #pid(): number | undefined {
    const child = this.#child;
    return child === undefined || child.exitCode !== null || child.signalCode !== null ? undefined : child.pid;
  }

  #run(): void {
    const flags = Object.entries({ ...SETTINGS, port: String(this.#port) }).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
    const log = openSync(this.#log, 'a');
    const args = ['-D', join(this.#folder, 'data'), ...flags];
    const child = spawn(join(this.#binaries, 'postgres'), args, { ...asUser, cwd: this.#folder, stdio: ['ignore', log, log] });
    closeSync(log);
    this.#child = child;
    // Its immediate shutdown: it ends its own processes, too.
    const watch = guard(child.pid ?? 0, 'QUIT');
    child.once('exit', () => {
      watch.kill('SIGKILL');
      this.#ready = Promise.withResolvers();
      if (!this.#closing) this.#timer = setTimeout(() => this.#run(), RESTART_MS);
    });
    void this.#untilReady(child);
  }

  async #untilReady(child: ChildProcess): Promise<void> {
    while (this.#child === child && this.#pid !== undefined) {
      const client = new Client({ connectionString: this.url(this.address), connectionTimeoutMillis: 2_000 });
      client.on('error', () => undefined); // the attempt has failed: there is another one
      try {
        await client.connect();
        await client.query('SELECT 1');
        if (this.#child === child) this.#ready.resolve();
        return;
      } catch {
        await pause(LOOK_MS); // it starts, or recovers
      } finally {
        await client.end().catch(() => undefined);
      }
    }
  }
}

function childrenOf(parent: number): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
        return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]) === parent;
      } catch {
        return false; // it ended meanwhile
      }
    });
}
