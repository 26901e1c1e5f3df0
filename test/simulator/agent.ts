/**
 * An agent process in the simulated world: the real core of the agent. Simulated are its session, its clock, the transfer
 * of documents and the worker hosts; it may crash, lose a device or its connection.
 */
import type { CoreEvent, Effect } from '../../agent/core/events.ts';
import { actualWorkers, attemptRefs } from '../../agent/core/report.ts';
import { newState, type AttemptKey } from '../../agent/core/state.ts';
import { nextDeadline, step } from '../../agent/core/step.ts';
import { RefusalReason, type AgentEvent, type Hello, Inventory, type SchedulerEvent } from '../../proto/gen/capstan/v1/nodes.ts';
import { assertNever } from '../../lib/errors.ts';
import type { SimBlobs } from './blobs.ts';
import { SimHost, type HostWorld, type Start } from './host.ts';
import type { Mutation } from './mutations.ts';
import type { World } from './world.ts';

/** What the scheduler's side of the session sees. */
export interface AgentWiring {
  /** Opens a session; answers its number, or null when the scheduler is not there. */
  connect(agent: SimAgent, hello: Hello): number | null;
  send(agent: SimAgent, session: number, events: AgentEvent[]): void;
  /** The handler of an attempt was entered. */
  entered(job: string, token: number, node: string): void;
  /** As in HostWorld. */
  blameless(job: string, token: number): void;
  /** A handler has ended, and had yielded this many chunks. */
  ended(job: string, token: number, chunks: number): void;
  readonly blobs: SimBlobs;
  readonly mutation: Mutation | null;
}

const BAD_STARTS: readonly Start[] = ['load-fails', 'start-fails', 'dies', 'hangs'];
/** Time between two beats of the session, ms. */
const HEARTBEAT_MS = 1_500;

export class SimAgent {
  readonly id: string;
  readonly #world: World;
  readonly #wiring: AgentWiring;
  readonly #hosts = new Map<string, SimHost>();
  readonly #hostWorld: HostWorld;
  #state = newState();
  session: number | null = null;
  alive = false;
  incarnation = '';
  overCapacity = 0;
  #life = 0;
  #timerAt = Number.POSITIVE_INFINITY;
  /** Chance that a worker dies under an attempt. */
  lossRate = 0;
  /** Chance that the start of a worker fails. */
  failRate = 0;
  /** Numbers of its devices that are lost. */
  readonly #lost = new Set<number>();

  constructor(world: World, id: string, wiring: AgentWiring) {
    this.#world = world;
    this.id = id;
    this.#wiring = wiring;
    this.#hostWorld = {
      random: world.random,
      now: () => world.now,
      later: (ms, run) => this.#later(ms, run),
      feed: (event) => this.#feed(event),
      entered: (job, token) => wiring.entered(job, token, id),
      ended: (job, token, chunks) => wiring.ended(job, token, chunks),
      blameless: (job, token) => wiring.blameless(job, token),
      gone: (host) => void this.#hosts.delete(host.workerId),
    };
  }

  start(): void {
    this.#life++;
    this.alive = true;
    this.incarnation = `${this.id}-${this.#life}`;
    this.#state = newState();
    this.#hosts.clear();
    this.#timerAt = Number.POSITIVE_INFINITY;
    this.#feedDevices();
    this.#reconnect(0);
  }

  /** The last host has no sandbox until it is started anew. */
  get #level(): string {
    return this.id === 'c' && this.#life % 2 === 1 ? 'none' : 'sandbox';
  }

  crash(): void {
    this.#life++;
    this.alive = false;
    this.#world.trace(`agent ${this.id} crashed`);
  }

  /** One of its devices is lost, or there again. */
  setDevice(seq: number, lost: boolean): void {
    this.#world.trace(`device ${seq} of ${this.id} is ${lost ? 'lost' : 'there'}`);
    if (lost) this.#lost.add(seq);
    else this.#lost.delete(seq);
    if (!this.alive) return;
    this.#send({ event: { $case: 'inventory', value: inventory(this.id, this.#lost, this.#level) } });
    this.#feedDevices();
  }

  disconnected(): void {
    if (this.session === null) return;
    this.session = null;
    if (!this.alive) return;
    this.#feed({ kind: 'disconnected' });
    // Now and then for longer than the grace period: then its work is given to others while it goes on.
    const { random } = this.#world;
    this.#reconnect(random.chance(0.2) ? random.int(2_500, 5_000) : random.int(5, 400));
  }

  /** Attempts that hold a slot or whose result nobody acknowledged. */
  get pending(): number {
    return this.#state.attempts.size;
  }

  /** Takes an event of its session. */
  receive({ event }: SchedulerEvent): void {
    switch (event?.$case) {
      case 'welcome':
        return this.#feed({ kind: 'welcome' });
      case 'desired':
        return this.#feed({ kind: 'desired', desired: event.value });
      case 'dispatch':
        return this.#feed({ kind: 'dispatch', dispatch: event.value });
      case 'stop':
        return this.#feed({ kind: 'stop', stop: event.value });
      case 'recall':
        return this.#feed({ kind: 'recall', recall: event.value });
      case 'ack':
        return this.#feed({ kind: 'ack', ack: event.value });
      case 'drained':
        return this.#feed({ kind: 'drained', drained: event.value });
      default:
    }
  }

  #feed(event: CoreEvent): void {
    for (const effect of step(this.#state, event, this.#world.now)) {
      if (!isForgotten(this.#wiring.mutation, event, effect)) this.#carryOut(effect);
    }
    if (this.#state.workersChanged) {
      this.#state.workersChanged = false;
      this.#send({ event: { $case: 'workers', value: actualWorkers(this.#state) } });
    }
    this.#armTimer();
  }

  #carryOut(effect: Effect): void {
    const { random } = this.#world;
    switch (effect.kind) {
      case 'report':
        if (effect.event.event?.$case === 'refused' && effect.event.event.value.reason === RefusalReason.OVER_CAPACITY) this.overCapacity++;
        return this.#send(effect.event);
      case 'fetch-artifact': {
        const { workerId, start } = effect;
        const isThere = !random.chance(this.failRate / 4);
        return this.#later(random.int(1, 60), () =>
          this.#feed(
            isThere
              ? { kind: 'artifact-ready', workerId, start, folder: '/build' }
              : { kind: 'artifact-failed', workerId, start, detail: 'simulated' },
          ),
        );
      }
      case 'start-host':
        return this.#startHost(effect);
      case 'end-host':
        return this.#hostOf(effect.workerId, effect.start)?.end(effect.force);
      case 'run':
        return this.#hosts.get(effect.dispatch.workerId)?.run(effect.key, effect.dispatch);
      case 'cancel':
        return this.#hosts.get(effect.workerId)?.cancel(effect.key);
      case 'recall':
        return this.#hosts.get(effect.workerId)?.recall(effect.key);
      case 'credit':
        return this.#hosts.get(effect.workerId)?.credit(effect.key, effect.count);
      case 'fetch-input':
        return this.#fetchInput(effect.key, effect.blob.id);
      case 'store-output': {
        const { key } = effect;
        const output = this.#stored(effect.bytes);
        return this.#later(random.int(1, 30), () => this.#feed({ kind: 'output-stored', key, output }));
      }
      case 'store-chunk': {
        const { key, index } = effect;
        const data = this.#stored(effect.bytes);
        return this.#later(random.int(1, 30), () => this.#feed({ kind: 'chunk-stored', key, index, data }));
      }
      case 'violation':
        throw new Error(`an honest host is ended: ${effect.detail}`);
      case 'forget':
        return;
      default:
        assertNever(effect);
    }
  }

  #startHost(effect: Extract<Effect, { kind: 'start-host' }>): void {
    const { random } = this.#world;
    const held = new Set([...this.#hosts.values()].flatMap(({ devices }) => devices));
    const twice = effect.deviceUuids.find((uuid) => held.has(uuid));
    if (twice !== undefined) fail(`the device ${twice} is given to two workers`);
    if (this.#hosts.has(effect.workerId)) fail(`the worker ${effect.workerId} has two hosts`);
    const host = new SimHost(this.#hostWorld, effect, () => this.lossRate);
    this.#hosts.set(effect.workerId, host);
    host.begin(random.chance(this.failRate) ? random.pick(BAD_STARTS) : 'loads');
  }

  #hostOf(workerId: string, start: number): SimHost | undefined {
    const host = this.#hosts.get(workerId);
    return host?.start === start ? host : undefined;
  }

  #fetchInput(key: AttemptKey, blob: string): void {
    const { random } = this.#world;
    const isThere = !random.chance(this.failRate / 4);
    const input = Buffer.from(this.#wiring.blobs.read(blob));
    this.#later(random.int(1, 30), () =>
      this.#feed(isThere ? { kind: 'input-ready', key, input } : { kind: 'input-failed', key, isMissing: false, detail: 'simulated' }),
    );
  }

  #stored(bytes: Buffer): Extract<CoreEvent, { kind: 'output-stored' }>['output'] {
    return { blob: this.#wiring.blobs.put(bytes.toString().trimEnd()) };
  }

  #feedDevices(): void {
    this.#feed({ kind: 'devices', problems: new Map([...this.#lost].map((seq) => [deviceOf(this.id, seq), 'lost'])) });
  }

  /** One timer for the earliest deadline of the core. */
  #armTimer(): void {
    const at = nextDeadline(this.#state);
    if (at === undefined || this.#timerAt <= at) return;
    this.#timerAt = at;
    // A little late, so that the deadline has come whatever the sum is rounded to.
    this.#later(Math.max(0, at - this.#world.now) + 0.001, () => {
      if (this.#timerAt !== at) return;
      this.#timerAt = Number.POSITIVE_INFINITY;
      this.#feed({ kind: 'tick' });
    });
  }

  #reconnect(delay: number): void {
    this.#later(delay, () => {
      this.session = this.#wiring.connect(this, this.#hello());
      if (this.session === null) this.#reconnect(this.#world.random.int(20, 300));
      else this.#beat(this.session);
    });
  }

  #beat(session: number): void {
    this.#later(HEARTBEAT_MS, () => {
      if (this.session !== session) return;
      this.#send({ event: { $case: 'heartbeat', value: {} } });
      this.#beat(session);
    });
  }

  #hello(): Hello {
    this.#state.workersChanged = false;
    return {
      protocol: 1,
      incarnation: this.incarnation,
      agentVersion: 'simulated',
      workers: actualWorkers(this.#state),
      attempts: attemptRefs(this.#state, this.#world.now),
      inventory: inventory(this.id, this.#lost, this.#level),
    };
  }

  #send(event: AgentEvent): void {
    if (this.session !== null) this.#wiring.send(this, this.session, [event]);
  }

  #later(delay: number, run: () => void): void {
    const life = this.#life;
    this.#world.after(delay, () => {
      if (life === this.#life && this.alive) run();
    });
  }
}

/** Faults of the agent that are put in on purpose: what a new session is to be told again is not. */
function isForgotten(mutation: Mutation | null, event: CoreEvent, effect: Effect): boolean {
  if (event.kind !== 'welcome' || effect.kind !== 'report') return false;
  if (mutation === 'forget-result') return effect.event.event?.$case === 'ended';
  return mutation === 'forget-chunks' && effect.event.event?.$case === 'chunk';
}

/** Numbers of a host's devices. */
export const DEVICES: readonly number[] = [1, 2];

function deviceOf(hostname: string, seq: number): string {
  return `${hostname}-gpu-${seq}`;
}

/** A host with two devices. */
function inventory(hostname: string, lost: ReadonlySet<number>, level: string): Inventory {
  const devices = DEVICES.map((seq) => ({
    uuid: deviceOf(hostname, seq),
    model: 'NVIDIA RTX A5000',
    memoryBytes: 24n * 1024n ** 3n,
    healthy: !lost.has(seq),
    problem: lost.has(seq) ? 'lost' : '',
  }));
  const host = { hostname, os: 'linux', arch: 'x64', cpuCount: 8, cpuModel: 'simulated' };
  return Inventory.fromPartial({ ...host, runtimes: ['thread'], devices, isolation: { processes: level } });
}

function fail(what: string): never {
  throw new Error(`invariant broken: ${what}`);
}
