/**
 * The agent's HTTP server for foreign workers: programs and images that speak the protocol of
 * WIRE.md section 2 run against it unchanged. Each worker has a token of its own and reaches its
 * own jobs only; whoever has none gets 401 and learns nothing.
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';

import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import type { Logger } from 'pino';

import { MAX_CHUNK_BYTES, MAX_RESULT_BYTES } from '../runtimes/runtime.ts';
import type { Desk } from './desk.ts';
import { readChunk, readJobPost, tooLarge } from './job-post.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The worker that calls; set before anything else happens. */
    desk: Desk | null;
  }
}

/** What a document may hold beside its output, bytes. */
const ENVELOPE_BYTES = 1024 * 1024;
const MAX_PARAM_LENGTH = 512;
const TOKEN_BYTES = 32;
/** Addresses that stand for all of a host's. */
const isWildcard = (host: string): boolean => host === '0.0.0.0' || host === '::';
const MAX_REASON_CHARACTERS = 1_024;

export interface WorkerApiOptions {
  /** Address to listen on. */
  readonly host: string;
  /** 0 for any free one. */
  readonly port: number;
  readonly log: Logger;
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
  readonly desk: Desk;
}

interface Params {
  readonly endpoint: string;
  readonly worker: string;
  readonly job?: string;
}

type Query = Readonly<Record<string, string | readonly string[] | undefined>>;
type Call = FastifyRequest<{ Params: Params; Querystring: Query }>;

export class WorkerApi {
  readonly #app: FastifyInstance;
  readonly #host: string;
  readonly #workers = new Map<string, Admitted>();
  readonly #also = new Map<string, Promise<Server>>();

  private constructor(app: FastifyInstance, host: string) {
    this.#app = app;
    this.#host = host;
  }

  /** Listens; rejects when the address cannot be had. */
  static async start({ host, port, log }: WorkerApiOptions): Promise<WorkerApi> {
    const app = fastify({
      logger: false,
      bodyLimit: MAX_RESULT_BYTES + ENVELOPE_BYTES,
      // Calls are held for long on purpose.
      requestTimeout: 0,
      forceCloseConnections: true,
      return503OnClosing: false,
      routerOptions: { maxParamLength: MAX_PARAM_LENGTH },
    });
    const api = new WorkerApi(app, host);
    // Clients name other kinds than they send.
    app.removeAllContentTypeParsers();
    app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
    app.setErrorHandler((error: Error & { statusCode?: number; code?: string }, request, reply) => {
      const status = error.statusCode ?? 500;
      if (error.code === 'FST_ERR_CTP_BODY_TOO_LARGE') api.#onTooLarge(request as Call);
      if (status >= 500) log.error({ error: error.message, url: request.routeOptions.url }, 'the worker API failed');
      return reply.code(status).send({ error: status >= 500 ? 'internal error' : error.message });
    });
    app.setNotFoundHandler((_request, reply) => reply.code(404).send({ error: 'no such call' }));
    api.#routes();
    await app.listen({ host, port });
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
    const address = this.#app.server.address();
    return typeof address === 'object' && address !== null ? address.port : 0;
  }

  /** Lets a worker in. One id is one worker: a new admission takes the place of an earlier one. */
  admit(workerId: string, endpointId: string, desk: Desk): Admission {
    const token = randomBytes(TOKEN_BYTES).toString('base64url');
    const admitted: Admitted = { endpointId, desk, tokenHash: hash(token) };
    this.#workers.set(workerId, admitted);
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
    for (const listening of this.#also.values()) {
      const server = await listening.catch(() => undefined);
      server?.closeAllConnections();
      server?.close();
    }
    await this.#app.close();
  }

  async #listen(address: string): Promise<Server> {
    const server = createServer((request, response) => this.#app.routing(request, response));
    server.requestTimeout = 0;
    server.listen(this.port, address);
    await once(server, 'listening');
    return server;
  }

  #routes(): void {
    const app = this.#app;
    // Strangers are turned away before their body is read: it would be held in memory for nothing.
    app.decorateRequest('desk', null);
    app.addHook('onRequest', (request, reply, done) => {
      if (request.is404) return done();
      const desk = this.#deskOf(request as Call);
      if (desk === undefined) return refuse(reply);
      request.desk = desk;
      done();
    });
    app.get('/v2/:endpoint/job-take/:worker', (call: Call, reply) => take(call, reply, 1));
    app.get('/v2/:endpoint/job-take-batch/:worker', (call: Call, reply) => take(call, reply, batchSize(call.query)));
    app.get('/v2/:endpoint/job-stop/:worker', async (call: Call, reply) => {
      const jobsToStop = await deskOf(call).stops(goneSignal(reply));
      return jobsToStop.length === 0 ? reply.code(204).send() : reply.send({ jobsToStop });
    });
    app.get('/v2/:endpoint/ping/:worker', (call: Call, reply) => {
      deskOf(call).ping({ jobIds: text(call.query['job_id'])?.split(','), unhealthy: unhealthyOf(call.query) });
      return reply.send({});
    });
    app.post('/v2/:endpoint/job-done/:worker/:job', (call: Call, reply) => {
      deskOf(call).post(call.params.job ?? '', readJobPost(bodyOf(call)));
      return reply.send({});
    });
    app.post('/v2/:endpoint/job-stream/:worker/:job', async (call: Call, reply) => {
      const desk = deskOf(call);
      const chunk = readChunk(bodyOf(call));
      if ('fault' in chunk) desk.refuse(call.params.job ?? '', chunk.fault);
      else await desk.chunk(call.params.job ?? '', chunk.data, goneSignal(reply));
      return reply.send({});
    });
  }

  /** The desk of the worker that calls; absent for a stranger, or one that speaks for another. */
  #deskOf(call: Call): Desk | undefined {
    const admitted = this.#workers.get(call.params.worker);
    const shown = (call.headers.authorization ?? '').replace(/^Bearer /, '');
    if (admitted === undefined || admitted.endpointId !== call.params.endpoint) return undefined;
    return timingSafeEqual(hash(shown), admitted.tokenHash) ? admitted.desk : undefined;
  }

  /** Refused by its size before it was read: the job must not wait for a result that can never come. */
  #onTooLarge(call: Call): void {
    const { job } = call.params;
    if (job === undefined) return;
    const bytes = Number(call.headers['content-length'] ?? MAX_RESULT_BYTES + ENVELOPE_BYTES);
    const isChunk = call.routeOptions.url?.includes('stream') === true;
    const fault = isChunk ? `a chunk has ${bytes} bytes; at most ${MAX_CHUNK_BYTES / 1024 / 1024} MiB is allowed` : tooLarge(bytes);
    call.desk?.refuse(job, fault);
  }
}

/** Of a call that was let in. */
function deskOf({ desk }: Call): Desk {
  if (desk === null) throw new Error('a call without a desk was let in');
  return desk;
}

async function take(call: Call, reply: FastifyReply, count: number): Promise<FastifyReply> {
  const busy = text(call.query['job_in_progress']);
  const gone = goneSignal(reply);
  const handout = await deskOf(call).take({ count, busy: busy === undefined ? undefined : busy !== '0' }, gone);
  const [first] = handout.jobs;
  if (first === undefined) return reply.code(204).send();
  if (gone.aborted) {
    handout.lost();
    return reply;
  }
  let written = false;
  reply.raw.once('finish', () => {
    written = true;
    handout.written();
  });
  reply.raw.once('close', () => {
    if (!written) handout.lost();
  });
  // The batch call answers an array, however many there are.
  const body = call.routeOptions.url?.includes('batch') === true ? Buffer.concat([...joined(handout.jobs)]) : first;
  return reply.type('application/json').send(body);
}

function refuse(reply: FastifyReply): FastifyReply {
  return reply.code(401).send({ error: 'unauthorized' });
}

/** Aborted when the caller hangs up before it has its answer. */
function goneSignal(reply: FastifyReply): AbortSignal {
  const controller = new AbortController();
  reply.raw.once('close', () => controller.abort());
  return controller.signal;
}

function batchSize(query: Query): number {
  const size = Number(text(query['batch_size']) ?? 1);
  return Number.isInteger(size) && size > 0 ? size : 1;
}

function unhealthyOf(query: Query): string | undefined {
  if (text(query['status']) !== 'unhealthy') return undefined;
  const parts = [text(query['check']), text(query['reason'])].filter((part) => part !== undefined && part !== '');
  return (parts.length === 0 ? 'no reason given' : parts.join(': ')).slice(0, MAX_REASON_CHARACTERS);
}

function text(value: Query[string]): string | undefined {
  return typeof value === 'string' ? value : value?.[0];
}

function bodyOf(call: Call): Buffer {
  return Buffer.isBuffer(call.body) ? call.body : Buffer.alloc(0);
}

function* joined(jobs: readonly Buffer[]): Generator<Buffer> {
  for (const [index, job] of jobs.entries()) {
    yield Buffer.from(index === 0 ? '[' : ',');
    yield job;
  }
  yield Buffer.from(']');
}

function hash(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}
