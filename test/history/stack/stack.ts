/**
 * A stack whose parts can be hurt one by one: a scheduler, or several on a PostgreSQL server, two gateways and two or three agents, each a process of
 * its own, with a fault proxy on every link between them and in front of the gateways.
 */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { chmod, cp, mkdir, realpath, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { ownFolder } from '../../support/own-folder.ts';
import { processesOf, type Found } from '../../support/processes.ts';
import { until } from '../../support/until.ts';
import type { EndpointPromise } from '../core/record.ts';
import { Database } from './database.ts';
import { Link } from './link.ts';
import { Part, type PartPlan } from './part.ts';
import type { Victim } from './victim.ts';

const app = join(import.meta.dirname, '../app');
const tool = join(import.meta.dirname, '../../../cli/main.ts');
const GATEWAYS = ['gateway-1', 'gateway-2'] as const;
const AGENTS = ['agent-a', 'agent-b'] as const;

/** Small enough that pauses of seconds cross them; large enough for a busy machine. */
export const LIMITS = { CAPSTAN_HEARTBEAT_MS: '500', CAPSTAN_SILENCE_MS: '5000', CAPSTAN_NODE_GRACE_MS: '5000' };

/** How long results, and the keys of submissions, are kept, ms. */
export interface Retention {
  readonly runRetentionMs: number;
  readonly runsyncRetentionMs: number;
  readonly idempotencyRetentionMs: number;
}

/** Where a further agent runs: behind a network link of its own. */
export interface Site {
  readonly prefix: readonly string[];
  /** Address of this side of the link. */
  readonly host: string;
}

interface Resource {
  readonly workersMax?: number;
  readonly maxConcurrency?: number;
  readonly maxAttempts?: number;
}

/** What surrounds the parts, all optional. */
export interface StackSettings {
  /** Added to each part's environment, by its name. */
  readonly env: (part: string) => NodeJS.ProcessEnv;
  /** Prepares a part's folder, which is empty. */
  readonly prepareFolder: (part: string, path: string) => void;
  /** Called before the folders are removed. */
  readonly releaseFolders: () => void;
  /** For a third agent. */
  readonly site: Site | undefined;
  /** Several of them share a PostgreSQL server, whose programs are in `postgres`. */
  readonly schedulers: number;
  readonly postgres: string | undefined;
  readonly retention: Retention;
  /** `cli/main.ts` of another checkout, which the parts run; this one's when left out. */
  readonly program?: string;
  /** Its parts write their live heap once a minute. */
  readonly observesHeaps?: boolean;
}

export const plainSettings: StackSettings = {
  env: () => ({}),
  prepareFolder: () => undefined,
  releaseFolders: () => undefined,
  site: undefined,
  schedulers: 1,
  postgres: undefined,
  // Long enough that jobs outlive a run where they can.
  retention: { runRetentionMs: 7_200_000, runsyncRetentionMs: 300_000, idempotencyRetentionMs: 86_400_000 },
};

/** Called for every end of a part before the stack is closed; `log` is the file of its log. */
type Exited = (part: string, how: string, log: string) => void;

export class HistoryStack {
  readonly apiKey = `cap_${randomBytes(24).toString('base64url')}`;
  readonly folder: string;
  readonly parts = new Map<string, Part>();
  /** Links between parts. */
  readonly inner: Link[] = [];
  /** Links in front of the gateways, by the gateway's name. */
  readonly outer = new Map<string, Link>();
  /** The server of several schedulers. */
  database: Database | undefined;
  /** Ids of the endpoints by name. */
  endpoints: ReadonlyMap<string, string> = new Map();
  readonly #settings: StackSettings;
  readonly #exited: Exited;
  readonly #addresses = new Map<string, string>();

  private constructor(folder: string, settings: StackSettings, exited: Exited) {
    this.folder = folder;
    this.#settings = settings;
    this.#exited = exited;
  }

  /** Starts all parts and deploys the app. `exited` is called for every end of a part before {@link close}. */
  static async start(settings: StackSettings, exited: Exited): Promise<HistoryStack> {
    const folder = await realpath(await ownFolder('capstan-history'));
    const stack = new HistoryStack(folder, settings, exited);
    try {
      await stack.#start();
      return stack;
    } catch (error) {
      await stack.close();
      throw error;
    }
  }

  get dataDir(): string {
    return join(this.folder, 'scheduler');
  }

  /** Base URL of a gateway's API, through its fault proxy. */
  url(gateway: string): string {
    return `http://${this.outer.get(gateway)?.address ?? ''}`;
  }

  get gateways(): string[] {
    return [...this.outer.keys()];
  }

  /** What faults of processes hit. */
  victims(): Victim[] {
    return [...this.parts.values(), ...(this.database === undefined ? [] : [this.database])];
  }

  /** `host:port` or the URL at which a part serves. */
  address(part: string): string {
    return this.#addresses.get(part) ?? '';
  }

  /** Names of the schedulers: any of them may own the queue. */
  get schedulers(): string[] {
    return [...this.parts.values()].filter(({ plan }) => plan.role === 'scheduler').map(({ name }) => name);
  }

  /** Processes in which handlers run. */
  hosts(): Found[] {
    return processesOf(this.folder).filter(({ role }) => role === 'host');
  }

  /** The live heap of a part when it was last written, bytes; undefined before. */
  liveHeap(part: string): number | undefined {
    const path = this.#liveHeapFile(part);
    return existsSync(path) ? Number(readFileSync(path, 'utf8')) : undefined;
  }

  /** What the endpoints promise, by id, as their manifest has it. */
  promises(): Record<string, EndpointPromise> {
    const { resources } = JSON.parse(readFileSync(join(app, 'tool_manifest.json'), 'utf8')) as { resources: Record<string, Resource> };
    return Object.fromEntries(
      [...this.endpoints].map(([name, id]) => {
        const { maxAttempts = 2, workersMax, maxConcurrency } = resources[name] ?? {};
        return [id, { name, maxAttempts, inOrder: workersMax === 1 && maxConcurrency === 1 }];
      }),
    );
  }

  /** What a command of the tool prints. */
  async capstan(...args: string[]): Promise<string> {
    const [gateway = ''] = this.gateways;
    const env = {
      ...this.#environment(),
      CAPSTAN_DATA_DIR: this.dataDir,
      CAPSTAN_URL: this.url(gateway),
      CAPSTAN_SCHEDULER: this.schedulers.map((name) => this.#addresses.get(name) ?? '').join(','),
    };
    return (await promisify(execFile)(process.execPath, [tool, ...args], { cwd: this.folder, env })).stdout;
  }

  /** Ends every process and removes the folder; the parts' logs are kept in another one where it is given. */
  async close(logs?: string): Promise<void> {
    const order = [...this.parts.values()].toReversed();
    for (const part of order) await part.close();
    await this.database?.close();
    await Promise.all([...this.inner, ...this.outer.values()].map((link) => link.close()));
    for (const { pid } of processesOf(this.folder)) killIfThere(pid);
    await until('no process of the stack is left', () => processesOf(this.folder).length === 0);
    if (logs !== undefined) await cp(join(this.folder, 'logs'), logs, { recursive: true });
    this.#settings.releaseFolders();
    await rm(this.folder, { recursive: true, force: true, maxRetries: 3 });
  }

  async #start(): Promise<void> {
    const { site } = this.#settings;
    await Promise.all(['tmp', 'logs'].map((name) => mkdir(join(this.folder, name))));
    await this.#addSchedulers();
    for (const name of GATEWAYS) {
      const schedulers = await this.#linksToSchedulers(name);
      this.outer.set(name, await Link.open(`clients→${name}`, () => this.#addresses.get(name) ?? ''));
      await this.#add(name, 'gateway', () => ({
        CAPSTAN_SCHEDULER: schedulers,
        CAPSTAN_HTTP_PORT: portOf(this.#addresses.get(name)),
        CAPSTAN_GATEWAY_TOKEN_FILE: join(this.dataDir, 'secrets/gateway-token'),
      }));
    }
    for (const name of AGENTS) {
      await this.#addAgent(name, { CAPSTAN_SCHEDULER: await this.#linksToSchedulers(name) }, []);
    }
    if (site !== undefined) {
      const schedulers = this.schedulers.map((name) => `${site.host}:${portOf(this.#addresses.get(name))}`).join(',');
      await this.#addAgent('agent-c', { CAPSTAN_SCHEDULER: schedulers, CAPSTAN_GRPC_PLAIN: 'anywhere' }, site.prefix);
    }
    this.endpoints = await this.#deploy();
  }

  #liveHeapFile(part: string): string {
    return join(this.folder, 'tmp', `${part}.live-heap`);
  }

  #addAgent(name: string, env: NodeJS.ProcessEnv, prefix: readonly string[]): Promise<void> {
    const own = { ...env, CAPSTAN_JOIN_TOKEN_FILE: join(this.dataDir, 'secrets/join-token'), CAPSTAN_NODE_NAME: name };
    return this.#add(name, 'agent', () => own, prefix);
  }

  async #addSchedulers(): Promise<void> {
    const { site, schedulers, postgres } = this.#settings;
    if (schedulers > 1) {
      if (postgres === undefined) throw new Error('several schedulers need PostgreSQL');
      await chmod(this.folder, 0o711);
      this.database = new Database(postgres, join(this.folder, 'database'), join(this.folder, 'logs', 'database.log'));
      await this.database.start();
      await mkdir(join(this.folder, 'blobs'));
    }
    for (let number = 1; number <= schedulers; number++) {
      const name = number === 1 ? 'scheduler' : `scheduler-${number}`;
      const store = await this.#linkToDatabase(name);
      await this.#add(name, 'scheduler', () => ({
        ...store,
        CAPSTAN_GRPC_PORT: portOf(this.#addresses.get(name)),
        ...(site === undefined ? {} : { CAPSTAN_GRPC_HOST: '0.0.0.0', CAPSTAN_GRPC_PLAIN: 'anywhere' }),
      }));
    }
  }

  /** The store of a scheduler; nothing with SQLite. */
  async #linkToDatabase(name: string): Promise<NodeJS.ProcessEnv> {
    const { database } = this;
    if (database === undefined) return {};
    const link = await Link.open(`${name}→database`, () => database.address);
    this.inner.push(link);
    return { CAPSTAN_STORE: database.url(link.address), CAPSTAN_BLOB_DIR: join(this.folder, 'blobs'), CAPSTAN_BLOB_DIR_SHARED: 'true' };
  }

  /** A link to each scheduler, as a list. */
  async #linksToSchedulers(name: string): Promise<string> {
    const links = await Promise.all(
      this.schedulers.map((scheduler) => Link.open(`${name}→${scheduler}`, () => this.#addresses.get(scheduler) ?? '')),
    );
    this.inner.push(...links);
    return links.map(({ address }) => address).join(',');
  }

  async #add(name: string, role: PartPlan['role'], env: () => NodeJS.ProcessEnv, prefix: readonly string[] = []): Promise<void> {
    const folder = join(this.folder, name);
    await mkdir(folder);
    this.#settings.prepareFolder(name, folder);
    // Schedulers of one database have the same secrets.
    if (role === 'scheduler' && folder !== this.dataDir)
      await cp(join(this.dataDir, 'secrets'), join(folder, 'secrets'), { recursive: true });
    const part = new Part({
      name,
      role,
      folder,
      prefix,
      log: join(this.folder, 'logs', `${name}.log`),
      ...(this.#settings.program === undefined ? {} : { program: this.#settings.program }),
      ...(this.#settings.observesHeaps === true ? { liveHeapFile: this.#liveHeapFile(name) } : {}),
      env: () => ({ ...this.#environment(), CAPSTAN_DATA_DIR: folder, ...env(), ...this.#settings.env(name) }),
      exited: (how) => this.#exited(name, how, join(this.folder, 'logs', `${name}.log`)),
    });
    this.parts.set(name, part);
    const limit = AbortSignal.timeout(60_000);
    const late = new Promise<never>((_, reject) => limit.addEventListener('abort', () => reject(new Error(`the ${name} did not start`))));
    // It comes back at the same address: the links know it.
    const address = await Promise.race([part.start(), late]);
    this.#addresses.set(name, address.replace(/^0\.0\.0\.0:/, '127.0.0.1:'));
  }

  #environment(): NodeJS.ProcessEnv {
    const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('CAPSTAN_') && name !== 'NODE_CHANNEL_FD');
    return {
      ...Object.fromEntries(inherited),
      SERVICE_API_KEY: this.apiKey,
      CAPSTAN_HTTP_PORT: '0',
      CAPSTAN_GRPC_PORT: '0',
      CAPSTAN_CONTAINER_SOCKET: 'none',
      CAPSTAN_ISOLATION: 'none',
      CAPSTAN_SPARE_HOSTS: '0',
      CAPSTAN_WEBHOOK_ALLOW: '127.0.0.0/8',
      CAPSTAN_RATE_LIMITS: ['run', 'runsync', 'status', 'stream', 'cancel', 'purge-queue'].map((operation) => `${operation}=0/0`).join(),
      CAPSTAN_RUN_RETENTION_MS: String(this.#settings.retention.runRetentionMs),
      CAPSTAN_RUNSYNC_RETENTION_MS: String(this.#settings.retention.runsyncRetentionMs),
      CAPSTAN_IDEMPOTENCY_RETENTION_MS: String(this.#settings.retention.idempotencyRetentionMs),
      NO_COLOR: '1',
      // Inherited by worker hosts: the mark by which every process of this stack is found.
      TMPDIR: join(this.folder, 'tmp'),
      ...LIMITS,
    };
  }

  async #deploy(): Promise<ReadonlyMap<string, string>> {
    const copy = join(this.folder, 'app');
    await cp(app, copy, { recursive: true });
    const rows = JSON.parse(await this.capstan('deploy', copy, '--json', '--no-wait')) as { id: string; name: string }[];
    return new Map(rows.map(({ name, id }) => [name, id]));
  }
}

function portOf(address: string | undefined): string {
  return address?.slice(address.lastIndexOf(':') + 1) ?? '0';
}

export function killIfThere(pid: number, signal: NodeJS.Signals = 'SIGKILL'): boolean {
  try {
    process.kill(pid, signal);
    return true;
  } catch (error) {
    // It may have ended since it was seen.
    if (error instanceof Error && 'code' in error && error.code === 'ESRCH') return false;
    throw error;
  }
}
