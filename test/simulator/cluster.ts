/**
 * The schedulers of a simulated world: one with a store of its own, or several on one shared database, of which one owns
 * the queue. Clients find the owner and follow it.
 */
import type { CommandResult } from '../../scheduler/core/effects.ts';
import type { Command } from '../../scheduler/core/events.ts';
import type { State } from '../../scheduler/core/state.ts';
import type { SqliteEngine } from '../../scheduler/store/sqlite/engine.ts';
import type { Op, Outcome } from '../../scheduler/core/ports/store.ts';
import { SimDatabase } from './database.ts';
import { CALM, type NetworkFaults } from './database-store.ts';
import { NO_FAULTS, type StoreFaults } from './faulty-store.ts';
import { SimScheduler, type SimSchedulerOptions, type Wiring } from './scheduler.ts';
import type { World } from './world.ts';

const HOUR_MS = 3_600_000;

/** What happens to several schedulers and their database; counts are for the whole run. */
export interface ClusterFaults {
  readonly schedulers: number;
  readonly network: NetworkFaults;
  readonly pauses: number;
  /** Schedulers that are stopped in order and start again, now and then as a newer version. */
  readonly handovers: number;
  /** The database fails over to a replica that lacks the last seconds. */
  readonly isReplicaBehind: boolean;
}

export interface ClusterWiring {
  /** Where the effects of a scheduler go. */
  of(scheduler: SimScheduler): Wiring;
  /** Every operation and its outcome, as the shared database took them. */
  observe(op: Op, outcome: Outcome): void;
  /** A client does not hear from this one for long. */
  silent(scheduler: SimScheduler): void;
}

export class Cluster {
  readonly #world: World;
  readonly #faults: ClusterFaults;
  readonly #wiring: ClusterWiring;
  readonly #mutation: SimSchedulerOptions['mutation'];
  readonly #database: SimDatabase | null;
  readonly schedulers: readonly SimScheduler[];
  readonly #admin: Finder;
  #isUpgraded = false;
  alarms = 0;

  constructor(world: World, options: Omit<SimSchedulerOptions, 'share'>, faults: ClusterFaults, wiring: ClusterWiring) {
    this.#world = world;
    this.#faults = faults;
    this.#wiring = wiring;
    this.#mutation = options.mutation;
    const { mutation } = options;
    const { observe } = wiring;
    this.#database = faults.schedulers === 1 ? null : new SimDatabase({ world, mutation, observe, hasReplica: faults.isReplicaBehind });
    this.schedulers = Array.from({ length: faults.schedulers }, (_, i) => this.#scheduler(options, `scheduler ${i + 1}`));
    this.#admin = this.finder();
  }

  /** The scheduler that owns the queue; null while none does. */
  get owner(): SimScheduler | null {
    const term = this.#database?.mark.term;
    return this.schedulers.find((one) => one.image !== null && (term === undefined || one.term === BigInt(term))) ?? null;
  }

  get image(): State | null {
    return this.owner?.image ?? null;
  }

  get quiet(): boolean {
    return this.owner?.quiet === true;
  }

  get store(): SqliteEngine {
    return (this.schedulers[0] as SimScheduler).store;
  }

  get counts(): { besideAnother: number; dropped: number; terms: number; bySilence: number; refused: number; failovers: number } {
    const sum = (of: (one: SimScheduler) => number): number => this.schedulers.reduce((all, one) => all + of(one), 0);
    const { terms = 0, bySilence = 0, refused = 0, failovers = 0 } = this.#database?.counts ?? {};
    return {
      besideAnother: sum((one) => one.counts.besideAnother),
      dropped: sum((one) => one.counts.dropped),
      terms,
      bySilence,
      refused,
      failovers,
    };
  }

  /** Whether the database lost what was acknowledged: its schedulers stop, and somebody has to look. */
  get isStopped(): boolean {
    return this.#database?.isBehind === true;
  }

  finder(): Finder {
    return new Finder(this.#world, this.schedulers, this.#mutation === 'follow-lower-term');
  }

  start(): void {
    for (const one of this.schedulers) one.start();
  }

  /** A process that ended is started again; with the program that is installed by then. */
  restart(scheduler: SimScheduler): void {
    this.#world.after(this.#world.random.int(20, 1_000), () => {
      if (this.#isUpgraded) scheduler.version = 2;
      scheduler.start();
    });
  }

  command(command: Command, then: (result: CommandResult | Error) => void): void {
    const owner = this.#admin.search();
    if (owner === null) then(new Error('down'));
    else owner.command(command, then);
  }

  /** Begins what breaks in the next `ms`. */
  break(store: StoreFaults, ms: number): void {
    const { random } = this.#world;
    const { network, pauses, handovers, isReplicaBehind } = this.#faults;
    for (const one of this.schedulers) {
      one.faults = store;
      one.network = network;
    }
    for (let i = 0; i < pauses; i++) this.#world.after(random.next() * ms, () => this.#pause());
    for (let i = 0; i < handovers; i++) this.#world.after(random.next() * ms, () => this.#handOver());
    if (isReplicaBehind) this.#world.after(random.int(ms / 3, ms), () => this.#failOver());
  }

  heal(): void {
    for (const one of this.schedulers) {
      one.faults = NO_FAULTS;
      one.network = CALM;
    }
  }

  close(): void {
    if (this.#database === null) this.store.close();
    else this.#database.close();
  }

  #scheduler(options: Omit<SimSchedulerOptions, 'share'>, name: string): SimScheduler {
    const { random } = this.#world;
    const database = this.#database;
    const offsets = (): { wallOffset: number; monoOffset: number } => ({
      wallOffset: random.pick([-HOUR_MS, 0, HOUR_MS]),
      monoOffset: random.int(0, 100_000_000),
    });
    const share = database === null ? null : { name, database, ...offsets() };
    // The scheduler is there when its effects come.
    const wiring = lazy(() => this.#wiring.of(scheduler));
    const scheduler: SimScheduler = new SimScheduler(this.#world, wiring, { ...options, share });
    return scheduler;
  }

  /** The owner, most often, and for longer than its term is safe. */
  #pause(): void {
    const { random } = this.#world;
    const scheduler = random.chance(0.8) ? this.owner : random.pick(this.schedulers);
    if (scheduler === null || !scheduler.isRunning) return;
    // Often for about as long as a term is safe.
    scheduler.pause(random.chance(0.5) ? random.int(1_200, 3_500) : random.int(500, 9_000));
    // Clients hear nothing, and look for another.
    this.#world.after(random.int(300, 4_000), () => {
      if (scheduler.isPaused) this.#wiring.silent(scheduler);
    });
  }

  #handOver(): void {
    const scheduler = this.owner;
    if (scheduler === null) return;
    if (this.#world.random.chance(0.4)) this.#isUpgraded = true;
    scheduler.handOver();
  }

  /** Only while every scheduler knows the last second: who has just started cannot know what another one acknowledged. */
  #failOver(): void {
    const { now, random } = this.#world;
    const database = this.#database;
    if (database === null) return;
    const allKnow = this.owner !== null && this.schedulers.every((one) => one.isRunning && now - one.lastReadAt < 5_000);
    if (allKnow) database.failOver(now - random.int(6_000, 7_000));
    else this.#world.after(200, () => this.#failOver());
  }
}

/** Finds the owner for one client: asks one after the other, and goes back to none of a lower term than it has seen. */
export class Finder {
  readonly #world: World;
  readonly #schedulers: readonly SimScheduler[];
  readonly #followsAny: boolean;
  #at = 0;
  #highest = 0n;

  constructor(world: World, schedulers: readonly SimScheduler[], followsAny: boolean) {
    this.#world = world;
    this.#schedulers = schedulers;
    this.#followsAny = followsAny;
  }

  /** The owner, after a few attempts. */
  search(): SimScheduler | null {
    for (let attempt = 0; attempt < 4 * this.#schedulers.length; attempt++) {
      const owner = this.find();
      if (owner !== null || this.#schedulers.length === 1) return owner;
    }
    return null;
  }

  /** The owner, or null if this attempt did not find it. */
  find(): SimScheduler | null {
    const asked = this.#schedulers[this.#at] as SimScheduler;
    const term = asked.isServing ? asked.term : null;
    if (term !== null && (term >= this.#highest || this.#followsAny)) {
      if (term < this.#highest) fail(`a client that has seen term ${this.#highest} follows the owner of term ${term}`);
      this.#highest = term;
      return asked;
    }
    if (this.#schedulers.length > 1) this.#at = this.#world.random.int(0, this.#schedulers.length - 1);
    return null;
  }
}

/** An object that is made when it is first used. */
function lazy<T extends object>(make: () => T): T {
  let made: T | null = null;
  return new Proxy({} as T, { get: (_none, name) => Reflect.get((made ??= make()), name) as unknown });
}

function fail(what: string): never {
  throw new Error(`invariant broken: ${what}`);
}
