/** The service under check: `capstan up` of the installation, in a folder of its own and on free ports. */
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';

export interface Job {
  readonly id: string;
  readonly status: string;
  readonly output?: unknown;
  readonly error?: string;
}

const START_MS = 40_000;
const DEPLOY_MS = 60_000;
/** A call waits 60 s at most for a job. */
const CALL_MS = 90_000;
const STOP_MS = 8_000;

export class Service {
  /** Those that have been started and not closed, also while they start. */
  static readonly #running = new Set<Service>();
  static #isEnding = false;
  readonly #command: readonly string[];
  readonly #env: NodeJS.ProcessEnv;
  readonly #up: ChildProcess;
  /** Jobs that have not been seen to end, with their endpoints. */
  readonly #open = new Map<string, string>();
  /** Ends the tool's other commands with the service. */
  readonly #closing = new AbortController();
  readonly dataDir: string;
  #url = '';
  #key = '';

  private constructor(command: readonly string[], folder: string, env: NodeJS.ProcessEnv) {
    this.#command = command;
    this.dataDir = join(folder, 'data');
    this.#env = { ...process.env, CAPSTAN_DATA_DIR: this.dataDir, CAPSTAN_HTTP_PORT: '0', CAPSTAN_GRPC_PORT: '0', NO_COLOR: '1', ...env };
    const [program = '', ...args] = command;
    this.#up = spawn(program, [...args, 'up'], { cwd: folder, env: this.#env, stdio: ['ignore', 'pipe', 'pipe'] });
  }

  /** Starts it, and resolves when it serves. `command`: the words of the tool. */
  static async start(command: readonly string[], folder: string, env: NodeJS.ProcessEnv): Promise<Service> {
    await mkdir(folder, { recursive: true });
    if (Service.#isEnding) throw new Error('the check has ended');
    const service = new Service(command, folder, env);
    Service.#running.add(service);
    try {
      await service.#started(folder);
      return service;
    } catch (error) {
      await service.close();
      throw error;
    }
  }

  /** Closes what runs, also a service that has not started yet; no other starts from now on. */
  static async end(): Promise<void> {
    Service.#isEnding = true;
    await Promise.all([...Service.#running].map(async (each) => each.close()));
  }

  /** Deploys a folder; returns the ids of its endpoints by name. */
  async deploy(folder: string): Promise<ReadonlyMap<string, string>> {
    const rows = JSON.parse(await this.#tool('deploy', folder, '--json')) as { id: string; name: string }[];
    return new Map(rows.map(({ id, name }) => [name, id]));
  }

  /** Submits a job; returns its id. */
  async run(endpoint: string, input: object, policy: object = {}): Promise<string> {
    const { id } = await this.#call<Job>('POST', `/v2/${endpoint}/run`, { input, policy });
    this.#open.set(id, endpoint);
    return id;
  }

  /** Runs a job in one call, for latencies. */
  async runsync(endpoint: string, input: object): Promise<Job> {
    const job = await this.#call<Job>('POST', `/v2/${endpoint}/runsync?wait=60000`, { input });
    return this.ended(endpoint, job);
  }

  /** Cancels the jobs that are still open: their check ran out of time, and the next one needs the worker. */
  async cancelOpen(): Promise<void> {
    await Promise.allSettled([...this.#open].map(([id, endpoint]) => this.cancel(endpoint, id)));
  }

  /** Id of the process above all of the service. */
  get pid(): number {
    return this.#up.pid ?? 0;
  }

  /** Waits for the end of a job. */
  async ended(endpoint: string, { id, ...job }: Job): Promise<Job> {
    let now: Job = { id, ...job };
    while (now.status === 'IN_QUEUE' || now.status === 'IN_PROGRESS')
      now = await this.#call<Job>('GET', `/v2/${endpoint}/status-sync/${id}?wait=60000`);
    this.#open.delete(id);
    return now;
  }

  async cancel(endpoint: string, id: string): Promise<void> {
    await this.#call('POST', `/v2/${endpoint}/cancel/${id}`);
    this.#open.delete(id);
  }

  async graphql<T>(query: string): Promise<T> {
    const { data, errors } = await this.#call<{ data: T; errors?: readonly { readonly message: string }[] }>('POST', '/graphql', { query });
    if (errors !== undefined) throw new Error(errors[0]?.message);
    return data;
  }

  async metrics(): Promise<string> {
    const response = await fetch(`${this.#url}/metrics`, {
      headers: { authorization: `Bearer ${this.#key}` },
      signal: AbortSignal.timeout(CALL_MS),
    });
    return response.text();
  }

  async close(): Promise<void> {
    Service.#running.delete(this);
    this.#closing.abort();
    if (this.#up.exitCode !== null || this.#up.signalCode !== null) return;
    const exited = once(this.#up, 'exit');
    this.#up.kill('SIGTERM');
    const timer = setTimeout(() => this.#up.kill('SIGKILL'), STOP_MS);
    await exited;
    clearTimeout(timer);
  }

  async #started(folder: string): Promise<void> {
    let said = '';
    const log = createWriteStream(join(folder, 'up.log'));
    for (const stream of [this.#up.stdout, this.#up.stderr])
      stream?.on('data', (bytes: Buffer) => {
        said += bytes.toString();
        log.write(bytes);
      });
    const latest = performance.now() + START_MS;
    for (;;) {
      const [, url] = /Capstan is up: (http\S+)/.exec(said) ?? [];
      if (url !== undefined) {
        this.#url = url;
        this.#key = (await readFile(join(this.dataDir, 'secrets/api-key'), 'utf8')).trim();
        return;
      }
      if (this.#up.exitCode !== null || performance.now() > latest)
        throw new Error(said.trim().split('\n').slice(-3).join(' | ').slice(0, 600) || 'capstan up did not start');
      await pause(50);
    }
  }

  async #tool(...args: string[]): Promise<string> {
    const env = { ...this.#env, CAPSTAN_HTTP_PORT: '', CAPSTAN_GRPC_PORT: '' };
    const options = { env, cwd: join(this.dataDir, '..'), timeout: DEPLOY_MS, signal: this.#closing.signal };
    const [program = '', ...words] = this.#command;
    return (await promisify(execFile)(program, [...words, ...args], options)).stdout;
  }

  async #call<T>(method: string, path: string, body?: object): Promise<T> {
    const response = await fetch(`${this.#url}${path}`, {
      method,
      signal: AbortSignal.timeout(CALL_MS),
      headers: { authorization: `Bearer ${this.#key}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text.slice(0, 300)}`);
    return JSON.parse(text) as T;
  }
}
