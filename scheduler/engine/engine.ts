/**
 * The shell around the core: takes over the cell, runs the commit loop on the restored state, and runs the effects. If
 * its term is stale, the engine drops the state, ends every stream (callers send again) and takes the cell over again.
 * It does the same after a full disk, which rolls back the whole batch, and after a lost connection to the store, which
 * refuses every batch until the cell is taken over under a new term. If another scheduler owns the cell by then, the engine
 * waits for its turn (a standby), or the process must end where there can be no other. After any other failure of the store
 * the process must end and start again.
 *
 * Everything in the engine follows from its events, its clock and the callbacks of its store; promises are created only
 * for callers. The simulator therefore runs this engine, too.
 */
import { CapstanError } from '../../lib/errors.ts';
import { InvariantViolation } from '../../lib/invariant.ts';
import { toError } from '../../lib/to-error.ts';
import { StepResult, type CommandResult, type Write } from '../core/effects.ts';
import type { AuditEntry } from '../core/audit.ts';
import type { Command, CoreEvent } from '../core/events.ts';
import type { State } from '../core/state.ts';
import { step } from '../core/step/step.ts';
import { restore, type StoredState } from '../core/step/restore.ts';
import { StaleTermError, type Outcome, type Reads } from '../core/ports/store.ts';
import { CommitLoop } from './commit-loop.ts';
import { EffectRunner } from './effect-runner.ts';
import type { EngineOptions } from './engine-options.ts';
import type { Completion } from './loop-store.ts';
import { PayloadCache } from './payload-cache.ts';
import type { Ports } from './ports.ts';
import { SearchTurns } from './search-turns.ts';
import { readState } from './take-over.ts';
import { isRecoverable, TAKE_OVER_RETRY_MS, TakeOverTurns, takingOver } from './take-over-turns.ts';

/** The state of one take-over, and the parts that work on it. */
interface OwnedTerm {
  readonly term: bigint;
  readonly state: State;
  readonly loop: CommitLoop;
  readonly runner: EffectRunner;
}

export class Engine {
  /** Turns of what people look at: searches, lists, counts. */
  readonly searches = new SearchTurns();
  readonly #options: EngineOptions;
  readonly #ports: Ports;
  readonly #inputs: PayloadCache;
  readonly #calls = new Map<number, (result: CommandResult | Error) => void>();
  #life: OwnedTerm | null = null;
  /** Told if the present life fails before its first batch is confirmed. */
  #unconfirmed: ((error: unknown) => void) | null = null;
  #nextCall = 1;
  #closed = false;
  #diskRefusal: CapstanError | null = null;
  readonly #turns: TakeOverTurns;

  constructor(options: EngineOptions, ports: Ports) {
    this.#options = options;
    this.#ports = ports;
    this.#inputs = new PayloadCache(options.payloadBytes);
    this.#turns = new TakeOverTurns(options, (completion) => this.beginTakeOver(completion));
  }

  /**
   * The state, for replies to callers.
   * @throws CapstanError UNAVAILABLE while there is none, or while another scheduler may have taken the queue over.
   */
  get state(): State {
    this.requireOwner();
    return this.#current().state;
  }

  /** The state as it is, for counting; null while there is none. */
  get image(): State | null {
    return this.#life?.state ?? null;
  }

  /**
   * @throws CapstanError UNAVAILABLE while the queue is being taken over, or another scheduler may have taken it over.
   */
  requireOwner(): void {
    if (!this.#current().loop.confirmed) throw takingOver();
  }

  /** The term under which the cell is owned; null while it is not. */
  get term(): bigint | null {
    return this.#life?.term ?? null;
  }

  /** Whether no other scheduler can have taken the queue over by now: for effects that need no batch of their own. */
  get owns(): boolean {
    return this.#life?.loop.confirmed === true;
  }

  get up(): boolean {
    return this.#life !== null;
  }

  /** Whether the store holds the whole state. */
  get quiet(): boolean {
    return this.#life?.loop.quiet === true;
  }

  /** Batches sent to the store without an outcome yet. */
  get inFlight(): number {
    return this.#life?.loop.inFlight ?? 0;
  }

  /** Size of the inputs kept for dispatch. */
  get inputCache(): { readonly jobs: number; readonly bytes: number } {
    return { jobs: this.#inputs.size, bytes: this.#inputs.bytes };
  }

  /** Reads data that the state does not hold. Rejects with UNAVAILABLE if the queue was lost, or may be, by its answer. */
  read<K extends keyof Reads>(query: K, ...args: Parameters<Reads[K]>): Promise<ReturnType<Reads[K]>> {
    return this.#whileOwned((completion) => this.#options.store.read(query, args, completion));
  }

  /** The same for what people look at, apart from what programs wait for. */
  search<K extends keyof Reads>(query: K, ...args: Parameters<Reads[K]>): Promise<ReturnType<Reads[K]>> {
    return this.#whileOwned((completion) => this.#options.store.search(query, args, completion));
  }

  #whileOwned<T>(read: (completion: Completion<T>) => void): Promise<T> {
    const life = this.#life;
    return new Promise((resolve, reject) => {
      read({
        done: (result) => {
          if (life !== null && this.#life === life && life.loop.confirmed) resolve(result);
          else reject(takingOver());
        },
        failed: (error) => reject(toError(error)),
      });
    });
  }

  /** Refuses new jobs for this reason, or accepts them again (null). */
  refuseJobs(refusal: CapstanError | null): void {
    this.#diskRefusal = refusal;
    this.handle({ kind: 'disk', refusal });
  }

  /** Takes over the cell and rebuilds the state from the store. */
  takeOver(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.beginTakeOver({ done: resolve, failed: (error) => reject(toError(error)) });
    });
  }

  /** {@link Engine.takeOver} with callbacks. */
  beginTakeOver({ done, failed }: Completion<void>): void {
    const { store, owner, cell = 0, settings } = this.#options;
    store.acquire(
      { cell, owner, forMs: settings.nodeGraceMs },
      {
        done: (taken) => {
          if ('heldBy' in taken) failed(heldByAnother(taken));
          else
            readState(store, {
              done: (stored) => this.#begin(taken.term, stored, { done, failed }),
              failed,
            });
        },
        failed,
      },
    );
  }

  /** Feeds one event to the core. */
  handle(event: CoreEvent): void {
    if (!this.#closed) this.#life?.loop.handle(event);
  }

  /** Runs a command of the control plane; resolves after its commit. `audit` is written with what it changes. */
  command(command: Command, audit: AuditEntry | null = null): Promise<CommandResult> {
    return new Promise((resolve, reject) => {
      const done = (result: CommandResult | Error): void => {
        if (result instanceof Error) reject(result);
        else resolve(result);
      };
      this.call(command, done, audit);
    });
  }

  /** {@link Engine.command} with a callback. */
  call(command: Command, done: (result: CommandResult | Error) => void, audit: AuditEntry | null = null): void {
    if (this.#life === null || this.#closed) {
      done(takingOver());
      return;
    }
    const call = this.#nextCall++;
    this.#calls.set(call, done);
    this.handle({ kind: 'command', call, command, audit });
  }

  /**
   * The store may have lost the cell, or its connection: drops the state and takes the cell over anew. A state of
   * another term than this one stays: it was taken over after what the store reports.
   */
  recheck(term: bigint): void {
    if (!this.#closed && this.#life?.term === term) this.#fail(new CapstanError('UNAVAILABLE', 'the store may have lost the queue'));
  }

  /** As a standby: takes the cell over once its owner is gone. {@link EngineOptions.onRole} tells when. */
  standBy(heldBy: unknown): void {
    this.#turns.failed(heldBy);
  }

  /**
   * Commits what was accepted, and drops the state; then runs `act`, which may change rows under it, and takes the cell over
   * anew, whatever became of that. Until then nothing is accepted, answered or sent. `check` sees the state once the store
   * holds all of it, and may refuse; then nothing else has happened but that the cell is taken over.
   * @throws CapstanError UNAVAILABLE when the state is lost meanwhile; what `check` and `act` throw.
   */
  async withoutState<T>(check: (state: State) => void, act: () => Promise<T>): Promise<T> {
    const life = this.#current();
    await new Promise<void>((resolve) => life.loop.close(resolve));
    if (this.#closed || this.#life !== life) throw takingOver();
    try {
      check(life.state);
      this.#drop(life, takingOver(), 'taking over the queue again');
      return await act();
    } finally {
      this.#drop(life, takingOver(), 'taking over the queue again');
      this.#turns.takeOver();
    }
  }

  /** Commits the gathered operations, then stops. Requests without a reply by then get none: they are sent again. */
  close(): Promise<void> {
    return new Promise((resolve) => this.beginClose(resolve));
  }

  /** {@link Engine.close} with a callback. */
  beginClose(done: () => void): void {
    this.#closed = true;
    this.#turns.close();
    const life = this.#life;
    if (life === null) {
      done();
      return;
    }
    life.loop.close(() => {
      if (this.#life === life) this.#end(life, takingOver());
      done();
    });
  }

  /** Begins a life of the state. It is taken over once the store has confirmed its term. */
  #begin(term: bigint, stored: StoredState, { done, failed }: Completion<void>): void {
    if (this.#closed) {
      failed(takingOver());
      return;
    }
    const { settings, clock, random, store, cell = 0, secondBatchWrites } = this.#options;
    const decided = new StepResult();
    const state = restore({ settings, random, diskRefusal: this.#diskRefusal }, stored, clock.now(), decided);
    const runner = new EffectRunner({
      state,
      store,
      clock,
      ports: this.#ports,
      inputs: this.#inputs,
      feed: (event) => loop.handle(event),
      whenConfirmed: (run) => loop.whenConfirmed(run),
      answer: (call, result) => this.#answer(call, result),
      log: ({ level, facts, message }) => this.#options.log[level](withEndpointName(state, facts), message),
      // While the engine closes, the store may already be closed.
      failed: (error) => {
        if (!this.#closed) this.#fail(error);
      },
    });
    const sink = {
      committed: (writes: readonly Write[], outcomes: readonly Outcome[], ms: number) => {
        this.#options.watcher?.committed(writes, outcomes, ms);
        runner.committed(writes, outcomes);
      },
      perform: runner.perform.bind(runner),
      renewed: (ms: number) => this.#options.watcher?.renewed?.(ms),
      failed: (error: unknown) => this.#fail(error),
      broken: (error: unknown) => this.#broken(error),
    };
    const fence = { cell, term };
    const batches = secondBatchWrites === undefined ? {} : { secondBatchWrites };
    const loop = new CommitLoop({ state, step: this.#options.step ?? step, store, fence, clock, sink, ...batches }, decided);
    this.#life = { term, state, loop, runner };
    this.#unconfirmed = failed;
    loop.whenConfirmed(() => {
      this.#unconfirmed = null;
      this.#turns.forgetOwner();
      this.#options.onRole?.({ kind: 'owner', term });
      done();
    });
  }

  #current(): OwnedTerm {
    if (this.#life === null) throw takingOver();
    return this.#life;
  }

  /** Drops the state. Calls without an answer, and a take-over that nobody confirmed yet, fail with this error. */
  #end({ loop, runner }: OwnedTerm, error: Error): void {
    this.#life = null;
    loop.stop();
    runner.stop();
    this.#inputs.clear();
    const calls = [...this.#calls.values()];
    this.#calls.clear();
    for (const done of calls) done(error);
  }

  /** Drops the state. Calls fail with `error`, streams end with `reason`. */
  #drop(life: OwnedTerm, error: CapstanError, reason: string): void {
    if (this.#life !== life) return;
    this.#end(life, error);
    this.#turns.forgetOwner();
    this.#options.onRole?.({ kind: 'lost' });
    this.#ports.closeAll(reason);
  }

  #answer(call: number, result: CommandResult | CapstanError): void {
    const done = this.#calls.get(call);
    this.#calls.delete(call);
    done?.(result);
  }

  /** No operation of the last batch is known to be durable: drops the state. */
  #fail(error: unknown): void {
    const life = this.#life;
    if (life === null) return;
    const isStale = error instanceof StaleTermError;
    const fatal = !isStale && !isRecoverable(error);
    const unconfirmed = this.#unconfirmed;
    this.#unconfirmed = null;
    this.#options.log.error({ err: error }, isStale ? 'another scheduler took the queue; taking over again' : 'the store failed');
    this.#drop(
      life,
      new CapstanError('UNAVAILABLE', 'the store failed; try again shortly', { retryAfterMs: TAKE_OVER_RETRY_MS }),
      'the store failed',
    );
    if (unconfirmed !== null) unconfirmed(isStale ? takenByAnother(error.message) : error);
    else if (fatal) this.#options.onFatal(error);
    else this.#turns.retry();
  }

  /** The state is not what it must be: drops it, and reads the queue anew from the store, which holds no part of the step that threw. */
  #broken(error: unknown): void {
    this.#options.onBroken?.(error);
    const ids = error instanceof InvariantViolation ? error.ids : {};
    this.#options.log.error({ err: error, ...ids }, 'a step failed; reading the queue anew from the store');
    const life = this.#life;
    // The engine was closing, and has ended by that.
    if (life === null) return;
    const unconfirmed = this.#unconfirmed;
    this.#unconfirmed = null;
    this.#drop(life, takingOver(), 'reading the queue anew');
    if (unconfirmed === null) this.#turns.retry();
    else unconfirmed(takingOver());
  }
}

function heldByAnother({ heldBy, address }: { readonly heldBy: string; readonly address?: string }): CapstanError {
  return new CapstanError('CONFLICT', `the queue's owner is ${heldBy}`, address === undefined ? {} : { owner: address });
}

function takenByAnother(message: string): CapstanError {
  return new CapstanError('CONFLICT', message);
}

/** Adds the name of the endpoint to the facts of a log line: people know it by its name. */
function withEndpointName(state: State, facts: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const { endpoint } = facts;
  const name = typeof endpoint === 'string' ? state.endpoints.get(endpoint)?.config.name : undefined;
  return name === undefined ? facts : { endpointName: name, ...facts };
}
