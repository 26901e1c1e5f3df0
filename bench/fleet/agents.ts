/** Simulated agents over real gRPC. Each has its own connection and session, and its workers are ready at once. */
import { credentials, Metadata, type ClientDuplexStream } from '@grpc/grpc-js';

import { WorkerState } from '../../proto/gen/capstan/v1/common.ts';
import {
  Device,
  Inventory,
  NodeServiceClient,
  WorkerStatus,
  type AgentMessage,
  type DesiredWorkers,
  type JoinResponse,
  type SchedulerMessage,
} from '../../proto/gen/capstan/v1/nodes.ts';

const GIBIBYTE = 1024n ** 3n;
export const DEVICES_PER_HOST = 8;
/** Interval at which agents send their gauges. */
const INVENTORY_MS = 30_000;

export class SimulatedFleet {
  readonly #agents: SimulatedAgent[] = [];
  #waiting: { readonly count: number; readonly done: () => void } | null = null;

  /** Joins `count` hosts, several at a time, and opens their sessions. */
  async join(address: string, joinToken: string, count: number): Promise<void> {
    const atOnce = 50;
    for (let from = 0; from < count; from += atOnce) {
      const names = Array.from({ length: Math.min(atOnce, count - from) }, (_, i) => `host-${String(from + i).padStart(4, '0')}`);
      this.#agents.push(...(await Promise.all(names.map((name) => SimulatedAgent.join(address, joinToken, name, () => this.#changed())))));
    }
    await Promise.all(this.#agents.map((agent) => agent.welcomed));
  }

  /** Workers that the agents were told to run. */
  get asked(): number {
    return this.#agents.reduce((sum, agent) => sum + agent.asked, 0);
  }

  /** Resolves when this many workers were requested. */
  reached(count: number): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting = { count, done: resolve };
      this.#changed();
    });
  }

  close(): void {
    for (const agent of this.#agents) agent.close();
  }

  #changed(): void {
    if (this.#waiting === null || this.asked < this.#waiting.count) return;
    this.#waiting.done();
    this.#waiting = null;
  }
}

class SimulatedAgent {
  readonly welcomed: Promise<void>;
  asked = 0;
  readonly #client: NodeServiceClient;
  readonly #stream: ClientDuplexStream<AgentMessage, SchedulerMessage>;
  readonly #changed: () => void;
  readonly #timers: NodeJS.Timeout[] = [];

  private constructor(client: NodeServiceClient, name: string, identity: JoinResponse, changed: () => void) {
    this.#client = client;
    this.#changed = changed;
    const metadata = new Metadata();
    metadata.set('authorization', `Bearer ${identity.nodeSecret}`);
    metadata.set('capstan-node', identity.nodeId);
    this.#stream = client.session(metadata);
    const welcomed = Promise.withResolvers<void>();
    this.welcomed = welcomed.promise;
    this.#stream.on('error', (error) => welcomed.reject(error));
    this.#stream.on('data', ({ events }: SchedulerMessage) => {
      for (const { event } of events) {
        if (event?.$case === 'welcome') {
          welcomed.resolve();
          // Spreads the heartbeats of agents that joined in a burst.
          this.#timers.push(setTimeout(() => this.#beat(event.value.heartbeatMs), Math.random() * event.value.heartbeatMs));
          this.#timers.push(setTimeout(() => this.#tell(name), Math.random() * INVENTORY_MS));
        } else if (event?.$case === 'desired') this.#run(event.value);
      }
    });
    const hello = { protocol: 1, incarnation: name, agentVersion: 'simulated', workers: { epoch: 0, workers: [] }, attempts: [] };
    this.#stream.write({ events: [{ event: { $case: 'hello', value: { ...hello, inventory: inventoryOf(name) } } }] });
  }

  static async join(address: string, joinToken: string, name: string, changed: () => void): Promise<SimulatedAgent> {
    // A separate connection, because agents run on separate hosts.
    const client = new NodeServiceClient(address, credentials.createInsecure(), { 'grpc.use_local_subchannel_pool': 1 });
    const identity = await new Promise<JoinResponse>((resolve, reject) => {
      client.join({ joinToken, name }, (error, reply) => (error === null ? resolve(reply) : reject(error)));
    });
    return new SimulatedAgent(client, name, identity, changed);
  }

  close(): void {
    for (const timer of this.#timers) clearInterval(timer);
    this.#stream.on('error', () => undefined);
    this.#stream.cancel();
    this.#client.close();
  }

  #beat(everyMs: number): void {
    const beat = (): void => void this.#stream.write({ events: [{ event: { $case: 'heartbeat', value: {} } }] });
    beat();
    this.#timers.push(setInterval(beat, everyMs));
  }

  #tell(name: string): void {
    const tell = (): void => void this.#stream.write({ events: [{ event: { $case: 'inventory', value: inventoryOf(name) } }] });
    tell();
    this.#timers.push(setInterval(tell, INVENTORY_MS));
  }

  #run({ epoch, workers, releases }: DesiredWorkers): void {
    const endpoints = new Map(releases.map(({ releaseId, endpointId }) => [releaseId, endpointId]));
    const running = workers.filter(({ drain }) => !drain);
    this.asked = running.length;
    const statuses = running.map(({ workerId, releaseId, deviceUuids }) =>
      WorkerStatus.fromPartial({ workerId, releaseId, endpointId: endpoints.get(releaseId) ?? '', deviceUuids, state: WorkerState.IDLE }),
    );
    this.#stream.write({ events: [{ event: { $case: 'workers', value: { epoch, workers: statuses } } }] });
    this.#changed();
  }
}

/** A host with 8 GPUs and room for CPU workers. */
export function inventoryOf(name: string): Inventory {
  return Inventory.fromPartial({
    hostname: name,
    os: 'linux',
    arch: 'x64',
    cpuCount: 64,
    cpuModel: 'simulated',
    memoryBytes: 512n * GIBIBYTE,
    memoryAvailableBytes: 500n * GIBIBYTE,
    diskBytes: 2_000n * GIBIBYTE,
    diskAvailableBytes: 1_000n * GIBIBYTE,
    runtimes: ['thread', 'process'],
    pythonVersion: '3.12.1',
    nodeVersion: '24.0.0',
    devices: Array.from({ length: DEVICES_PER_HOST }, (_, i) =>
      Device.fromPartial({
        uuid: `GPU-${name}-${i}`,
        model: 'NVIDIA A100-SXM4-80GB',
        memoryBytes: 80n * 1_000_000_000n,
        computeCapability: '8.0',
        driverVersion: '550.54.15',
        cudaVersion: '12.4',
        healthy: true,
      }),
    ),
  });
}
