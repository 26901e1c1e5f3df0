/**
 * The loop between the core and its store, for one life of the state: from a take-over to the next failure of the
 * store. It feeds the core, gathers what the core decides, and commits it in batches:
 *
 *   event ──step──▶ gathered ──end of turn──▶ in flight ──durable──▶ refused operations fed back, effects released
 *
 * 1. While a batch is in flight the next one gathers, so the commit rate follows the disk and a batch grows with the load.
 * 2. A second batch may leave before the first is durable, once it is worth a commit of its own. Never a third.
 * 3. Effects leave when the operations decided with them are durable, in the order of the decisions (invariant 1). An
 *    effect that names a refused operation is dropped; the core is told of the refusal and decides anew.
 *    The core is told first which requests are replied to, since they count as open until then.
 * 4. A commit that fails ends the loop: nothing is known to be durable of that batch or of those after it.
 *
 * It has no clock, timer or promise of its own: all of them are handed in, so that the simulator runs this loop too.
 */
import { StepResult, type Effect, type Pending, type Write } from '../core/effects.ts';
import type { CoreEvent } from '../core/events.ts';
import type { Usage } from '../core/jobs/rate-limits.ts';
import type { Now } from '../core/now.ts';
import type { State } from '../core/state.ts';
import { nextDeadline } from '../core/step.ts';
import type { Fence, Outcome } from '../store/store.ts';
import type { Clock } from './clock.ts';
import type { LoopStore } from './loop-store.ts';

/** The core: changes the state by one event, and adds what is to be done. */
export type Step = (state: State, event: CoreEvent, now: Now, result: StepResult) => void;

/** Where what is durable goes. */
export interface LoopSink {
  /** A batch is durable; `outcomes` are those of `writes`, in order. Called before the core hears of refusals. */
  committed(writes: readonly Write[], outcomes: readonly Outcome[], ms: number): void;
  /** Carries out an effect. */
  perform(effect: Effect): void;
  /** A commit failed, and the loop has stopped. */
  failed(error: unknown): void;
}

export interface CommitLoopOptions {
  readonly state: State;
  readonly step: Step;
  readonly store: LoopStore;
  readonly fence: Fence;
  readonly clock: Clock;
  readonly sink: LoopSink;
  /** Operations that make a second batch worth a commit beside the first; {@link SECOND_BATCH_WRITES} when left out. */
  readonly secondBatchWrites?: number;
}

const MAX_IN_FLIGHT = 2;
const SECOND_BATCH_WRITES = 12;
/** Longest wait of a timer, ms. */
const MAX_TIMER_MS = 2_147_483_647;

export class CommitLoop {
  readonly #options: CommitLoopOptions;
  readonly #secondBatchWrites: number;
  #gathering: StepResult;
  /** The end of this turn flushes. */
  #scheduled = false;
  /** Batches sent to the store and not answered. */
  #inFlight = 0;
  #cancelTimer: (() => void) | null = null;
  #timerAt = Number.POSITIVE_INFINITY;
  #mode: 'running' | 'closing' | 'stopped' = 'running';
  readonly #onQuiet: (() => void)[] = [];

  /** `decided`: what the take-over decided. */
  constructor(options: CommitLoopOptions, decided: StepResult) {
    this.#options = options;
    this.#secondBatchWrites = options.secondBatchWrites ?? SECOND_BATCH_WRITES;
    this.#gathering = decided;
    this.#schedule();
    this.#rearm();
  }

  /** Nothing is gathered or in flight: the store holds all that the state says. */
  get quiet(): boolean {
    return this.#inFlight === 0 && this.#isEmpty();
  }

  /** Batches sent to the store and not answered. */
  get inFlight(): number {
    return this.#inFlight;
  }

  /** Feeds one event to the core. */
  handle(event: CoreEvent): void {
    if (this.#mode === 'stopped') return;
    this.#step(event);
    this.#schedule();
  }

  /** Waits for no more deadlines, and calls back once everything gathered is committed, or the loop was stopped. */
  close(done: () => void): void {
    if (this.#mode === 'running') this.#mode = 'closing';
    this.#stopTimer();
    if (this.#mode === 'stopped' || (this.quiet && !this.#scheduled)) done();
    else this.#onQuiet.push(done);
  }

  /** Forgets what is gathered; what is in flight has no consequences any more. */
  stop(): void {
    this.#mode = 'stopped';
    this.#stopTimer();
    this.#gathering = new StepResult();
    this.#tellQuiet();
  }

  #step(event: CoreEvent): void {
    const { state, step, clock } = this.#options;
    step(state, event, clock.now(), this.#gathering);
  }

  #isEmpty(): boolean {
    const { writes, effects } = this.#gathering;
    return writes.length === 0 && effects.length === 0;
  }

  #schedule(): void {
    if (this.#scheduled || this.#mode === 'stopped') return;
    this.#scheduled = true;
    this.#options.clock.defer(() => {
      this.#scheduled = false;
      if (this.#mode !== 'stopped') this.#flush();
    });
  }

  /** Effects without operations wait for the batches in flight too: they may tell of what is in those. */
  #isWorthABatch(): boolean {
    if (this.#inFlight === 0) return !this.#isEmpty();
    return this.#inFlight < MAX_IN_FLIGHT && this.#gathering.writes.length >= this.#secondBatchWrites;
  }

  /** Sends what is gathered to the store, which takes batches in order, so their outcomes come in order too. */
  #flush(): void {
    if (!this.#isWorthABatch()) {
      this.#rest();
      return;
    }
    const batch = this.#gathering;
    this.#gathering = new StepResult();
    if (batch.writes.length === 0) {
      this.#release(batch.effects, null);
      this.#schedule();
      this.#rest();
      return;
    }
    this.#inFlight++;
    const { store, fence, clock } = this.#options;
    const begun = clock.now().mono;
    const ops = batch.writes.map((write) => write.op);
    store.commit(fence, ops, {
      done: (outcomes) => this.#committed(batch, outcomes, begun),
      failed: (error) => this.#failed(error),
    });
  }

  #committed({ writes, effects }: StepResult, outcomes: readonly Outcome[], begun: number): void {
    this.#inFlight--;
    if (this.#mode === 'stopped') return;
    const { sink, clock } = this.#options;
    sink.committed(writes, outcomes, clock.now().mono - begun);
    const refused = this.#refuse(writes, outcomes);
    // The next batch goes first: the effects then cost the disk no time. Its own effects come after these.
    if (this.#gathering.writes.length > 0) this.#flush();
    this.#release(effects, refused);
    this.#schedule();
  }

  #failed(error: unknown): void {
    this.#inFlight--;
    if (this.#mode === 'stopped') return;
    this.stop();
    this.#options.sink.failed(error);
  }

  /** Tells the core of the operations that were not carried out. */
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
      this.#options.sink.perform(effect);
    }
  }

  /** Nothing may be left to do: looks at the deadlines, and at who waits for the end. */
  #rest(): void {
    this.#rearm();
    if (this.quiet) this.#tellQuiet();
  }

  #tellQuiet(): void {
    for (const done of this.#onQuiet.splice(0)) done();
  }

  /** One timer for the earliest deadline. It fires, then the sockets are polled, then the core is told (invariant 5). */
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
