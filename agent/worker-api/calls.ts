/** The calls of the worker API, as an app without a server of its own. */
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import type { Logger } from 'pino';

import { receiveBody, type BodyFault } from '../../lib/receive-body.ts';
import type { Reservation, SharedBudget } from '../../lib/shared-budget.ts';
import type { UploadMonitor } from '../../lib/upload-monitor.ts';
import { INTERNAL_ERROR } from '../../lib/http-messages.ts';
import { MAX_CHUNK_BYTES, MAX_RESULT_BYTES } from '../runtimes/runtime.ts';
import type { ReadingShare } from '../runtimes/reading-shares.ts';
import { CallShares } from './call-shares.ts';
import type { JobMailbox } from './job-mailbox.ts';
import { readChunk, readJobPost, tooLarge } from './job-post.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The calling worker; set before any other step. */
    mailbox: JobMailbox | null;
    /** Memory reserved for the body. */
    reservation: Reservation | null;
  }
}

/** Overhead of a document besides its output, bytes. */
const ENVELOPE_BYTES = 1024 * 1024;
const MAX_PARAM_LENGTH = 512;
const MAX_REASON_CHARACTERS = 1_024;

export interface Caller {
  readonly endpointId: string;
  readonly workerId: string;
  readonly token: string;
}

interface Params {
  readonly endpoint: string;
  readonly worker: string;
  readonly job?: string;
}

type Query = Readonly<Record<string, string | readonly string[] | undefined>>;
type Call = FastifyRequest<{ Params: Params; Querystring: Query }>;

/** Retry delay of a worker whose post was refused for lack of memory, s. */
const RETRY_S = '1';

export interface CallsOptions {
  /** Returns undefined for an unknown caller, or one that acts for another worker. */
  readonly admitted: (caller: Caller) => { readonly mailbox: JobMailbox; readonly share: ReadingShare | undefined } | undefined;
  /** Memory for the bodies of all workers. */
  readonly memory: SharedBudget;
  readonly uploads: UploadMonitor;
  readonly log: Logger;
}

export async function makeCalls({ admitted, memory, uploads, log }: CallsOptions): Promise<FastifyInstance> {
  const maxBytes = Math.min(MAX_RESULT_BYTES + ENVELOPE_BYTES, memory.largest);
  const app = fastify({
    logger: false,
    bodyLimit: maxBytes,
    return503OnClosing: false,
    // A HEAD request would take a job and lose it in a response without a body.
    exposeHeadRoutes: false,
    routerOptions: { maxParamLength: MAX_PARAM_LENGTH },
  });
  // Clients send a content type that does not match.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', (request, payload, done) => {
    const length = request.headers['content-length'];
    const { reservation } = request;
    const declared = length === undefined ? undefined : Number(length);
    // Calls that post no job need no body.
    if (reservation === null) done(new BodyRefused('too-large'));
    else
      receiveBody(payload, { declared, maxBytes, reservation, monitor: uploads }, (fault, body) => {
        if (fault === null) done(null, body);
        else done(new BodyRefused(fault));
      });
  });
  const calls = new CallShares();
  app.decorateRequest('reservation', null);
  app.setErrorHandler((error: Error & { statusCode?: number; code?: string }, request, reply) => {
    const status = error.statusCode ?? 500;
    if (error instanceof BodyRefused) {
      if (error.fault === 'too-large') onTooLarge(request as Call, maxBytes);
      if (status === 503) reply.header('retry-after', RETRY_S);
      // The rest is read and dropped, otherwise the worker could lose the response; a sender that is too slow loses its
      // connection.
      if (error.fault !== 'too-slow') {
        reply.removeHeader('connection');
        request.raw.resume();
      }
      return reply.code(status).send({ error: error.message });
    }
    if (status >= 500) log.error({ error: error.message, url: request.routeOptions.url }, 'the worker API failed');
    return reply.code(status).send({ error: status >= 500 ? INTERNAL_ERROR : error.message });
  });
  app.setNotFoundHandler((_request, reply) => reply.code(404).send({ error: 'no such route' }));
  // Unknown callers are refused before their body is read: it would use memory for nothing.
  app.decorateRequest('mailbox', null);
  app.addHook('onRequest', (request, reply, done) => {
    // Jobs contain inputs and storage credentials.
    reply.header('cache-control', 'no-store');
    if (request.is404) return done();
    const { params, headers } = request as Call;
    const token = (headers.authorization ?? '').replace(/^Bearer /, '');
    const caller = admitted({ endpointId: params.endpoint, workerId: params.worker, token });
    if (caller === undefined) return refuse(reply);
    request.mailbox = caller.mailbox;
    if (caller.share !== undefined) calls.charge(caller.share, request.raw.socket);
    if (request.method === 'POST') {
      const reservation = memory.open({ id: params.worker });
      const release = (): void => {
        request.raw.socket.off('close', release);
        reservation.release();
      };
      // A response queued behind another one on its connection is not notified of the connection's end.
      reply.raw.once('close', release);
      request.raw.socket.once('close', release);
      request.reservation = reservation;
    }
    done();
  });
  app.get('/v2/:endpoint/job-take/:worker', (call: Call, reply) => take(call, reply, 1));
  app.get('/v2/:endpoint/job-take-batch/:worker', (call: Call, reply) => take(call, reply, batchSize(call.query)));
  app.get('/v2/:endpoint/job-stop/:worker', async (call: Call, reply) => {
    const jobsToStop = await mailboxOf(call).stops(goneSignal(reply));
    return jobsToStop.length === 0 ? reply.code(204).send() : reply.send({ jobsToStop });
  });
  app.get('/v2/:endpoint/ping/:worker', (call: Call, reply) => {
    mailboxOf(call).ping({ jobIds: text(call.query['job_id'])?.split(','), unhealthy: unhealthyOf(call.query) });
    return reply.send({});
  });
  app.post('/v2/:endpoint/job-done/:worker/:job', (call: Call, reply) => {
    mailboxOf(call).post(call.params.job ?? '', readJobPost(bodyOf(call)));
    return reply.send({});
  });
  app.post('/v2/:endpoint/job-stream/:worker/:job', async (call: Call, reply) => {
    const mailbox = mailboxOf(call);
    const chunk = readChunk(bodyOf(call));
    if ('fault' in chunk) mailbox.refuse(call.params.job ?? '', chunk.fault);
    else await mailbox.chunk(call.params.job ?? '', chunk.data, goneSignal(reply));
    return reply.send({});
  });
  await app.ready();
  return app;
}

/** Refused by its size before it was read: the job must not wait for a result that can never arrive. */
function onTooLarge(call: Call, maxBytes: number): void {
  const { job } = call.params;
  if (job === undefined) return;
  const bytes = Number(call.headers['content-length'] ?? maxBytes);
  const isChunk = call.routeOptions.url?.includes('stream') === true;
  const fault = isChunk ? `a chunk has ${bytes} bytes; at most ${MAX_CHUNK_BYTES / 1024 / 1024} MiB is allowed` : tooLarge(bytes);
  call.mailbox?.refuse(job, fault);
}

/** A body that could not be received. */
class BodyRefused extends Error {
  readonly fault: BodyFault;
  readonly statusCode: number;

  constructor(fault: BodyFault) {
    const { status, message } = refusals[fault];
    super(message);
    this.name = 'BodyRefused';
    this.fault = fault;
    this.statusCode = status;
  }
}

const refusals: Readonly<Record<BodyFault, { readonly status: number; readonly message: string }>> = {
  'too-large': { status: 413, message: 'the body is too large' },
  'too-slow': { status: 408, message: 'the body arrived too slowly' },
  broken: { status: 400, message: 'the body ended before it was complete' },
  'party-full': { status: 503, message: 'request bodies of this worker already use its share of the agent’s memory' },
  'memory-full': { status: 503, message: 'request bodies already use all of the agent’s memory for them' },
};

/** Returns the mailbox of an admitted call. */
function mailboxOf({ mailbox }: Call): JobMailbox {
  if (mailbox === null) throw new Error('a call was admitted without a mailbox');
  return mailbox;
}

async function take(call: Call, reply: FastifyReply, count: number): Promise<FastifyReply> {
  const busy = text(call.query['job_in_progress']);
  const gone = goneSignal(reply);
  const handout = await mailboxOf(call).take({ count, busy: busy === undefined ? undefined : busy !== '0' }, gone);
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
  // The batch call returns an array, whatever the number.
  const body = call.routeOptions.url?.includes('batch') === true ? Buffer.concat([...joined(handout.jobs)]) : first;
  return reply.type('application/json').send(body);
}

function refuse(reply: FastifyReply): FastifyReply {
  return reply.code(401).send({ error: 'unauthorized' });
}

/** Aborted when the caller disconnects before its response. */
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
