/** A whole stack for tests: `capstan up` on free ports with a folder of its own, and nothing left of it afterwards. */
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { cp, mkdir, readFile, realpath, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';

import { ownFolder } from './own-folder.ts';
import { processesOf, type Found, type Role } from './processes.ts';
import { until } from './until.ts';

const tool = join(import.meta.dirname, '../../cli/main.ts');
const PREFIX = 'capstan-test';

/** Counts of GET /health. */
export interface Health {
  readonly jobs: Readonly<Record<'completed' | 'failed' | 'inProgress' | 'inQueue' | 'retried', number>>;
  readonly workers: Readonly<Record<'idle' | 'initializing' | 'ready' | 'running' | 'throttled' | 'unhealthy', number>>;
}

/** A status document of a job. */
export interface JobDocument {
  readonly id: string;
  readonly status: string;
  readonly output?: unknown;
  readonly error?: string;
  readonly retries?: number;
  readonly workerId?: string;
}

export class Stack {
  readonly apiKey = `cap_${randomBytes(24).toString('base64url')}`;
  readonly dataDir: string;
  readonly #folder: string;
  /** The environment of its processes. */
  readonly variables: NodeJS.ProcessEnv;
  #up: ChildProcess | null = null;
  #guard: ChildProcess | null = null;
  /** Folders that were deployed → their copies. */
  readonly #copies = new Map<string, string>();
  #url = '';

  private constructor(folder: string, variables: Readonly<Record<string, string>>) {
    this.#folder = folder;
    this.dataDir = join(folder, 'data');
    this.variables = {
      ...process.env,
      SERVICE_API_KEY: this.apiKey,
      CAPSTAN_DATA_DIR: this.dataDir,
      CAPSTAN_HTTP_PORT: '0',
      CAPSTAN_GRPC_PORT: '0',
      // What a stack offers must not depend on what this machine happens to have.
      CAPSTAN_CONTAINER_SOCKET: 'none',
      // Hosts started ahead save a user's wait; here they would be a third of all processes.
      CAPSTAN_SPARE_HOSTS: '0',
      NO_COLOR: '1',
      // Worker hosts inherit it too: the mark by which every process of this stack is found.
      TMPDIR: join(folder, 'tmp'),
      ...variables,
    };
  }

  /** A folder of its own, and the stack running on it; `prepare` puts into the folder what variables speak of. The caller closes it, also when the test fails. */
  static async start(
    variables: Readonly<Record<string, string>> = {},
    prepare: (folder: string) => Promise<Readonly<Record<string, string>>> = () => Promise.resolve({}),
  ): Promise<Stack> {
    const folder = await realpath(await ownFolder(PREFIX));
    await mkdir(join(folder, 'tmp'));
    const stack = new Stack(folder, { ...variables, ...(await prepare(folder)) });
    try {
      await stack.up();
      return stack;
    } catch (error) {
      await stack.close();
      throw error;
    }
  }

  /** `http://host:port` of the gateway; another one after each `up`. */
  get url(): string {
    return this.#url;
  }

  /** A folder for what handlers and tests leave for each other. */
  get scratch(): string {
    return join(this.#folder, 'tmp');
  }

  /** Starts the supervisor and waits until all parts serve. */
  async up(): Promise<void> {
    const log = openSync(join(this.#folder, 'up.log'), 'a');
    // A group of its own, as a terminal gives it: Ctrl+C reaches all of it and nothing else.
    const up = spawn(process.execPath, [tool, 'up'], {
      cwd: this.#folder,
      env: this.variables,
      stdio: ['ignore', log, log],
      detached: true,
    });
    closeSync(log);
    this.#up = up;
    const watch = guard(up.pid ?? 0);
    this.#guard = watch;
    up.once('exit', () => watch.kill('SIGKILL'));
    const { http } = await until('capstan up serves', async () => {
      if (hasEnded(up)) throw new Error(`capstan up ended with ${how(up)}:\n${await this.log()}`);
      const run = await readJson<{ pid: number; http: string }>(join(this.dataDir, 'run.json'));
      return run?.pid === up.pid ? run : null;
    }).catch(async (error: unknown) => {
      throw new Error(`the stack did not start:\n${await this.log()}`, { cause: error });
    });
    this.#url = `http://${http}`;
  }

  /** Deploys a copy of the folder without waiting for its workers, with these options of the tool; name → id of its endpoints. */
  async deploy(source: string, ...options: string[]): Promise<ReadonlyMap<string, string>> {
    const copy = this.#copyOf(source);
    await cp(source, copy, { recursive: true });
    return new Map(
      (JSON.parse(await this.tool('deploy', copy, '--json', '--no-wait', ...options)) as { id: string; name: string }[]).map((row) => [
        row.name,
        row.id,
      ]),
    );
  }

  /** Where a folder is copied to: the same place each time, and another one than that of a folder with the same name. */
  #copyOf(source: string): string {
    const known = this.#copies.get(source);
    if (known !== undefined) return known;
    const name = basename(source);
    const isTaken = [...this.#copies.values()].some((copy) => basename(copy) === name);
    const copy = join(this.#folder, ...(isTaken ? [`apps-${this.#copies.size}`] : []), name);
    this.#copies.set(source, copy);
    return copy;
  }

  /** What a command of the tool prints when it is asked about this stack. */
  tool(...args: string[]): Promise<string> {
    return this.toolAs(this.apiKey, ...args);
  }

  /** The same with another key. */
  async toolAs(apiKey: string, ...args: string[]): Promise<string> {
    // The tool finds the stack by its run.json; the ports of the environment would contradict it.
    const env = { ...this.variables, SERVICE_API_KEY: apiKey, CAPSTAN_HTTP_PORT: '', CAPSTAN_GRPC_PORT: '' };
    return (await promisify(execFile)(process.execPath, [tool, ...args], { cwd: this.#folder, env })).stdout;
  }

  /** Every living process of this stack. */
  processes(): Found[] {
    return processesOf(this.#folder).filter((found) => found.pid !== this.#guard?.pid);
  }

  pids(role: Role): number[] {
    return this.processes()
      .filter((found) => found.role === role)
      .map((found) => found.pid);
  }

  pid(role: Role): number | null {
    return this.pids(role)[0] ?? null;
  }

  /** Sends a signal to the process of a part and gives its id. */
  signal(role: Role, signal: NodeJS.Signals): number {
    const pid = this.pid(role);
    if (pid === null) throw new Error(`no ${role} runs`);
    process.kill(pid, signal);
    return pid;
  }

  /** What Ctrl+C in a terminal does: SIGINT to the whole group. Gives the exit code of `capstan up`. */
  async interrupt(): Promise<number | null> {
    const up = this.#running();
    const exited = once(up, 'exit');
    process.kill(-(up.pid ?? 0), 'SIGINT');
    await exited;
    return up.exitCode;
  }

  /** kill -9 of the supervisor alone. */
  async killSupervisor(): Promise<void> {
    const up = this.#running();
    const exited = once(up, 'exit');
    up.kill('SIGKILL');
    await exited;
  }

  /** Waits until no process of the stack is left, however it was ended. */
  async gone(): Promise<void> {
    const left = (): Found[] => this.processes();
    await until('no process of the stack is left', () => left().length === 0).catch((error: unknown) => {
      throw new Error(`still there: ${JSON.stringify(left())}`, { cause: error });
    });
  }

  call(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers);
    headers.set('authorization', `Bearer ${this.apiKey}`);
    headers.set('content-type', 'application/json');
    return fetch(`${this.#url}${path}`, { ...init, headers });
  }

  async health(endpoint: string): Promise<Health> {
    return (await this.#ok(`/v2/${endpoint}/health`)) as Health;
  }

  async status(endpoint: string, job: string): Promise<JobDocument> {
    return (await this.#ok(`/v2/${endpoint}/status/${job}`)) as JobDocument;
  }

  /** Submits a job; its id once it is acknowledged. */
  async run(endpoint: string, input: object): Promise<string> {
    const answer = await this.#ok(`/v2/${endpoint}/run`, { method: 'POST', body: JSON.stringify({ input }) });
    return (answer as JobDocument).id;
  }

  /** Waits until a job has ended, whatever its waits meet meanwhile. */
  ended(endpoint: string, job: string, limitMs?: number): Promise<JobDocument> {
    return until(
      `the job ${job} has ended`,
      async () => {
        const document = (await this.#ok(`/v2/${endpoint}/status-sync/${job}?wait=5000`)) as JobDocument;
        return ['IN_QUEUE', 'IN_PROGRESS'].includes(document.status) ? null : document;
      },
      limitMs,
    );
  }

  /** Waits for log lines of a part that hold a text, from now on; each wait goes on after the last one's line. */
  async heard(part: 'scheduler' | 'gateway' | 'agent'): Promise<(text: string) => Promise<void>> {
    const path = join(this.dataDir, 'logs', `${part}.log`);
    let from = (await readFile(path, 'utf8')).length;
    return async (text) => {
      from = await until(`the ${part} logs: ${text}`, async () => {
        const at = (await readFile(path, 'utf8')).indexOf(text, from);
        return at === -1 ? null : at + text.length;
      });
    };
  }

  /** The last of what `capstan up` and its parts said. */
  async log(): Promise<string> {
    const files = ['up.log', ...['scheduler', 'gateway', 'agent'].map((part) => join('data/logs', `${part}.log`))];
    const texts = await Promise.all(files.map((file) => readFile(join(this.#folder, file), 'utf8').catch(() => '')));
    return files.map((file, i) => `--- ${file}\n${(texts[i] ?? '').slice(-3000)}`).join('\n');
  }

  /** Ends in order if it still runs, kills what is left then, and removes the folder; `beforeRemoval` unmounts what is in it. */
  async close(beforeRemoval: () => void = () => undefined): Promise<void> {
    const up = this.#up;
    if (up !== null && !hasEnded(up)) {
      const exited = once(up, 'exit');
      up.kill('SIGTERM');
      const timer = setTimeout(() => up.kill('SIGKILL'), 20_000);
      await exited;
      clearTimeout(timer);
    }
    for (const { pid } of this.processes()) kill(pid);
    await this.gone();
    beforeRemoval();
    await rm(this.#folder, { recursive: true, force: true });
  }

  #running(): ChildProcess {
    if (this.#up === null || hasEnded(this.#up)) throw new Error('capstan up does not run');
    return this.#up;
  }

  async #ok(path: string, init?: RequestInit): Promise<unknown> {
    const response = await this.call(path, init);
    if (!response.ok) throw new Error(`${path} answered ${response.status}: ${await response.text()}`);
    return response.json();
  }
}

/** Ends a process by a signal when this test's process or thread ends without having ended it: its end closes the pipe. */
export function guard(pid: number, signal: 'KILL' | 'QUIT' = 'KILL'): ChildProcess {
  const script = 'trap "" INT TERM HUP; read -r line; kill -s "$1" "$0"';
  return spawn('/bin/sh', ['-c', script, String(pid), signal], { stdio: ['pipe', 'ignore', 'ignore'], env: {} });
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

function how(child: ChildProcess): string {
  return child.signalCode ?? `exit code ${String(child.exitCode)}`;
}

async function readJson<T>(path: string): Promise<T | null> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as T;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null;
    throw error;
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
  }
}
