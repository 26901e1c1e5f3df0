/**
 * The loop between the core and its store, for one life of the state: from a take-over to the next failure of the
 * store. It feeds events to the core, gathers the operations of its steps, and commits them in batches:
 *
 *   event ──step──▶ gathered ──end of turn──▶ in flight ──durable──▶ refused operations fed back, effects released
 *
 * 1. While a batch is in flight the next one is gathered, so the commit rate adapts to the disk and batches grow with
 *    the load.
 * 2. A second batch may be sent before the first is durable, once it is large enough for a separate commit. Never a
 *    third.
 * 3. Effects are run when the operations of their step are durable, in the order of the steps (invariant 1). An effect
 *    that names a refused operation is dropped; the core receives the refusal and handles it. Before the effects are
 *    run, the core learns which requests get replies, because they count as open until then.
 * 4. A failed commit ends the loop: no operation of that batch or of later ones is known to be durable.
 * 5. A step that throws (an invariant does not hold) ends the loop, too: nothing that it gathered is written.
 * 6. Where another process may take the cell over (`fenceMs` of the store), an effect is run only while the last
 *    confirmed batch was sent less than `fenceMs` ago. That is checked before each effect, not by a timer, which a
 *    paused process would run too late. Effects past that bound are held until the next batch is confirmed, an empty
 *    one if need be, and dropped if it is refused. An idle loop commits an empty batch now and then.
 *
 * It creates no clock, timer or promise: all of them are passed in, so that the simulator also runs this loop.
 */
import { StepResult, type Effect, type Pending, type Write } from '../core/effects.ts';
import type { CoreEvent } from '../core/events.ts';
import type { Usage } from '../core/state/rate-limits.ts';
import type { Now } from '../core/now.ts';
import type { State } from '../core/state.ts';
import { nextDeadline } from '../core/step/step.ts';
import type { Fence, Outcome } from '../core/ports/store.ts';
import type { Clock } from './clock.ts';
import type { LoopStore } from './loop-store.ts';

/** The core's step: changes the state by one event, and adds operations and effects. */
export type Step = (state: State, event: CoreEvent, now: Now, result: StepResult) => void;

/** Receives the results of commits. */
export interface LoopSink {
  /** A batch is durable; `outcomes` are those of `writes`, in order. Called before the core receives refusals. */
  committed(writes: readonly Write[], outcomes: readonly Outcome[], ms: number): void;
  /** Runs an effect. */
  perform(effect: Effect): void;
  /** A commit failed, and the loop has stopped. */
  failed(error: unknown): void;
  /** A step threw, and the loop has stopped: the state may be changed in part. */
  broken(error: unknown): void;
  /** An empty batch has confirmed the term. */
  renewed?(ms: number): void;
}

export interface CommitLoopOptions {
  readonly state: State;
  readonly step: Step;
  readonly store: LoopStore;
  readonly fence: Fence;
  readonly clock: Clock;
  readonly sink: LoopSink;
  /**
   * Number of operations from which a second batch is committed beside the first; default {@link SECOND_BATCH_WRITES}.
   */
  readonly secondBatchWrites?: number;
}

const MAX_IN_FLIGHT = 2;
const SECOND_BATCH_WRITES = 12;
/** An idle loop confirms its term as many times within the bound of its fence: one late confirmation holds up nothing. */
const RENEWALS_PER_FENCE = 4;
/** Longest wait of a timer, ms. */
const MAX_TIMER_MS = 2_147_483_647;

export class CommitLoop {
  readonly #options: CommitLoopOptions;
  readonly #secondBatchWrites: number;
  #gathering: StepResult;
  /** A flush is scheduled for the end of this turn of the event loop. */
  #scheduled = false;
  /** Batches sent to the store without an outcome yet. */
  #inFlight = 0;
  #cancelTimer: (() => void) | null = null;
  #timerAt = Number.POSITIVE_INFINITY;
  /** When the last confirmed batch was sent, on the monotonic clock. The take-over itself confirms nothing. */
  #confirmedAt = Number.NEGATIVE_INFINITY;
  /** When the last batch was sent. */
  #sentAt = Number.NEGATIVE_INFINITY;
  /** What is run after the next confirmed batch, in order. */
  #held: (() => void)[] = [];
  #cancelRenewal: (() => void) | null = null;
  #mode: 'running' | 'closing' | 'stopped' = 'running';
  readonly #onQuiet: (() => void)[] = [];

  /** `decided`: the operations and effects of the take-over. */
  constructor(options: CommitLoopOptions, decided: StepResult) {
    this.#options = options;
    this.#secondBatchWrites = options.secondBatchWrites ?? SECOND_BATCH_WRITES;
    this.#gathering = decided;
    this.#schedule();
    this.#rearm();
    this.#renewLater();
  }

  /** Whether nothing is gathered or in flight: the store holds the whole state. */
  get quiet(): boolean {
    return this.#inFlight === 0 && this.#isEmpty();
  }

  /** Batches sent to the store without an outcome yet. */
  get inFlight(): number {
    return this.#inFlight;
  }

  /** Whether the cell cannot have another owner that took it over because this one was silent: effects may leave. */
  get confirmed(): boolean {
    const { store, clock } = this.#options;
    return store.fenceMs === null || clock.now().mono - this.#confirmedAt < store.fenceMs;
  }

  /** Runs it now if the term is confirmed, otherwise after the next confirmed batch; never if the term is lost by then. */
  whenConfirmed(run: () => void): void {
    if (this.#mode === 'stopped') return;
    if (this.confirmed) {
      run();
      return;
    }
    this.#held.push(run);
    this.#schedule();
  }

  /** Feeds one event to the core. A loop that closes takes no more: whoever sent it sends it again to the next owner. */
  handle(event: CoreEvent): void {
    if (this.#mode !== 'running') return;
    this.#step(event);
    this.#schedule();
  }

  /** Stops the deadlines. Calls `done` once everything gathered is committed, or the loop was stopped. */
  close(done: () => void): void {
    if (this.#mode === 'running') this.#mode = 'closing';
    this.#stopTimer();
    this.#cancelRenewal?.();
    if (this.#mode === 'stopped' || (this.quiet && !this.#scheduled)) done();
    else this.#onQuiet.push(done);
  }

  /** Drops the gathered batch, and ignores the outcomes of batches in flight. */
  stop(): void {
    this.#mode = 'stopped';
    this.#stopTimer();
    this.#cancelRenewal?.();
    this.#gathering = new StepResult();
    this.#held = [];
    this.#notifyIdle();
  }

  #step(event: CoreEvent): void {
    if (this.#mode === 'stopped') return;
    const { state, step, clock, sink } = this.#options;
    try {
      step(state, event, clock.now(), this.#gathering);
    } catch (error) {
      this.stop();
      sink.broken(error);
    }
  }

  #isEmpty(): boolean {
    const { writes, effects } = this.#gathering;
    return writes.length === 0 && effects.length === 0 && this.#held.length === 0;
  }

  #schedule(): void {
    if (this.#scheduled || this.#mode === 'stopped') return;
    this.#scheduled = true;
    this.#options.clock.defer(() => {
      this.#scheduled = false;
      if (this.#mode !== 'stopped') this.#flush();
    });
  }

  /** Effects without operations also wait for the batches in flight, because they may report changes in those. */
  #isWorthABatch(): boolean {
    if (this.#inFlight === 0) return !this.#isEmpty();
    return this.#inFlight < MAX_IN_FLIGHT && this.#gathering.writes.length >= this.#secondBatchWrites;
  }

  /** Sends the gathered batch to the store. The store processes batches in order, so their outcomes arrive in order. */
  #flush(): void {
    if (!this.#isWorthABatch()) {
      this.#rest();
      return;
    }
    const batch = this.#gathering;
    this.#gathering = new StepResult();
    if (batch.writes.length === 0 && this.confirmed) {
      this.#release(batch.effects, null);
      this.#schedule();
      this.#rest();
      return;
    }
    this.#send(batch);
  }

  /** Sends a batch, which may be empty: then it confirms the term. */
  #send(batch: StepResult): void {
    this.#inFlight++;
    const { store, fence, clock } = this.#options;
    const begun = clock.now().mono;
    this.#sentAt = begun;
    const ops = batch.writes.map((write) => write.op);
    store.commit(fence, ops, {
      done: (outcomes) => this.#committed(batch, outcomes, begun),
      failed: (error) => this.#failed(error),
    });
  }

  #committed({ writes, effects }: StepResult, outcomes: readonly Outcome[], begun: number): void {
    this.#inFlight--;
    if (this.#mode === 'stopped') return;
    this.#confirmedAt = begun;
    const { sink, clock } = this.#options;
    const ms = clock.now().mono - begun;
    if (writes.length > 0) sink.committed(writes, outcomes, ms);
    else sink.renewed?.(ms);
    const refused = this.#refuse(writes, outcomes);
    // The next batch is sent first, so that the effects do not delay the disk. Its own effects are run after these.
    if (this.#gathering.writes.length > 0) this.#flush();
    for (const run of this.#held.splice(0)) this.whenConfirmed(run);
    this.#release(effects, refused);
    this.#schedule();
  }

  #failed(error: unknown): void {
    this.#inFlight--;
    if (this.#mode === 'stopped') return;
    this.stop();
    this.#options.sink.failed(error);
  }

  /** Feeds the refused operations back to the core. Returns them, or null if there are none. */
  #refuse(writes: readonly Write[], outcomes: readonly Outcome[]): ReadonlySet<Write> | null {
    let refused: Set<Write> | null = null;
    for (const [i, write] of writes.entries()) {
      const outcome = outcomes[i];
      if (outcome === undefined || outcome.kind === 'ok') continue;
      (refused ??= new Set()).add(write);
      this.#step({ kind: 'refused', op: write.op, outcome, cause: write.cause });
    }
    return refused;
  }

  #release(effects: readonly Pending[], refused: ReadonlySet<Write> | null): void {
    const released = refused === null ? effects : effects.filter(({ write }) => write === null || !refused.has(write));
    const usages: Usage[] = [];
    for (const { effect } of released) if (effect.kind === 'reply' && effect.usage !== null) usages.push(effect.usage);
    if (usages.length > 0) this.#step({ kind: 'replied', usages });
    for (const { effect } of released) {
      if (this.#mode === 'stopped') return;
      if (this.confirmed) this.#options.sink.perform(effect);
      else this.whenConfirmed(() => this.#options.sink.perform(effect));
    }
  }

  /** Confirms the term of an idle loop now and then, so that its effects need not wait for that. */
  #renewLater(): void {
    const { store, clock } = this.#options;
    if (store.fenceMs === null || this.#mode !== 'running') return;
    const everyMs = store.fenceMs / RENEWALS_PER_FENCE;
    this.#cancelRenewal = clock.after(everyMs, () => {
      if (this.#inFlight === 0 && clock.now().mono - this.#sentAt >= everyMs) this.#renew();
      this.#renewLater();
    });
  }

  #renew(): void {
    const batch = this.#gathering;
    this.#gathering = new StepResult();
    this.#send(batch);
  }

  /** Rearms the timer. Calls the callbacks of `close` if nothing is left to do. */
  #rest(): void {
    this.#rearm();
    if (this.quiet) this.#notifyIdle();
  }

  #notifyIdle(): void {
    for (const done of this.#onQuiet.splice(0)) done();
  }

  /**
   * Sets one timer for the earliest deadline. After it fires, the sockets are polled before the core receives the event
   * (invariant 5).
   */
  #rearm(): void {
    if (this.#mode !== 'running') return;
    const { state, clock } = this.#options;
    const now = clock.now();
    const at = nextDeadline(state, now);
    if (at === null || (this.#cancelTimer !== null && this.#timerAt <= at)) return;
    this.#stopTimer();
    this.#timerAt = at;
    const wait = Math.min(Math.max(0, Math.ceil(at - now.mono)), MAX_TIMER_MS);
    this.#cancelTimer = clock.after(wait, () => {
      this.#cancelTimer = null;
      this.#timerAt = Number.POSITIVE_INFINITY;
      clock.defer(() => {
        this.handle({ kind: 'tick' });
        this.#rearm();
      });
    });
  }

  #stopTimer(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = null;
    this.#timerAt = Number.POSITIVE_INFINITY;
  }
}
