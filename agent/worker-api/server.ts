/**
 * The agent's HTTP server for foreign workers: programs and images that speak the protocol of
 * the worker protocol (docs/foreign-workers.md) run against it unchanged. Each worker has a token of its own and reaches its
 * own jobs only; whoever has none gets 401 and learns nothing.
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';

import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';

import { SharedBudget } from '../../lib/shared-budget.ts';
import { UploadMonitor, type UploadRule } from '../../lib/upload-monitor.ts';
import type { Caller } from './calls.ts';
import type { JobMailbox } from './job-mailbox.ts';

const TOKEN_BYTES = 32;
/** Clients keep connections for their next call: the server is not to close one that is just used again, ms. */
const KEEP_ALIVE_MS = 72_000;
/** Time a worker has to send a whole request, ms. Answers may take longer: calls are held on purpose. */
const REQUEST_MS = 120_000;
/** Memory for the posts of all workers of the agent, bytes. */
const BODY_MEMORY_BYTES = 256 * 1024 * 1024;
/** Slower posts end: a worker has the agent on its own host. */
const UPLOAD_RULE: UploadRule = { minBytes: 16 * 1024, windowMs: 10_000, now: () => performance.now() };
/** Addresses that stand for all of a host's. */
const isWildcard = (host: string): boolean => host === '0.0.0.0' || host === '::';

export interface WorkerApiOptions {
  /** Address to listen on. */
  readonly host: string;
  /** 0 for any free one. */
  readonly port: number;
  readonly log: Logger;
  /** Memory for the bodies of all workers, bytes. */
  readonly bodyMemoryBytes?: number;
  readonly uploadRule?: UploadRule;
}

export interface Admission {
  /** Secret that the worker shows with each call. */
  readonly token: string;
  /** From now on the worker is a stranger. */
  revoke(): void;
}

interface Admitted {
  readonly endpointId: string;
  readonly tokenHash: Buffer;
  readonly desk: JobMailbox;
}

export class WorkerApi {
  readonly #host: string;
  readonly #log: Logger;
  readonly #memory: SharedBudget;
  readonly #uploads: UploadMonitor;
  readonly #workers = new Map<string, Admitted>();
  readonly #server: Server;
  readonly #also = new Map<string, Promise<Server>>();
  /** Loaded when it is wanted: a fifth of an agent's start, and most agents never have a foreign worker. */
  #calls: Promise<FastifyInstance> | undefined;

  private constructor({ host, log, bodyMemoryBytes = BODY_MEMORY_BYTES, uploadRule = UPLOAD_RULE }: WorkerApiOptions) {
    this.#host = host;
    this.#log = log;
    this.#memory = new SharedBudget(bodyMemoryBytes);
    this.#uploads = new UploadMonitor(uploadRule);
    this.#server = this.#makeServer();
  }

  /** Listens; rejects when the address cannot be had. */
  static async start(options: WorkerApiOptions): Promise<WorkerApi> {
    const { host, port } = options;
    const api = new WorkerApi(options);
    // Workers are told 127.0.0.1; the name may stand for ::1 alone.
    api.#server.listen(port, host === 'localhost' ? '127.0.0.1' : host);
    await once(api.#server, 'listening');
    return api;
  }

  /** Listens on one more address of this host, at the same port: where containers reach it. Rejects when it cannot. */
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

  /** Lets a worker in. One id is one worker: a new admission takes the place of an earlier one. */
  admit(workerId: string, endpointId: string, desk: JobMailbox): Admission {
    const token = randomBytes(TOKEN_BYTES).toString('base64url');
    const admitted: Admitted = { endpointId, desk, tokenHash: hash(token) };
    this.#workers.set(workerId, admitted);
    // While the worker starts; what fails here fails again, and is told, with its first call.
    this.#load().catch(() => undefined);
    return {
      token,
      revoke: () => {
        if (this.#workers.get(workerId) === admitted) this.#workers.delete(workerId);
      },
    };
  }

  /** Ends every call at once. */
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
      makeCalls({ deskOf: (caller) => this.#deskOf(caller), memory: this.#memory, uploads: this.#uploads, log: this.#log }),
    );
    return this.#calls;
  }

  #deskOf({ endpointId, workerId, token }: Caller): JobMailbox | undefined {
    const admitted = this.#workers.get(workerId);
    if (admitted === undefined || admitted.endpointId !== endpointId) return undefined;
    return timingSafeEqual(hash(token), admitted.tokenHash) ? admitted.desk : undefined;
  }
}

function hash(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}
