/** A service whose parts are of several versions, each a process as `capstan up` starts them. */
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import type { ExecutionContext } from 'ava';

import { folderOf } from '../support/folder.ts';
import { freePort } from '../support/free-port.ts';
import type { JobDocument } from '../support/stack.ts';
import { until } from '../support/until.ts';
import type { Version } from './earlier.ts';

/** A standby is a second scheduler, with a data folder of its own. */
export type PartName = 'scheduler' | 'standby' | 'gateway' | 'agent';

interface Running {
  readonly child: ChildProcess;
  readonly address: string;
  readonly output: () => string;
}

const ENDED = new Set(['COMPLETED', 'FAILED', 'CANCELLED', 'TIMED_OUT']);

export class MixedStack {
  readonly dataDir: string;
  readonly apiKey = `cap_${randomBytes(24).toString('base64url')}`;
  readonly #running = new Map<PartName, Running>();
  readonly #addresses = new Map<PartName, string>();
  /** Endpoint ids by name. */
  readonly #ids = new Map<string, string>();

  readonly #store: Readonly<Record<string, string>>;

  private constructor(dataDir: string, store: Readonly<Record<string, string>>) {
    this.dataDir = dataDir;
    this.#store = store;
  }

  /** With the address of a database the queue is in PostgreSQL, and there may be a standby. */
  static async create(t: ExecutionContext, database?: string): Promise<MixedStack> {
    const folder = await folderOf(t);
    const shared = { CAPSTAN_BLOB_DIR: join(folder, 'blobs'), CAPSTAN_BLOB_DIR_SHARED: 'true' };
    const stack = new MixedStack(join(folder, 'data'), database === undefined ? {} : { CAPSTAN_STORE: database, ...shared });
    t.teardown(() => stack.close());
    if (database === undefined) return stack;
    await mkdir(join(stack.dataDir, 'standby'), { recursive: true, mode: 0o700 });
    await symlink('../secrets', join(stack.dataDir, 'standby/secrets'));
    // The others know both addresses before the standby is there.
    stack.#addresses.set('standby', `127.0.0.1:${await freePort()}`);
    return stack;
  }

  get url(): string {
    return `http://${this.#addresses.get('gateway') ?? ''}`;
  }

  /** The environment of commands of the tool and of programs with an SDK. */
  get variables(): Record<string, string | undefined> {
    return { ...process.env, SERVICE_API_KEY: this.apiKey, CAPSTAN_URL: this.url, CAPSTAN_DATA_DIR: this.dataDir, NO_COLOR: '1' };
  }

  /** Starts a part of a version, or replaces the one that runs: at the same address, on the same data. */
  async run(part: PartName, { tree }: Version): Promise<void> {
    await this.stop(part);
    const child = spawn(
      process.execPath,
      ['--max-semi-space-size=16', join(tree, 'cli/main.ts'), part === 'standby' ? 'scheduler' : part],
      {
        stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
        env: { ...process.env, ...this.#settings(part) },
      },
    );
    let output = '';
    const hear = (chunk: Buffer): void => void (output += chunk.toString());
    child.stdout?.on('data', hear);
    child.stderr?.on('data', hear);
    const address = await new Promise<string>((resolve, reject) => {
      child.on('message', (message: { type: string; address?: string; message?: string }) => {
        if (message.type === 'ready') resolve(message.address ?? '');
        if (message.type === 'failed') reject(new Error(`${part}: ${message.message ?? ''}\n${output}`));
      });
      child.once('exit', () => reject(new Error(`${part} ended\n${output}`)));
    });
    this.#running.set(part, { child, address, output: () => output });
    if (address !== '') this.#addresses.set(part, address);
  }

  async stop(part: PartName): Promise<void> {
    const running = this.#running.get(part);
    if (running === undefined) return;
    this.#running.delete(part);
    const { child } = running;
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    await ended;
  }

  async close(): Promise<void> {
    for (const part of ['gateway', 'agent', 'standby', 'scheduler'] as const) await this.stop(part);
  }

  /** What the running part printed. */
  output(part: PartName): string {
    return this.#running.get(part)?.output() ?? '';
  }

  /** Runs a command of a version's tool. */
  async tool({ tree }: Version, ...args: string[]): Promise<{ readonly stdout: string; readonly code: number }> {
    try {
      const { stdout } = await promisify(execFile)(process.execPath, [join(tree, 'cli/main.ts'), ...args], { env: this.variables });
      return { stdout, code: 0 };
    } catch (error) {
      const { stdout, stderr, code } = error as { stdout: string; stderr: string; code: number };
      if (code !== 78) throw new Error(`capstan ${args.join(' ')}: ${String(code)}\n${stdout}\n${stderr}`, { cause: error });
      return { stdout, code };
    }
  }

  async deploy(version: Version, folder: string): Promise<void> {
    await this.tool(version, 'deploy', folder, '--url', this.url);
    const { stdout } = await this.tool(version, 'endpoints', 'list', '--json', '--url', this.url);
    for (const { id, name } of JSON.parse(stdout) as { id: string; name: string }[]) this.#ids.set(name, id);
  }

  id(name: string): string {
    const id = this.#ids.get(name);
    if (id === undefined) throw new Error(`there is no endpoint ${name}`);
    return id;
  }

  async submit(name: string, input: object): Promise<string> {
    return (await this.#post(`/v2/${this.id(name)}/run`, { input })).id;
  }

  status(name: string, job: string): Promise<JobDocument> {
    return this.#json(`/v2/${this.id(name)}/status/${job}`);
  }

  async ended(name: string, job: string): Promise<JobDocument> {
    return until(`the job ${job} of ${name} has ended`, async () => {
      const status = await this.status(name, job).catch(() => null);
      return status !== null && ENDED.has(status.status) ? status : null;
    });
  }

  /** Runs a job to its end. */
  async job(name: string, input: object): Promise<JobDocument> {
    return this.ended(name, await this.submit(name, input));
  }

  /** Sends a request to a route of a load-balanced endpoint until a worker answers it. */
  async route(name: string, path: string): Promise<unknown> {
    return until(`${name} answers`, async () => {
      const answer = await fetch(`${this.url}/lb/${this.id(name)}${path}`, { headers: this.#headers });
      return answer.ok ? answer.json() : answer.text().then(() => null);
    });
  }

  get #headers(): Record<string, string> {
    return { authorization: `Bearer ${this.apiKey}`, 'content-type': 'application/json' };
  }

  async #post(path: string, body: object): Promise<JobDocument> {
    return this.#json(path, { method: 'POST', body: JSON.stringify(body) });
  }

  async #json(path: string, init: RequestInit = {}): Promise<JobDocument> {
    const answer = await fetch(`${this.url}${path}`, { ...init, headers: this.#headers });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${text}`);
    return JSON.parse(text) as JobDocument;
  }

  #settings(part: PartName): Record<string, string | undefined> {
    const port = (of: PartName): string => this.#addresses.get(of)?.split(':').at(-1) ?? '0';
    const secrets = join(this.dataDir, 'secrets');
    const common = {
      CAPSTAN_SUPERVISED: '1',
      CAPSTAN_DATA_DIR: this.dataDir,
      CAPSTAN_SCHEDULER: ['scheduler', 'standby'].flatMap((each) => this.#addresses.get(each as PartName) ?? []).join(','),
      CAPSTAN_CONTAINER_SOCKET: 'none',
      CAPSTAN_ISOLATION: 'none',
      CAPSTAN_SPARE_HOSTS: '0',
    };
    switch (part) {
      case 'scheduler':
        return { ...common, ...this.#store, CAPSTAN_GRPC_PORT: port('scheduler'), SERVICE_API_KEY: this.apiKey };
      case 'standby':
        return { ...common, ...this.#store, CAPSTAN_DATA_DIR: join(this.dataDir, 'standby'), CAPSTAN_GRPC_PORT: port('standby') };
      case 'gateway':
        return { ...common, CAPSTAN_HTTP_PORT: port('gateway'), CAPSTAN_GATEWAY_TOKEN_FILE: join(secrets, 'gateway-token') };
      case 'agent':
        return { ...common, CAPSTAN_PUBLIC_URL: this.url, CAPSTAN_JOIN_TOKEN_FILE: join(secrets, 'join-token') };
    }
  }
}
