/**
 * A scheduler process in the simulated world: the real engine, with its commit loop and core, on the real SQLite engine.
 * Simulated are its clock, the order of its callbacks, and the faults of its store.
 */
import type { JobReply } from '../../proto/gen/capstan/v1/jobs.ts';
import type { SchedulerEvent } from '../../proto/gen/capstan/v1/nodes.ts';
import type { Answer } from '../../scheduler/core/effects.ts';
import type { Payload } from '../../lib/payload.ts';
import type { Command, CoreEvent } from '../../scheduler/core/events.ts';
import type { State } from '../../scheduler/core/state.ts';
import { defaultSettings, type Settings } from '../../scheduler/core/settings.ts';
import { step } from '../../scheduler/core/step.ts';
import type { Clock } from '../../scheduler/engine/clock.ts';
import type { Step } from '../../scheduler/engine/commit-loop.ts';
import { Engine } from '../../scheduler/engine/engine.ts';
import type { DesiredEffect, DispatchEffect, Ports } from '../../scheduler/engine/ports.ts';
import type { HookRow, Op, Outcome } from '../../scheduler/store/store.ts';
import { SqliteEngine } from '../../scheduler/store/sqlite/engine.ts';
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
  post(hook: HookRow, tell: (event: CoreEvent) => void): void;
  /** Every operation and its outcome, as the store took them. */
  observe(op: Op, outcome: Outcome): void;
  /** After each step. */
  check(state: State): void;
  /** Every stream ends: the state is lost. The process is gone with it, or takes over again by itself. */
  down(hasCrashed: boolean): void;
}

export interface SimSchedulerOptions {
  readonly settings: Partial<Settings>;
  readonly mutation: Mutation | null;
  /** See {@link Engine}. */
  readonly payloadBytes: number;
  readonly secondBatchWrites: number;
}

export class SimScheduler {
  readonly store: SqliteEngine;
  readonly #world: World;
  readonly #wiring: Wiring;
  readonly #options: SimSchedulerOptions;
  readonly #calls = new Set<(result: Error) => void>();
  #engine: Engine | null = null;
  #life = 0;
  faults: StoreFaults = NO_FAULTS;
  /** Batches that left while another was in flight, and states that were dropped although the process went on. */
  readonly counts = { besideAnother: 0, dropped: 0 };

  constructor(world: World, wiring: Wiring, options: SimSchedulerOptions) {
    this.#world = world;
    this.#wiring = wiring;
    this.#options = options;
    this.store = new SqliteEngine({ file: ':memory:', now: () => world.clock().wall });
  }

  /** Null while the process is down or takes over. */
  get image(): State | null {
    return this.#engine?.up === true ? this.#engine.state : null;
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
    const store = new FaultyStore({
      world: this.#world,
      sqlite: this.store,
      later: (ms, run) => this.#later(ms, run),
      faults: () => this.faults,
      crash: () => this.crash(),
      observe: (op, outcome) => this.#wiring.observe(op, outcome),
      isForgotten: (op) => isForgotten(mutation, op),
      hidesRefusals: mutation === 'hide-refusals',
      besideAnother: () => void this.counts.besideAnother++,
    });
    const engine = new Engine(
      {
        store,
        settings: { ...defaultSettings, ...settings, ...quota },
        clock: this.#clock(),
        random: [this.#world.random.int(1, 2 ** 31), 2, 3, this.#life],
        owner: `life-${this.#life}`,
        log: { info: () => undefined, warn: () => undefined, error: () => undefined },
        payloadBytes,
        secondBatchWrites,
        onFatal: raise,
        step: this.#checkedStep(),
      },
      this.#ports(),
    );
    this.#engine = engine;
    engine.beginTakeOver({ done: () => this.#world.trace('scheduler started'), failed: raise });
  }

  crash(): void {
    if (this.#engine === null) return;
    this.#life++;
    this.#engine = null;
    for (const done of this.#calls) done(new Error('crashed'));
    this.#calls.clear();
    this.#world.trace('scheduler crashed');
    this.#wiring.down(true);
  }

  handle(event: CoreEvent): void {
    this.#engine?.handle(event);
  }

  command(command: Command, then: (result: Answer | Error) => void): void {
    if (this.#engine === null) {
      then(new Error('down'));
      return;
    }
    this.#calls.add(then);
    this.#engine.call(command, (result) => {
      if (this.#calls.delete(then)) then(result);
    });
  }

  /** Calls later, unless the process has ended by then. */
  #later(ms: number, run: () => void): void {
    const life = this.#life;
    this.#world.after(ms, () => {
      if (life === this.#life) run();
    });
  }

  #clock(): Clock {
    return {
      now: () => this.#world.clock(),
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
      reply: (channel, reply) => wiring.reply(channel, reply),
      send: (node, session, event) => wiring.send(node, session, event),
      sendDesired: (effect, state) => wiring.sendDesired(effect, state),
      sendJob: (effect, input) => wiring.sendJob(effect, input),
      closeSession: (node, session) => wiring.closeSession(node, session),
      deliver: (id) => this.#later(this.#world.random.next() * 2, () => this.#deliver(id)),
      closeAll: () => {
        this.counts.dropped++;
        this.#world.trace('scheduler dropped its state');
        wiring.down(false);
      },
      workerStarted: () => undefined,
      directory: () => undefined,
      dropBodies: () => undefined,
    };
  }

  #deliver(id: string): void {
    const hook = this.store.read('hook', id);
    const life = this.#life;
    if (hook === null) this.handle({ kind: 'hook-tried', id, result: 'gone' });
    else
      this.#wiring.post(hook, (event) => {
        if (life === this.#life) this.handle(event);
      });
  }
}

function raise(error: unknown): never {
  throw error;
}
