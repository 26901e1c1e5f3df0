/** The agent's core and engine as a node of a scheduler in the same process, without a session over the network. */
import { hostname } from 'node:os';
import { randomUUID } from 'node:crypto';

import { CapstanError } from '../lib/errors.ts';
import type { BlobReference } from '../lib/payload.ts';
import { TRACING_OFF } from '../lib/telemetry/tracing.ts';
import { Inventory, type AgentEvent, type Hello, type SchedulerEvent } from '../proto/gen/capstan/v1/nodes.ts';
import { Engine, type AgentEngineLog } from './engine/engine.ts';
import type { Runtime } from './runtimes/runtime.ts';

export { AttachedRuntime } from './attached-runtime.ts';

/** Bodies that are too large for messages. */
export interface LocalBodies {
  get(reference: BlobReference): Promise<Buffer>;
  put(bytes: Buffer): Promise<BlobReference>;
}

export interface LocalAgentOptions {
  readonly runtime: Runtime;
  readonly bodies: LocalBodies;
  /** Receives what the agent reports. */
  readonly send: (events: readonly AgentEvent[]) => void;
  /** Whether the execution time of an endpoint's jobs does not count now. */
  readonly isHeld: (endpointId: string) => boolean;
  readonly log: AgentEngineLog;
}

/** More than a scheduler's limit on silence asks for. */
const HEARTBEAT_MS = 600_000;
/** No worker has GPUs to look at. */
const MAX_TIMER_MS = 2 ** 31 - 1;

export class LocalAgent {
  readonly #engine: Engine;
  readonly #runtime: string;
  readonly #heartbeat: NodeJS.Timeout;
  #closed = false;

  constructor({ runtime, bodies, send, isHeld, log }: LocalAgentOptions) {
    this.#runtime = runtime.name;
    const report = (event: AgentEvent): void => {
      // The scheduler must not be stepped within a step of the agent.
      queueMicrotask(() => {
        if (!this.#closed) send([event]);
      });
    };
    this.#engine = new Engine({
      runtimes: new Map([[runtime.name, runtime]]),
      cache: {
        acquire: () => Promise.reject(new CapstanError('INTERNAL', 'a release without a build has no artifact')),
        doubt: () => undefined,
      },
      blobs: bodies,
      workFolders: { make: () => '', remove: () => undefined },
      log,
      isolation: () => undefined,
      publicUrl: '',
      schedulerHost: () => 'localhost',
      defaultNetworks: { usual: 'host', closed: 'host' },
      onGatewayUrl: () => undefined,
      send: report,
      // Workers print where they run.
      onLogLine: () => undefined,
      tracing: TRACING_OFF,
      onServing: () => undefined,
      onDeviceDoubt: () => undefined,
      gpuViewMs: MAX_TIMER_MS,
      isHeld,
    });
    this.#heartbeat = setInterval(() => report({ event: { $case: 'heartbeat', value: {} } }), HEARTBEAT_MS).unref();
  }

  /** The node's Hello; afterwards `receive` accepts messages. */
  hello(): Hello {
    // Of what it does not report, nothing is reserved.
    const inventory = Inventory.fromPartial({ hostname: hostname(), runtimes: [this.#runtime] });
    return { protocol: 1, incarnation: randomUUID(), agentVersion: '', ...this.#engine.hello(), inventory };
  }

  receive(event: SchedulerEvent): void {
    if (!this.#closed) this.#engine.onScheduler([event]);
  }

  /** Reports nothing any more. */
  close(): void {
    this.#closed = true;
    clearInterval(this.#heartbeat);
    this.#engine.stop();
  }
}
