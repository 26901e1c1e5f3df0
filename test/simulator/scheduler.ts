/**
 * A scheduler process in the simulated world: the real engine, with its commit loop and core, on the real SQLite engine,
 * which is its own or that of a database shared with others. Simulated are its clock, the order of its callbacks, the
 * faults of its store, and pauses of the process.
 */
import { CapstanError } from '../../lib/errors.ts';
import type { JobReply } from '../../proto/gen/capstan/v1/jobs.ts';
import type { SchedulerEvent } from '../../proto/gen/capstan/v1/nodes.ts';
import type { CommandResult } from '../../scheduler/core/effects.ts';
import type { Payload } from '../../lib/payload.ts';
import type { Command, CoreEvent } from '../../scheduler/core/events.ts';
import type { State } from '../../scheduler/core/state.ts';
import { defaultSettings, type Settings } from '../../scheduler/core/settings.ts';
import { step } from '../../scheduler/core/step/step.ts';
import type { Clock } from '../../scheduler/engine/clock.ts';
import type { Step } from '../../scheduler/engine/commit-loop.ts';
import { Engine } from '../../scheduler/engine/engine.ts';
import type { DesiredEffect, DispatchEffect, Ports } from '../../scheduler/engine/ports.ts';
import type { DeliveryRow, Op, Outcome } from '../../scheduler/core/ports/store.ts';
import { SqliteEngine } from '../../scheduler/store/sqlite/engine.ts';
import type { SimDatabase } from './database.ts';
import { CALM, DatabaseStore, type NetworkFaults } from './database-store.ts';
import { FaultyStore, NO_FAULTS, type StoreFaults } from './faulty-store.ts';
import { isForgotten, mutatedStep, type Mutation } from './mutations.ts';
import type { World } from './world.ts';

/** Where a scheduler's effects go. */
export interface Wiring {
  reply(channel: number, reply: JobReply): void;
  send(node: string, session: number, event: SchedulerEvent): void;
  sendDesired(effect: DesiredEffect, state: State): void;
  sendJob(effect: DispatchEffect, input: Payload): void;
  closeSession(node: string, session: number): void;
  /** Posts a webhook; `tell` when that is over. */
  post(delivery: DeliveryRow, tell: (event: CoreEvent) => void): void;
  /** Every operation and its outcome, as the store took them. */
  observe(op: Op, outcome: Outcome): void;
  /** After each step. */
  check(state: State): void;
  /** Every stream ends: the state is lost. The process is gone with it, or takes over again by itself. */
  down(hasCrashed: boolean): void;
  /** It found that the database lacks what was acknowledged, and stopped. */
  alarm(): void;
}

/** A database that is shared with other schedulers, and what this one is to it. */
export interface Share {
  readonly name: string;
  readonly database: SimDatabase;
  /** How far its clocks are off, ms: that of its host, and its monotonic one, which begins anywhere. */
  readonly wallOffset: number;
  readonly monoOffset: number;
}

export interface SimSchedulerOptions {
  readonly settings: Partial<Settings>;
  readonly mutation: Mutation | null;
  /** See {@link Engine}. */
  readonly payloadBytes: number;
  readonly secondBatchWrites: number;
  readonly share: Share | null;
}

/** How long a scheduler whose database does not answer at its start waits before it asks again, ms. */
const START_AGAIN_MS = 500;
/** Bound of the fence, as the driver has it, ms. */
const FENCE_MS = 3_000;
export class SimScheduler {
  readonly #ownStore: SqliteEngine | null;
  readonly #world: World;
  readonly #wiring: Wiring;
  readonly #options: SimSchedulerOptions;
  readonly #calls = new Set<(result: Error) => void>();
  #engine: Engine | null = null;
  #life = 0;
  #shared: DatabaseStore | null = null;
  /** What happens to a paused process waits here; null while it runs. */
  #backlog: (() => void)[] | null = null;
  faults: StoreFaults = NO_FAULTS;
  network: NetworkFaults = CALM;
  /** Version of the program, by the schema that it knows. */
  version = 1;
  /** Batches that left while another was in flight, and states that were dropped although the process went on. */
  readonly counts = { besideAnother: 0, dropped: 0 };

  constructor(world: World, wiring: Wiring, options: SimSchedulerOptions) {
    this.#world = world;
    this.#wiring = wiring;
    this.#options = options;
    this.#ownStore = options.share === null ? new SqliteEngine({ file: ':memory:', now: () => world.clock().wall }) : null;
  }

  get store(): SqliteEngine {
    // One of the two is there, see the constructor.
    return (this.#ownStore ?? this.#options.share?.database.queue) as SqliteEngine;
  }

  get name(): string {
    return this.#options.share?.name ?? 'scheduler';
  }

  /** The term under which it owns the queue, or believes to; null while it does not. */
  get term(): bigint | null {
    return this.#engine?.term ?? null;
  }

  /** Whether a client that connects now is served. */
  get isServing(): boolean {
    if (this.#backlog !== null || this.#engine === null) return false;
    try {
      this.#engine.requireOwner();
      return true;
    } catch {
      return false;
    }
  }

  get isRunning(): boolean {
    return this.#engine !== null && this.#backlog === null;
  }

  get isPaused(): boolean {
    return this.#backlog !== null;
  }

  /** When it last asked who owns the queue. */
  get lastReadAt(): number {
    return this.#shared?.lastReadAt ?? Number.NEGATIVE_INFINITY;
  }

  /** Null while the process is down or takes over. */
  get image(): State | null {
    return this.#engine?.image ?? null;
  }

  /** Nothing is gathered or being committed. */
  get quiet(): boolean {
    return this.#engine?.quiet === true;
  }

  /** Starts the process. */
  start(): void {
    this.#life++;
    const { mutation, settings, payloadBytes, secondBatchWrites } = this.#options;
    const quota = mutation === 'no-quota' ? { workerQuota: 1_000 } : {};
    const store = this.#openStore();
    const engine = new Engine(
      {
        store,
        settings: { ...defaultSettings, ...settings, ...quota },
        clock: this.#clock(),
        random: [this.#world.random.int(1, 2 ** 31), 2, 3, this.#life],
        owner: `${this.name}, life ${this.#life}`,
        log: { info: () => undefined, warn: () => undefined, error: () => undefined },
        payloadBytes,
        secondBatchWrites,
        standsBy: this.#shared !== null,
        onFatal: (error) => this.#fatal(error),
        step: this.#checkedStep(),
        onBroken: (error) => {
          throw error;
        },
      },
      this.#ports(),
    );
    this.#engine = engine;
    this.#takeOver(engine);
  }

  /** Takes the queue over, or stands by until it may. */
  #takeOver(engine: Engine): void {
    engine.beginTakeOver({
      done: () => this.#world.trace(`${this.name} started`),
      failed: (error) => {
        const code = this.#shared !== null && error instanceof CapstanError ? error.code : null;
        if (code === 'CONFLICT') engine.standBy(error);
        else if (code === 'UNAVAILABLE') this.#later(START_AGAIN_MS, () => this.#takeOver(engine));
        else this.#fatal(error);
      },
    });
  }

  /** The process cannot go on. Its service manager starts it again, unless somebody has to look first. */
  #fatal(error: unknown): void {
    if (this.#shared === null || !(error instanceof CapstanError)) throw error;
    this.#world.trace(`${this.name} ends: ${error.message}`);
    if (error.code === 'DATA_LOST') {
      this.#wiring.alarm();
      this.#stop(false);
    } else this.crash();
  }

  /** Ends in order: commits what it has, gives the queue up, and lets its streams end meanwhile. */
  handOver(): void {
    const engine = this.#engine;
    const store = this.#shared;
    if (engine === null || store === null || this.#backlog !== null) return;
    this.#world.trace(`${this.name} stops`);
    engine.beginClose(() => store.release(() => this.#later(this.#world.random.int(0, 300), () => this.crash())));
  }

  /** The process is stopped for a while; what comes meanwhile waits in its sockets. */
  pause(ms: number): void {
    if (this.#engine === null || this.#backlog !== null) return;
    this.#world.trace(`${this.name} is paused for ${ms} ms`);
    this.#backlog = [];
    const life = this.#life;
    this.#world.after(ms, () => {
      if (life === this.#life) this.#wake();
    });
  }

  #wake(): void {
    this.#world.trace(`${this.name} goes on`);
    const backlog = this.#backlog ?? [];
    this.#backlog = null;
    const life = this.#life;
    for (const run of backlog) if (life === this.#life) run();
  }

  /** Now, or when the paused process goes on. */
  #inProcess(run: () => void): void {
    if (this.#backlog === null) run();
    else this.#backlog.push(run);
  }

  #openStore(): FaultyStore | DatabaseStore {
    const { mutation, share } = this.#options;
    const life = this.#life;
    // What a process has sent may arrive after its end; what comes back concerns nobody then.
    const process = {
      world: this.#world,
      later: (ms: number, run: () => void) => {
        if (life === this.#life) this.#later(ms, run);
      },
      crash: () => {
        if (life === this.#life) this.crash();
      },
      besideAnother: () => void this.counts.besideAnother++,
    };
    if (share === null)
      return new FaultyStore({
        ...process,
        sqlite: this.store,
        faults: () => this.faults,
        observe: (op, outcome) => this.#wiring.observe(op, outcome),
        isForgotten: (op) => isForgotten(mutation, op),
        hidesRefusals: mutation === 'hide-refusals',
      });
    this.#shared = new DatabaseStore({
      ...process,
      database: share.database,
      version: this.version,
      mutation,
      mono: () => this.#world.now + share.monoOffset,
      faults: () => this.network,
      hint: (term) => this.#engine?.recheck(term),
    });
    return this.#shared;
  }

  crash(): void {
    this.#stop(true);
  }

  #stop(isRestarted: boolean): void {
    if (this.#engine === null) return;
    this.#life++;
    this.#engine = null;
    this.#backlog = null;
    this.#shared?.processEnded();
    for (const done of this.#calls) done(new Error('crashed'));
    this.#calls.clear();
    this.#world.trace(`${this.name} crashed`);
    this.#wiring.down(isRestarted);
  }

  handle(event: CoreEvent): void {
    this.#inProcess(() => this.#engine?.handle(event));
  }

  command(command: Command, then: (result: CommandResult | Error) => void): void {
    if (this.#engine === null) {
      then(new Error('down'));
      return;
    }
    this.#calls.add(then);
    this.#inProcess(() =>
      this.#engine?.call(command, (result) => {
        if (!this.#calls.delete(then)) return;
        if (!(result instanceof Error)) this.#mustBeOwner('an answer');
        then(result);
      }),
    );
  }

  /**
   * No effect leaves an owner whose last confirmed batch was sent too long ago, and none after another scheduler took
   * its silence for its end.
   */
  #mustBeOwner(effect: string): void {
    const { share } = this.#options;
    if (share === null || this.#shared === null) return;
    const term = Number(this.term ?? 0n);
    const age = this.#world.now - this.#shared.confirmedSentAt;
    if (age >= FENCE_MS) fail(`${effect} left ${this.name} ${age.toFixed(0)} ms after the last confirmed batch was sent`);
    if (share.database.isSilenced(term)) fail(`${effect} left the owner of term ${term}, which was taken over because it was silent`);
  }

  /** Calls later, unless the process has ended by then. */
  #later(ms: number, run: () => void): void {
    const life = this.#life;
    this.#world.after(ms, () => {
      if (life === this.#life) this.#inProcess(run);
    });
  }

  #now(): { wall: number; mono: number } {
    const { share, mutation } = this.#options;
    const { wall, mono } = this.#world.clock();
    if (share === null) return { wall, mono };
    // All owners go by the database's clock; a host's own may be wrong.
    return { wall: mutation === 'own-clock' ? wall + share.wallOffset : wall, mono: mono + share.monoOffset };
  }

  #clock(): Clock {
    return {
      now: () => this.#now(),
      after: (ms, run) => {
        let isCancelled = false;
        this.#later(ms, () => {
          if (!isCancelled) run();
        });
        return () => {
          isCancelled = true;
        };
      },
      defer: (run) => this.#later(0, run),
    };
  }

  #checkedStep(): Step {
    const { mutation } = this.#options;
    const reply = this.#wiring.reply.bind(this.#wiring);
    const send = ({ channel, reply: message }: Parameters<Parameters<typeof mutatedStep>[1]>[0]): void => reply(channel, message);
    const apply = mutation === null ? step : mutatedStep(mutation, send);
    return (state, event, now, result) => {
      apply(state, event, now, result);
      this.#wiring.check(state);
    };
  }

  #ports(): Ports {
    const wiring = this.#wiring;
    return {
      reply: (channel, reply) => {
        this.#mustBeOwner('a reply');
        wiring.reply(channel, reply);
      },
      send: (node, session, event) => {
        this.#mustBeOwner('a message to an agent');
        wiring.send(node, session, event);
      },
      sendDesired: (effect, state) => {
        this.#mustBeOwner('a desired set');
        wiring.sendDesired(effect, state);
      },
      sendJob: (effect, input) => {
        this.#mustBeOwner('a job');
        wiring.sendJob(effect, input);
      },
      closeSession: (node, session) => wiring.closeSession(node, session),
      deliver: (id) => this.#later(this.#world.random.next() * 2, () => this.#deliver(id)),
      closeAll: () => {
        this.counts.dropped++;
        this.#world.trace(`${this.name} dropped its state`);
        wiring.down(false);
      },
      waitEnded: () => undefined,
      workerStarted: () => undefined,
      directory: () => undefined,
      dropBodies: () => undefined,
    };
  }

  #deliver(id: string): void {
    const delivery = this.store.read('delivery', id);
    const life = this.#life;
    if (delivery === null) this.handle({ kind: 'delivery-tried', id, result: 'gone' });
    else
      this.#wiring.post(delivery, (event) => {
        if (life === this.#life) this.handle(event);
      });
  }
}

function fail(what: string): never {
  throw new Error(`invariant broken: ${what}`);
}
