/** A scheduler on a free port with a temporary data folder, and plain clients for its services. */
import { createHash } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { credentials, Metadata, type ClientDuplexStream, type ServiceError } from '@grpc/grpc-js';

import { BlobPurpose, BlobServiceClient } from '../../proto/gen/capstan/v1/blobs.ts';
import { EndpointKind, WorkerState } from '../../proto/gen/capstan/v1/common.ts';
import {
  ControlServiceClient,
  EndpointSpec,
  type AuditEntry,
  type DeployResponse,
  type ListAuditResponse,
} from '../../proto/gen/capstan/v1/control.ts';
import { JobServiceClient, type JobReplies, type JobReply, type JobRequest, type JobRequests } from '../../proto/gen/capstan/v1/jobs.ts';
import {
  CallStyle,
  NodeServiceClient,
  type AgentEvent,
  type AgentMessage,
  Inventory,
  type Hello,
  type SchedulerEvent,
  type SchedulerMessage,
  WorkerStatus,
} from '../../proto/gen/capstan/v1/nodes.ts';
import { DEFAULT_CELL, nameCell } from '../../lib/cells.ts';
import { fromServiceError } from '../../lib/grpc-errors.ts';
import { readConfig } from '../../scheduler/config.ts';
import { start, type SchedulerDeps, type SchedulerHandle } from '../../scheduler/assembly/start.ts';
import { GatewayServiceClient } from '../../proto/gen/capstan/v1/invoke.ts';
import { ownFolder } from './own-folder.ts';

/** A build of arbitrary bytes: these tests unpack nothing. */
const build = Buffer.from('not really an archive');
export const buildDigest = createHash('sha256').update(build).digest('hex');

export class TestScheduler {
  readonly dataDir: string;
  handle: SchedulerHandle;
  readonly #settings: Record<string, unknown>;
  readonly #deps: SchedulerDeps;
  readonly #closers: (() => void)[] = [];

  private constructor(dataDir: string, handle: SchedulerHandle, settings: Record<string, unknown>, deps: SchedulerDeps) {
    this.dataDir = dataDir;
    this.handle = handle;
    this.#settings = settings;
    this.#deps = deps;
  }

  /** On a new data folder, or on that of the settings, which ends with it as well. */
  static async open(settings: Record<string, unknown> = {}, deps: SchedulerDeps = {}): Promise<TestScheduler> {
    const given = settings['dataDir'];
    const dataDir = typeof given === 'string' ? given : await ownFolder('capstan-scheduler');
    // Its nodes report no isolation.
    const all = { dataDir, port: 0, logLevel: 'silent', accountIsolation: 'none', ...settings };
    return new TestScheduler(dataDir, await start(readConfig(all, {}), deps), all, deps);
  }

  /** Stops it and starts it again on the same data folder and port. `between`: what happens to the folder meanwhile. */
  async restart(between: () => Promise<void> = () => Promise.resolve()): Promise<void> {
    const port = this.handle.address.split(':').at(-1);
    await this.handle.close();
    await between();
    this.handle = await start(readConfig({ ...this.#settings, port }, {}), this.#deps);
  }

  async close(): Promise<void> {
    for (const close of this.#closers) close();
    await this.handle.close();
    await rm(this.dataDir, { recursive: true, force: true });
  }

  secret(name: 'api-key' | 'gateway-token' | 'join-token'): string {
    return readFileSync(join(this.dataDir, 'secrets', name), 'utf8').trim();
  }

  /** Credentials of a call to the scheduler's cell. */
  bearer(token: string, node?: string): Metadata {
    const metadata = new Metadata();
    metadata.set('authorization', `Bearer ${token}`);
    nameCell(metadata, this.cell);
    if (node !== undefined) metadata.set('capstan-node', node);
    return metadata;
  }

  get cell(): string {
    const { cell } = this.#settings;
    return typeof cell === 'string' ? cell : DEFAULT_CELL;
  }

  get jobs(): JobServiceClient {
    return this.#client(JobServiceClient);
  }

  get control(): ControlServiceClient {
    return this.#client(ControlServiceClient);
  }

  get nodes(): NodeServiceClient {
    return this.#client(NodeServiceClient);
  }

  get blobs(): BlobServiceClient {
    return this.#client(BlobServiceClient);
  }

  get gateways(): GatewayServiceClient {
    return this.#client(GatewayServiceClient);
  }

  /** Uploads the build and deploys endpoints; answers what the scheduler said. */
  async deploy(
    endpoints: readonly Partial<EndpointSpec>[],
    { token = this.secret('api-key'), environment = '', bytes = build }: { token?: string; environment?: string; bytes?: Buffer } = {},
  ): Promise<DeployResponse> {
    const digest = await this.putBuild(bytes, token);
    const request = { environment, buildDigest: digest, buildSize: bytes.length, endpoints: endpoints.map(endpointSpec), keep: [] };
    return unary((done) => this.control.deploy(request, this.bearer(token), done));
  }

  /** The audit log of a key's account, newest first. */
  async audited(token = this.secret('api-key')): Promise<readonly AuditEntry[]> {
    const request = { account: '', beforeId: '', limit: 1_000 };
    return (await unary<ListAuditResponse>((done) => this.control.listAudit(request, this.bearer(token), done))).entries;
  }

  /** Uploads a build; its digest. */
  async putBuild(bytes: Buffer, token = this.secret('api-key')): Promise<string> {
    const digest = createHash('sha256').update(bytes).digest('hex');
    await unary<unknown>((done) => {
      const call = this.blobs.put(this.bearer(token), done);
      call.write({ part: { $case: 'header', value: { purpose: BlobPurpose.BUILD, size: bytes.length, digest } } });
      call.write({ part: { $case: 'data', value: bytes } });
      call.end();
    });
    return digest;
  }

  /** Puts a body above the inline limit; its id. */
  async putBody(bytes: Buffer): Promise<string> {
    const { id } = await unary<{ id: string }>((done) => {
      const call = this.blobs.put(this.bearer(this.secret('gateway-token')), done);
      call.write({ part: { $case: 'header', value: { purpose: BlobPurpose.BODY, size: bytes.length, digest: '' } } });
      call.write({ part: { $case: 'data', value: bytes } });
      call.end();
    });
    return id;
  }

  channel(): TestChannel {
    return new TestChannel(this.jobs.channel(this.bearer(this.secret('gateway-token'))));
  }

  /** Joins as a node; sessions are opened with {@link TestNode.session}. */
  async join(name: string): Promise<TestNode> {
    const { nodeId, nodeSecret } = await unary<{ nodeId: string; nodeSecret: string }>((done) =>
      this.nodes.join({ joinToken: this.secret('join-token'), name }, done),
    );
    return new TestNode(this, nodeId, nodeSecret);
  }

  #client<T extends { close(): void }>(Client: new (address: string, security: ReturnType<typeof credentials.createInsecure>) => T): T {
    const client = new Client(this.handle.address, credentials.createInsecure());
    this.#closers.push(() => client.close());
    return client;
  }
}

/** A gateway's channel: requests in, replies out, matched by number. */
export class TestChannel {
  readonly #call: ClientDuplexStream<JobRequests, JobReplies>;
  readonly #waiting = new Map<number, (reply: JobReply) => void>();
  /** Resolves when the scheduler ended it, or it broke. */
  readonly ended: Promise<void>;
  #next = 1;

  constructor(call: ClientDuplexStream<JobRequests, JobReplies>) {
    this.#call = call;
    call.on('data', ({ replies }: JobReplies) => {
      for (const reply of replies) this.#waiting.get(reply.requestId)?.(reply);
    });
    this.ended = new Promise((resolve) => {
      call.on('error', () => resolve());
      call.on('end', () => resolve());
    });
  }

  /** `resent`: it was sent before, on a channel that broke. */
  ask(endpointId: string, operation: JobRequest['operation'], resent = false): Promise<JobReply> {
    const requestId = this.#next++;
    return new Promise((resolve) => {
      this.#waiting.set(requestId, resolve);
      this.#call.write({
        requests: [{ requestId, endpointId, limitedAs: '', resent, ...(operation === undefined ? {} : { operation }) }],
      });
    });
  }

  end(): void {
    this.#call.cancel();
  }
}

/** A node whose agent the test plays. */
export class TestNode {
  readonly id: string;
  readonly #scheduler: TestScheduler;
  readonly #secret: string;

  constructor(scheduler: TestScheduler, id: string, secret: string) {
    this.#scheduler = scheduler;
    this.id = id;
    this.#secret = secret;
  }

  /** What it shows the scheduler. */
  get credentials(): Metadata {
    return this.#scheduler.bearer(this.#secret, this.id);
  }

  session(hello: Partial<Hello> = {}): TestSession {
    return new TestSession(this.#scheduler.nodes.session(this.credentials), hello);
  }
}

type EventKind = NonNullable<SchedulerEvent['event']>['$case'];
type EventOf<K extends EventKind> = { readonly [Kind in EventKind]: Extract<NonNullable<SchedulerEvent['event']>, { $case: Kind }> }[K];

/** One session: waits for what the scheduler sends, in order. */
export class TestSession {
  readonly call: ClientDuplexStream<AgentMessage, SchedulerMessage>;
  readonly received: SchedulerEvent[] = [];
  readonly ended: Promise<unknown>;
  #wake: (() => void)[] = [];

  constructor(call: ClientDuplexStream<AgentMessage, SchedulerMessage>, hello: Partial<Hello>) {
    this.call = call;
    call.on('data', ({ events }: SchedulerMessage) => {
      this.received.push(...events);
      for (const wake of this.#wake.splice(0)) wake();
    });
    this.ended = new Promise((resolve) => {
      call.on('error', (error) => resolve(fromServiceError(error)));
      call.on('end', () => resolve(null));
    });
    const value: Hello = {
      protocol: 1,
      incarnation: 'first',
      agentVersion: 'test',
      workers: { epoch: 0, workers: [] },
      attempts: [],
      inventory: testInventory(),
      ...hello,
    };
    this.send({ $case: 'hello', value });
  }

  send(...events: NonNullable<AgentEvent['event']>[]): void {
    this.call.write({ events: events.map((event) => ({ event })) });
  }

  /** Takes the first event of a kind that was not taken yet, waiting for it. */
  async take<K extends EventKind>(kind: K): Promise<EventOf<K>['value']> {
    for (;;) {
      const index = this.received.findIndex(({ event }) => event?.$case === kind);
      const found = this.received[index]?.event;
      if (found !== undefined) {
        this.received.splice(index, 1);
        return found.value as EventOf<K>['value'];
      }
      await new Promise<void>((resolve) => this.#wake.push(resolve));
    }
  }

  /** Takes desired sets until one holds workers, and reports them as ready, as an agent would. */
  async bringUp(): Promise<WorkerStatus[]> {
    for (;;) {
      const { epoch, workers, releases } = await this.take('desired');
      const statuses = workers.map(({ workerId, releaseId }) => {
        const endpointId = releases.find((release) => release.releaseId === releaseId)?.endpointId ?? '';
        return WorkerStatus.fromPartial({ workerId, releaseId, endpointId, state: WorkerState.IDLE });
      });
      this.send({ $case: 'workers', value: { epoch, workers: statuses } });
      if (statuses.length > 0) return statuses;
    }
  }

  close(): void {
    this.call.cancel();
  }
}

export function endpointSpec(spec: Partial<EndpointSpec>): EndpointSpec {
  const name = spec.name ?? 'echo';
  return {
    ...EndpointSpec.fromPartial({
      name,
      kind: EndpointKind.QUEUE,
      workersMax: 1,
      idleTimeoutS: 60,
      functions: [{ name, module: name, parameters: [], callStyle: CallStyle.WHOLE }],
      maxConcurrency: 1,
    }),
    ...spec,
  };
}

export function testInventory(): NonNullable<Hello['inventory']> {
  return Inventory.fromPartial({ hostname: 'test', os: 'linux', arch: 'x64', cpuCount: 2, runtimes: ['thread'] });
}

/** A unary call as a promise; rejects with the project's error. */
export function unary<T>(call: (done: (error: ServiceError | null, reply: T) => void) => unknown): Promise<T> {
  return new Promise((resolve, reject) => {
    call((error, reply) => {
      if (error === null) resolve(reply);
      else reject(fromServiceError(error));
    });
  });
}
