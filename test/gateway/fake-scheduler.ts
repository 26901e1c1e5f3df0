/**
 * A scheduler that does what a test tells it, over real gRPC: JobService, ControlService (the
 * directory), GatewayService and BlobService. Left alone it runs every job at once and returns its input.
 */
import { createHash, randomUUID } from 'node:crypto';
import { EventEmitter, once } from 'node:events';

import {
  Server,
  ServerCredentials,
  type ServerDuplexStream,
  type ServerWritableStream,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js';

import { messageLimits } from '../../lib/batches.ts';
import { CapstanError } from '../../lib/errors.ts';
import { toFailure, toStatus } from '../../lib/grpc-errors.ts';
import { jobMessage } from '../../lib/job-message.ts';
import { BlobServiceService } from '../../proto/gen/capstan/v1/blobs.ts';
import { ClusterServiceService, type Cluster, type ClusterServiceServer } from '../../proto/gen/capstan/v1/cluster.ts';
import { EndpointKind, JobState, type Payload } from '../../proto/gen/capstan/v1/common.ts';
import {
  ControlServiceService,
  KeyScope,
  type DirectoryUpdate,
  type EndpointEntry,
  type KeyEntry,
  type PlacedWorker,
  type WatchDirectoryRequest,
} from '../../proto/gen/capstan/v1/control.ts';
import {
  GatewayServiceService,
  type GatewayNotice,
  type GatewayReport,
  type GatewayServiceServer,
} from '../../proto/gen/capstan/v1/invoke.ts';
import {
  EndpointHealth,
  JobServiceService,
  type Job,
  type JobReply,
  type JobReplies,
  type JobRequest,
  type JobRequests,
  type JobServiceServer,
  type JobRef,
  type ListJobsRequest,
  type ListJobsResponse,
  type StreamCursor,
  type StreamPart,
  type Submit,
} from '../../proto/gen/capstan/v1/jobs.ts';

import { Signals } from '../agent/signals.ts';
import { blobService, type BodyCall } from './fake-blobs.ts';
import { lookups } from './fake-lookups.ts';

export const TOKEN = 'gateway-token-of-tests';

/** One request as it came in, with the means to answer it. */
export interface Asked {
  readonly request: JobRequest;
  readonly endpointId: string;
  /** Number of the stream it came on, from 1. */
  readonly stream: number;
  reply(job: Job): void;
  stream_(part: StreamPart): void;
  fail(error: CapstanError): void;
}

export interface SubmitAsked extends Asked {
  readonly submit: Submit;
}

export interface ReadAsked extends Asked {
  readonly jobId: string;
  readonly waitMs: number;
  /** What the reader of a stream has. */
  readonly after?: StreamCursor | undefined;
  readonly exact?: boolean;
}

export function inline(text: string): Payload {
  return { body: { $case: 'inline', value: Buffer.from(text) } };
}

/** A job with everything absent that may be. */
export function job(id: string, state: JobState, more: Partial<Job> = {}): Job {
  return { ...jobMessage({ id, endpointId: 'ep', state }), ...more };
}

export class FakeScheduler {
  readonly keys = new Map<string, KeyEntry>();
  /** What each worker's token is good for. */
  readonly workerTokens = new Map<string, KeyEntry>();
  readonly endpoints = new Map<string, EndpointEntry>();
  readonly blobs = new Map<string, Buffer>();
  readonly jobs = new Map<string, Job>();
  readonly submits: Submit[] = [];
  readonly batches: number[] = [];
  readonly abandoned: number[] = [];
  readonly lookups: string[] = [];
  /** Look-ups of keys are answered after this. */
  lookupsMayEnd: Promise<void> = Promise.resolve();
  readonly calls: string[] = [];
  /** What gateways said of themselves, in order. */
  readonly reports = new Signals<GatewayReport>();
  /** Emits `submit`, `read`, `abandon`, `watch`, `stream`, `lookup`, `blob-get`, `blob-put`. */
  readonly events = new EventEmitter();
  /** Changes are told to watching gateways; else they must ask. */
  announce = true;
  /** False: as a scheduler that has no look-up by name. */
  knowsNames = true;

  onSubmit: (asked: SubmitAsked) => void = (asked) => {
    const done = job(asked.submit.jobId, JobState.COMPLETED, {
      ...(asked.submit.input === undefined ? {} : { output: asked.submit.input }),
      delayMs: 1,
      executionMs: 2,
      workerId: 'w1',
    });
    this.jobs.set(done.id, done);
    asked.reply(asked.submit.waitMs === 0 ? job(asked.submit.jobId, JobState.IN_QUEUE) : done);
  };
  onGet: (asked: ReadAsked) => void = (asked) => {
    const found = this.jobs.get(asked.jobId);
    if (found === undefined) asked.fail(new CapstanError('NOT_FOUND', `job ${asked.jobId} does not exist`));
    else asked.reply(found);
  };
  onStream: (asked: ReadAsked) => void = (asked) => {
    asked.stream_({ state: JobState.COMPLETED, chunks: [] });
  };
  onCancel: (ref: JobRef) => Job = (ref) => this.#known(ref, JobState.CANCELLED);
  onRetry: (ref: JobRef) => Job = (ref) => this.#known(ref, JobState.IN_QUEUE);
  onPurge: (endpointId: string) => number = () => 0;
  onList: (request: ListJobsRequest) => ListJobsResponse = () => ({ jobs: [...this.jobs.values()], total: this.jobs.size });
  /** True when the test itself sends the bytes of a body. */
  onBody: (call: BodyCall, bytes: Buffer) => boolean = () => false;
  /** Calls of ControlService that no test answers. */
  onControl: (method: string) => void = () => undefined;
  /** The list of cells; without it the scheduler has no such service, as an earlier version. */
  onCluster: (() => Promise<Cluster>) | null = null;
  onHealth: () => EndpointHealth = () => EndpointHealth.create();

  readonly #placements = new Map<string, Map<string, PlacedWorker>>();
  #server: Server | null = null;
  #port = 0;
  #streams = 0;
  readonly #watchers = new Set<ServerWritableStream<WatchDirectoryRequest, DirectoryUpdate>>();
  readonly #gateways = new Set<ServerDuplexStream<GatewayReport, GatewayNotice>>();
  readonly #open = new Set<ServerDuplexStream<JobRequests, JobReplies>>();

  get address(): string {
    return `127.0.0.1:${this.#port}`;
  }

  get openStreams(): number {
    return this.#open.size;
  }

  async start(): Promise<this> {
    const server = new Server(messageLimits);
    server.addService(JobServiceService, this.#jobService());
    server.addService(BlobServiceService, blobService(this));
    server.addService(GatewayServiceService, this.#gatewayService());
    server.addService(ControlServiceService, this.#controlService());
    const { onCluster } = this;
    if (onCluster !== null)
      server.addService(ClusterServiceService, {
        metrics: (_call, callback) => callback(null, { text: '' }),
        list: (_call, callback) => {
          onCluster().then(
            (cluster) => callback(null, cluster),
            (error: unknown) => callback(toStatus(error)),
          );
        },
      } satisfies ClusterServiceServer);
    this.#port = await new Promise<number>((resolve, reject) => {
      server.bindAsync(`127.0.0.1:${this.#port}`, ServerCredentials.createInsecure(), (error, port) => {
        if (error === null) resolve(port);
        else reject(error);
      });
    });
    this.#server = server;
    return this;
  }

  /** Goes away at once, as a killed process does. `start` brings it back on the same port. */
  stop(): void {
    this.#server?.forceShutdown();
    this.#server = null;
    this.#watchers.clear();
    this.#open.clear();
  }

  /** Ends the open job streams in order, as a scheduler that shuts down does. */
  endStreams(): void {
    for (const call of this.#open) call.end();
  }

  addKey(text: string, entry: { account?: string; scope?: KeyScope; endpoints?: string[]; environment?: string } = {}): void {
    const hash = createHash('sha256').update(text).digest();
    const key: KeyEntry = {
      hash,
      accountId: entry.account ?? 'acc',
      scope: entry.scope ?? KeyScope.ALL,
      endpointIds: entry.endpoints ?? [],
      environment: entry.environment ?? '',
      isOperator: false,
      isSession: false,
      keyId: '',
    };
    this.keys.set(hash.toString('hex'), key);
    this.#tell({ keys: [key] });
  }

  revokeKey(text: string): void {
    const hash = createHash('sha256').update(text).digest();
    this.keys.delete(hash.toString('hex'));
    this.#tell({ removedKeys: [hash] });
  }

  addEndpoint(id: string, account = 'acc', kind: EndpointKind = EndpointKind.QUEUE, more: Partial<EndpointEntry> = {}): void {
    const endpoint: EndpointEntry = {
      id,
      name: id,
      accountId: account,
      environment: 'default',
      kind,
      releaseId: 'r1',
      routes: [],
      isPublic: false,
      description: '',
      ...more,
    };
    this.endpoints.set(id, endpoint);
    this.#tell({ endpoints: [endpoint] });
  }

  /** Tells every gateway. */
  notify(notice: GatewayNotice): void {
    for (const call of this.#gateways) call.write(notice);
  }

  /** Places workers on a node, beside those it has. */
  place(nodeId: string, workers: readonly PlacedWorker[]): void {
    const placed = this.#placements.get(nodeId) ?? new Map<string, PlacedWorker>();
    this.#placements.set(nodeId, placed);
    for (const worker of workers) placed.set(worker.workerId, worker);
    this.#tell({ placements: [{ nodeId, workers: [...placed.values()] }] });
  }

  /** Takes all workers from a node. */
  unplace(nodeId: string): void {
    this.#placements.delete(nodeId);
    this.#tell({ placements: [{ nodeId, workers: [] }] });
  }

  /** Sends messages as they are on every open stream. */
  sendRaw({ replies, updates }: { readonly replies?: readonly JobReplies[]; readonly updates?: readonly DirectoryUpdate[] }): void {
    for (const call of this.#open) for (const message of replies ?? []) call.write(message);
    for (const call of this.#watchers) for (const message of updates ?? []) call.write(message);
  }

  removeEndpoint(id: string): void {
    this.endpoints.delete(id);
    this.#tell({ removedEndpoints: [id] });
  }

  putBlob(text: string | Buffer): Payload {
    const id = randomUUID();
    const bytes = Buffer.from(text);
    this.blobs.set(id, bytes);
    return { body: { $case: 'blob', value: { id, size: bytes.length } } };
  }

  /** The bytes of a submitted input, wherever they travelled. */
  inputOf(submit: Submit | undefined): string {
    const body = submit?.input?.body;
    if (body?.$case === 'inline') return body.value.toString('utf8');
    return (body?.$case === 'blob' ? this.blobs.get(body.value.id)?.toString('utf8') : undefined) ?? '';
  }

  async next(event: string): Promise<unknown[]> {
    return once(this.events, event);
  }

  #known(ref: JobRef, state: JobState): Job {
    const found = this.jobs.get(ref.jobId);
    if (found === undefined) throw new CapstanError('NOT_FOUND', `job ${ref.jobId} does not exist`);
    return { ...found, state };
  }

  #tell(update: Partial<DirectoryUpdate>): void {
    if (!this.announce) return;
    for (const call of this.#watchers)
      call.write({ reset: false, keys: [], endpoints: [], removedKeys: [], removedEndpoints: [], placements: [], ...update });
  }

  #jobService(): JobServiceServer {
    return {
      channel: (call) => {
        this.#streams += 1;
        const stream = this.#streams;
        if (call.metadata.get('authorization')[0] !== `Bearer ${TOKEN}`) {
          call.emit('error', toStatus(new CapstanError('UNAUTHENTICATED', 'not the gateway token')));
          return;
        }
        this.#open.add(call);
        this.events.emit('stream', stream);
        let replies: JobReply[] = [];
        const reply = (requestId: number, result: NonNullable<JobReply['result']>): void => {
          replies.push({ requestId, result });
          if (replies.length > 1) return;
          setImmediate(() => {
            call.write({ replies });
            replies = [];
          });
        };
        call.on('data', (message: JobRequests) => {
          this.batches.push(message.requests.length);
          for (const request of message.requests) {
            const asked: Asked = {
              request,
              endpointId: request.endpointId,
              stream,
              reply: (value) => reply(request.requestId, { $case: 'job', value }),
              stream_: (value) => reply(request.requestId, { $case: 'stream', value }),
              fail: (error) => reply(request.requestId, { $case: 'failure', value: toFailure(error) }),
            };
            this.#ask(asked);
          }
        });
        call.on('end', () => {
          this.#open.delete(call);
          call.end();
        });
        call.on('error', () => this.#open.delete(call));
        call.on('close', () => this.#open.delete(call));
      },
      cancel: (call, callback) => this.#unary('cancel', () => this.onCancel(call.request), callback),
      retry: (call, callback) => this.#unary('retry', () => this.onRetry(call.request), callback),
      purgeQueue: (call, callback) => this.#unary('purgeQueue', () => ({ removed: this.onPurge(call.request.endpointId) }), callback),
      listJobs: (call, callback) => this.#unary('listJobs', () => this.onList(call.request), callback),
      getHealth: (_call, callback) => this.#unary('getHealth', () => this.onHealth(), callback),
    };
  }

  #ask(asked: Asked): void {
    const operation = asked.request.operation;
    switch (operation?.$case) {
      case 'submit':
        this.submits.push(operation.value);
        this.onSubmit({ ...asked, submit: operation.value });
        this.events.emit('submit', operation.value);
        break;
      case 'get':
        this.onGet({ ...asked, ...operation.value });
        this.events.emit('read', operation.value);
        break;
      case 'stream':
        this.onStream({ ...asked, ...operation.value });
        this.events.emit('read', operation.value);
        break;
      case 'abandon':
        this.abandoned.push(operation.value);
        this.events.emit('abandon', operation.value);
        break;
      case undefined:
        throw new Error('a request without an operation');
    }
  }

  #unary<T>(name: string, answer: () => T, callback: (error: ReturnType<typeof toStatus> | null, value?: T) => void): void {
    this.calls.push(name);
    try {
      callback(null, answer());
    } catch (error) {
      callback(toStatus(error));
    }
  }

  #gatewayService(): GatewayServiceServer {
    return {
      session: (call) => {
        this.#gateways.add(call);
        call.on('data', (report: GatewayReport) => this.reports.push(report));
        call.on('end', () => call.end());
        call.on('error', () => undefined);
        call.on('close', () => this.#gateways.delete(call));
      },
    } satisfies GatewayServiceServer;
  }

  #controlService(): UntypedServiceImplementation {
    const unimplemented = (name: string) => (_call: unknown, callback: (error: unknown) => void) => {
      this.calls.push(name);
      this.onControl(name);
      callback({ code: 12, details: 'not part of this test' });
    };
    const names = Object.keys(ControlServiceService);
    const service: Record<string, unknown> = Object.fromEntries(names.map((name) => [name, unimplemented(name)]));
    service['watchDirectory'] = (call: ServerWritableStream<WatchDirectoryRequest, DirectoryUpdate>) => {
      if (call.metadata.get('authorization')[0] !== `Bearer ${TOKEN}`) {
        call.emit('error', toStatus(new CapstanError('UNAUTHENTICATED', 'not the gateway token')));
        return;
      }
      call.write({
        reset: true,
        keys: [...this.keys.values()],
        endpoints: [...this.endpoints.values()],
        removedKeys: [],
        removedEndpoints: [],
        placements: [...this.#placements].map(([nodeId, workers]) => ({ nodeId, workers: [...workers.values()] })),
      });
      this.#watchers.add(call);
      call.on('cancelled', () => this.#watchers.delete(call));
      this.events.emit('watch');
    };
    Object.assign(service, lookups(this));
    return service as UntypedServiceImplementation;
  }
}
