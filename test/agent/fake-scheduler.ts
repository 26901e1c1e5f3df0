/** A scheduler for agents' tests: a real gRPC server that says what the test wants and keeps what it hears. */
import { createHash, randomUUID } from 'node:crypto';
import { threadId } from 'node:worker_threads';

import { Server, ServerCredentials, type ServerDuplexStream } from '@grpc/grpc-js';

import { messageLimits } from '../../lib/batches.ts';
import { CapstanError } from '../../lib/errors.ts';
import { toStatus } from '../../lib/grpc-errors.ts';
import { BlobServiceService, type BlobServiceServer, type PutBlobRequest } from '../../proto/gen/capstan/v1/blobs.ts';
import type { Payload } from '../../proto/gen/capstan/v1/common.ts';
import {
  NodeServiceService,
  type AgentEvent,
  type AgentMessage,
  type AttemptEnded,
  type AttemptRefused,
  type Dispatch,
  type Hello,
  type NodeServiceServer,
  type SchedulerEvent,
  type SchedulerMessage,
  WorkerSpec,
  type WorkerStatus,
  type ReleaseSpec,
} from '../../proto/gen/capstan/v1/nodes.ts';
import { Signals } from './signals.ts';
import { releaseOf } from './release.ts';

export type Heard = NonNullable<AgentEvent['event']>;
type Kind = Heard['$case'];
export type HeardOf<K extends Kind> = Extract<Heard, { $case: K }>;

export const JOIN_TOKEN = 'test-join-token';

/**
 * An address of loopback of this process's own, where all of 127/8 is that: while a fake is stopped,
 * no other run of the tests can take its port.
 */
const HOST =
  process.platform === 'linux' ? `127.${1 + ((process.pid >> 16) & 63)}.${(process.pid >> 8) & 255}.${process.pid & 255}` : '127.0.0.1';

export class FakeScheduler {
  /** Everything agents said, over all sessions, in order. */
  readonly heard = new Signals<Heard>();
  /** How many messages carried it. */
  messages = 0;
  messagesWithRefusals = 0;
  readonly blobs = new Map<string, Buffer>();
  readonly joins: string[] = [];
  /** Secrets by node id; a test that deletes one makes the node unknown. */
  readonly nodes = new Map<string, string>();
  limits = { heartbeatMs: 1_000, silenceMs: 10_000 };
  publicUrl = '';
  /** Answer the agent's heartbeats, as a scheduler that lives does: without them a session ends after `silenceMs` of quiet. */
  beats = true;
  /** Keep what agents stream: chunks, progress, and bodies that they put. Without it a flood fills this process, too. */
  keepsStreams = true;
  /** Acknowledge ends as they come. */
  acknowledge = true;
  /** Refuse sessions with this, when set. */
  refuseSession: CapstanError | undefined;
  /** Answer no Get of these ids until released. */
  blobFault: ((id: string) => CapstanError | undefined) | undefined;
  putFault: (() => CapstanError | undefined) | undefined;
  gets: string[] = [];
  address = '';
  #server: Server | undefined;
  #stream: ServerDuplexStream<AgentMessage, SchedulerMessage> | undefined;
  #epoch = 0;
  #requests = 1_000;

  static async start(): Promise<FakeScheduler> {
    const scheduler = new FakeScheduler();
    await scheduler.listen();
    return scheduler;
  }

  /** Serves; on the same port again after `stop`. */
  async listen(): Promise<void> {
    const again = this.address !== '';
    for (let tries = 1; ; tries += 1) {
      const server = new Server(messageLimits);
      server.addService(NodeServiceService, this.#nodeService());
      server.addService(BlobServiceService, this.#blobService());
      try {
        const port = await bind(server, again ? this.address : `${HOST}:${freePort()}`);
        this.#server = server;
        this.address = `${HOST}:${port}`;
        return;
      } catch (error) {
        server.forceShutdown();
        if (tries === 20) throw error;
        // The port of a server that was stopped is free a moment later.
        await new Promise((resolve) => setTimeout(resolve, 25));
      }
    }
  }

  /** As a killed process: every connection ends at once. */
  stop(): void {
    this.#server?.forceShutdown();
    this.#server = undefined;
    this.#stream = undefined;
  }

  send(...events: NonNullable<SchedulerEvent['event']>[]): void {
    this.#stream?.write({ events: events.map((event) => ({ event })) });
  }

  /** Sends the whole desired set with the next epoch. */
  desire(workers: readonly Partial<WorkerSpec>[], releases: readonly Partial<ReleaseSpec>[]): number {
    this.#epoch += 1;
    this.send({
      $case: 'desired',
      value: {
        epoch: this.#epoch,
        workers: workers.map((worker) => ({ ...WorkerSpec.fromPartial({ workerId: 'w1', releaseId: 'r1' }), ...worker })),
        releases: releases.map(releaseOf),
      },
    });
    return this.#epoch;
  }

  dispatch(values: Partial<Dispatch> & { jobId: string }, input: unknown = {}): void {
    this.send({ $case: 'dispatch', value: dispatchOf(values, input) });
  }

  /** The first event of a kind that fits. */
  async hear<K extends Kind>(kind: K, fits: (value: HeardOf<K>['value']) => boolean = () => true, from = 0): Promise<HeardOf<K>['value']> {
    const found = await this.heard.next((event) => event.$case === kind && fits(event.value as HeardOf<K>['value']), from);
    return found.value as HeardOf<K>['value'];
  }

  ended(jobId: string, from = 0): Promise<AttemptEnded> {
    return this.hear('ended', (value) => value.jobId === jobId, from);
  }

  refused(jobId: string, from = 0): Promise<AttemptRefused> {
    return this.hear('refused', (value) => value.jobId === jobId, from);
  }

  hello(fits: (value: Hello) => boolean = () => true, from = 0): Promise<Hello> {
    return this.hear('hello', fits, from);
  }

  /** Waits until a matching worker status is reported, either in an update or in the Hello of a reopened session. */
  async worker(workerId: string, fits: (status: WorkerStatus) => boolean, from = 0): Promise<WorkerStatus> {
    const find = (event: Heard): WorkerStatus | undefined => {
      const set = event.$case === 'workers' ? event.value : event.$case === 'hello' ? event.value.workers : undefined;
      return set?.workers.find((status) => status.workerId === workerId && fits(status));
    };
    const status = find(await this.heard.next((event) => find(event) !== undefined, from));
    if (status === undefined) throw new Error('unreachable');
    return status;
  }

  /** Resolves when the agent has heard everything sent so far: it answers in order. */
  async heardAll(): Promise<void> {
    const requestId = ++this.#requests;
    this.send({ $case: 'logs', value: { requestId, endpointId: '', workerId: '', limit: 1, afterMs: 0n } });
    await this.hear('logs', (value) => value.requestId === requestId);
  }

  /** The position to wait from. */
  get now(): number {
    return this.heard.items.length;
  }

  putBlob(bytes: Buffer, id: string = randomUUID()): { id: string; size: number } {
    this.blobs.set(id, bytes);
    return { id, size: bytes.length };
  }

  /** The JSON value of a payload, wherever it lies. */
  valueOf(payload: Payload | undefined): unknown {
    const { body } = payload ?? {};
    const bytes = body?.$case === 'blob' ? this.blobs.get(body.value.id) : body?.value;
    return bytes === undefined ? undefined : (JSON.parse(bytes.toString()) as unknown);
  }

  #nodeService(): NodeServiceServer {
    return {
      join: (call, callback) => {
        if (call.request.joinToken !== JOIN_TOKEN) {
          callback(toStatus(new CapstanError('UNAUTHENTICATED', 'unknown join token')));
          return;
        }
        const nodeId = `node-${this.joins.length + 1}`;
        const nodeSecret = randomUUID();
        this.joins.push(call.request.name);
        this.nodes.set(nodeId, nodeSecret);
        callback(null, { nodeId, nodeSecret });
      },
      session: (stream) => {
        const fault =
          this.refuseSession ?? this.#authFault(stream.metadata.get('capstan-node')[0], stream.metadata.get('authorization')[0]);
        if (fault !== undefined) {
          stream.emit('error', toStatus(fault));
          return;
        }
        this.#stream = stream;
        stream.on('data', (message: AgentMessage) => {
          this.messages += 1;
          if (message.events.some(({ event }) => event?.$case === 'refused')) this.messagesWithRefusals += 1;
          for (const { event } of message.events) this.#onEvent(event);
        });
        stream.on('end', () => stream.end());
        stream.on('error', () => undefined);
      },
    };
  }

  #onEvent(event: AgentEvent['event']): void {
    if (event === undefined) return;
    if (this.keepsStreams || (event.$case !== 'chunk' && event.$case !== 'progress')) this.heard.push(event);
    if (event.$case === 'hello') this.send({ $case: 'welcome', value: { ...this.limits, publicUrl: this.publicUrl } });
    if (event.$case === 'heartbeat' && this.beats) this.send({ $case: 'heartbeat', value: {} });
    if (event.$case === 'ended' && this.acknowledge)
      this.send({ $case: 'ack', value: { jobId: event.value.jobId, token: event.value.token } });
  }

  #authFault(node: string | Buffer | undefined, authorization: string | Buffer | undefined): CapstanError | undefined {
    const secret = this.nodes.get(String(node));
    return secret !== undefined && authorization === `Bearer ${secret}` ? undefined : new CapstanError('UNAUTHENTICATED', 'unknown node');
  }

  #blobService(): BlobServiceServer {
    return {
      stat: (call, callback) => {
        const bytes = this.blobs.get(call.request.id);
        callback(null, { exists: bytes !== undefined, size: bytes?.length ?? 0, received: 0 });
      },
      get: (stream) => {
        const { id } = stream.request;
        this.gets.push(id);
        const bytes = this.blobs.get(id);
        const fault =
          this.#authFault(stream.metadata.get('capstan-node')[0], stream.metadata.get('authorization')[0]) ??
          this.blobFault?.(id) ??
          (bytes === undefined ? new CapstanError('NOT_FOUND', `no blob ${id}`) : undefined);
        if (fault !== undefined || bytes === undefined) {
          stream.emit('error', toStatus(fault));
          return;
        }
        stream.write({ part: { $case: 'size', value: bytes.length } });
        for (let at = 0; at < bytes.length; at += 100_000)
          stream.write({ part: { $case: 'data', value: bytes.subarray(at, at + 100_000) } });
        stream.end();
      },
      put: (stream, callback) => {
        const fault = this.#authFault(stream.metadata.get('capstan-node')[0], stream.metadata.get('authorization')[0]) ?? this.putFault?.();
        if (fault !== undefined) {
          callback(toStatus(fault));
          return;
        }
        const parts: Buffer[] = [];
        stream.on('data', ({ part }: PutBlobRequest) => {
          if (part?.$case === 'data' && this.keepsStreams) parts.push(part.value);
        });
        stream.on('end', () => {
          const { id, size } = this.putBlob(Buffer.concat(parts));
          callback(null, { id, size, existed: false, received: size });
        });
      },
    };
  }
}

/**
 * Below the ports that outgoing connections get: whoever redials a port of theirs while nobody
 * listens may meet itself there, and then the port is taken for good. Each test file has some to itself.
 */
function freePort(): number {
  return 20_000 + (threadId % 120) * 100 + Math.floor(Math.random() * 100);
}

function bind(server: Server, address: string): Promise<number> {
  return new Promise((resolve, reject) => {
    server.bindAsync(address, ServerCredentials.createInsecure(), (error, port) => (error === null ? resolve(port) : reject(error)));
  });
}

export function dispatchOf(values: Partial<Dispatch> & { jobId: string }, input: unknown = {}): Dispatch {
  return {
    token: 1,
    workerId: 'w1',
    input: { body: { $case: 'inline', value: Buffer.from(JSON.stringify(input)) } },
    executionTimeoutMs: 60_000,
    s3Config: undefined,
    attempt: 1,
    webhook: '',
    ...values,
  };
}

export function digestOf(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}
