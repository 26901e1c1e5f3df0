/**
 * The agent's HTTP server for foreign workers: programs and images that speak the worker protocol
 * (docs/foreign-workers.md) run against it unchanged. Each worker has its own token and reaches its own jobs only; a
 * caller without a token gets 401.
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';

import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';

import { SharedBudget } from '../../lib/shared-budget.ts';
import { UploadMonitor, type UploadRule } from '../../lib/upload-monitor.ts';
import type { ReadingShare } from '../runtimes/reading-shares.ts';
import type { Caller } from './calls.ts';
import type { JobMailbox } from './job-mailbox.ts';

const TOKEN_BYTES = 32;
/** Clients reuse connections: the server must not close one that is about to be reused, ms. */
const KEEP_ALIVE_MS = 72_000;
/** Time for a worker to send a whole request, ms. Responses may take longer: calls are held on purpose. */
const REQUEST_MS = 120_000;
/** Memory for the posts of all workers of the agent, bytes. */
const BODY_MEMORY_BYTES = 256 * 1024 * 1024;
/** Slower posts are ended: a worker runs on the agent's own host. */
const UPLOAD_RULE: UploadRule = { minBytes: 16 * 1024, windowMs: 10_000, now: () => performance.now() };
/** Addresses that stand for all addresses of a host. */
const isWildcard = (host: string): boolean => host === '0.0.0.0' || host === '::';

export interface WorkerApiOptions {
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
  readonly log: Logger;
  /** Memory for the bodies of all workers, bytes. */
  readonly bodyMemoryBytes?: number;
  readonly uploadRule?: UploadRule;
}

export interface Admission {
  /** Secret that the worker sends with each call. */
  readonly token: string;
  /** Revokes the worker's access. */
  revoke(): void;
}

interface Admitted {
  readonly endpointId: string;
  readonly tokenHash: Buffer;
  readonly mailbox: JobMailbox;
  readonly share: ReadingShare | undefined;
}

export class WorkerApi {
  readonly #host: string;
  readonly #log: Logger;
  readonly #memory: SharedBudget;
  readonly #uploads: UploadMonitor;
  readonly #workers = new Map<string, Admitted>();
  readonly #server: Server;
  readonly #also = new Map<string, Promise<Server>>();
  /** Loaded on demand: it is a fifth of an agent's start, and most agents never have a foreign worker. */
  #calls: Promise<FastifyInstance> | undefined;

  private constructor({ host, log, bodyMemoryBytes = BODY_MEMORY_BYTES, uploadRule = UPLOAD_RULE }: WorkerApiOptions) {
    this.#host = host;
    this.#log = log;
    this.#memory = new SharedBudget(bodyMemoryBytes);
    this.#uploads = new UploadMonitor(uploadRule);
    this.#server = this.#makeServer();
  }

  /** Listens; rejects when the address is unavailable. */
  static async start(options: WorkerApiOptions): Promise<WorkerApi> {
    const { host, port } = options;
    const api = new WorkerApi(options);
    // Workers receive 127.0.0.1; the name may stand for ::1 only.
    api.#server.listen(port, host === 'localhost' ? '127.0.0.1' : host);
    await once(api.#server, 'listening');
    return api;
  }

  /** Listens on one more address of this host, at the same port, for containers. Rejects when that fails. */
  async listenAlso(address: string): Promise<void> {
    if (address === this.#host || isWildcard(this.#host)) return;
    let listening = this.#also.get(address);
    if (listening === undefined) {
      listening = this.#listen(address);
      this.#also.set(address, listening);
      listening.catch(() => this.#also.delete(address));
    }
    await listening;
  }

  get port(): number {
    const address = this.#server.address();
    return typeof address === 'object' && address !== null ? address.port : 0;
  }

  /** Admits a worker. One id is one worker: a new admission replaces an earlier one. `share`: what its calls count for. */
  admit(workerId: string, endpointId: string, mailbox: JobMailbox, share?: ReadingShare): Admission {
    const token = randomBytes(TOKEN_BYTES).toString('base64url');
    const admitted: Admitted = { endpointId, mailbox, share, tokenHash: hash(token) };
    this.#workers.set(workerId, admitted);
    // Runs while the worker starts; a failure here recurs with its first call and is reported then.
    this.#load().catch(() => undefined);
    return {
      token,
      revoke: () => {
        if (this.#workers.get(workerId) === admitted) this.#workers.delete(workerId);
      },
    };
  }

  /** Ends every call immediately. */
  async close(): Promise<void> {
    this.#workers.clear();
    const also = await Promise.all([...this.#also.values()].map((listening) => listening.catch(() => undefined)));
    for (const server of [this.#server, ...also]) {
      server?.close();
      server?.closeAllConnections();
    }
    await this.#calls?.then(
      (app) => app.close(),
      () => undefined,
    );
  }

  async #listen(address: string): Promise<Server> {
    const server = this.#makeServer();
    server.listen(this.port, address);
    await once(server, 'listening');
    return server;
  }

  #makeServer(): Server {
    const answer = (request: IncomingMessage, response: ServerResponse): void => {
      this.#load().then(
        (app) => app.routing(request, response),
        (error: unknown) => {
          this.#log.error({ err: error }, 'loading the worker API failed');
          response.writeHead(500).end();
        },
      );
    };
    return createServer({ requestTimeout: REQUEST_MS, keepAliveTimeout: KEEP_ALIVE_MS }, answer);
  }

  #load(): Promise<FastifyInstance> {
    this.#calls ??= import('./calls.ts').then(({ makeCalls }) =>
      makeCalls({ admitted: (caller) => this.#admitted(caller), memory: this.#memory, uploads: this.#uploads, log: this.#log }),
    );
    return this.#calls;
  }

  #admitted({ endpointId, workerId, token }: Caller): Admitted | undefined {
    const admitted = this.#workers.get(workerId);
    if (admitted === undefined || admitted.endpointId !== endpointId) return undefined;
    return timingSafeEqual(hash(token), admitted.tokenHash) ? admitted : undefined;
  }
}

function hash(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}
