/**
 * A scheduler's connection to the shared database in the simulated world: the model of the PostgreSQL driver, with its
 * numbered batches, its doubt and its take-over. Batches travel, and so do their answers: they are lost, late, delivered
 * twice or after the term has changed, and the connection breaks before, during and after a batch.
 */
import { CapstanError } from '../../lib/errors.ts';
import type { Acquisition, Completion, LoopStore } from '../../scheduler/engine/loop-store.ts';
import { StaleTermError, type Fence, type Op, type Outcome, type Reads } from '../../scheduler/core/ports/store.ts';
import type { Mark, SentBatch, Session, SimDatabase } from './database.ts';
import type { Mutation } from './mutations.ts';
import type { World } from './world.ts';

/** Chances at each batch of jobs. */
export interface NetworkFaults {
  readonly crash: number;
  /** The connection breaks before the batch arrives, or after it and before its answer. */
  readonly cut: number;
  /**
   * Nothing comes back from now on, and the owner does not learn that. The batch may arrive seconds later, or the server
   * sees the connection's end.
   */
  readonly mute: number;
  /** The batch arrives once more, later. */
  readonly copy: number;
  /** The server cannot write this one. */
  readonly refusal: number;
}

export const CALM: NetworkFaults = { crash: 0, cut: 0, mute: 0, copy: 0, refusal: 0 };

/** The driver's times, ms. */
const ANSWER_MS = 3_000;
const RENEW_MS = 1_000;
const UNCHANGED_MS = 4_000;
/** Too soon, on purpose: an owner's effects leave for 3 s after its last batch. */
const EARLY_MS = 1_000;
/** A server that was not told of a connection's end finds out by itself. */
const KEEPALIVE_MS = 9_000;
/** When an owner without an answer takes its cell anew: it gives the batch up, and waits for a second. */
const RETAKEN_MS = ANSWER_MS + 1_000;

type Fate = 'arrives' | 'half-open' | 'crash-before' | 'crash-after' | 'cut-before' | 'cut-after' | 'mute' | 'late' | 'copied' | 'refused';

interface Pending {
  readonly fence: Fence;
  readonly number: number;
  readonly sentAt: number;
  readonly completion: Completion<readonly Outcome[]>;
}

export interface DatabaseStoreOptions {
  readonly world: World;
  readonly database: SimDatabase;
  readonly version: number;
  readonly mutation: Mutation | null;
  /** Calls later, unless the process has ended by then; a paused process is called when it goes on. */
  readonly later: (ms: number, run: () => void) => void;
  /** The process's monotonic clock, ms. */
  readonly mono: () => number;
  readonly faults: () => NetworkFaults;
  readonly crash: () => void;
  /** The cell, owned under this term, may be lost. */
  readonly hint: (term: bigint) => void;
  readonly besideAnother: () => void;
}

export class DatabaseStore implements LoopStore {
  readonly fenceMs: number | null;
  readonly #options: DatabaseStoreOptions;
  #session: Session | null = null;
  #owned: { readonly term: number; batch: number } | null = null;
  #doubt: CapstanError | null = null;
  /** Highest mark that the database acknowledged or showed. */
  #known: Mark = { term: 0, batch: 0 };
  #seen: (Mark & { readonly since: number }) | null = null;
  #open: Pending[] = [];
  #afterOpen: (() => void)[] = [];
  #life = 0;
  #sendFreeAt = 0;
  #answerFreeAt = 0;
  /** No answer comes over the present connection any more. */
  #isMute = false;
  #sentAt = 0;
  /** When the last batch was sent whose answer was received, by the world's clock; for the checks. */
  confirmedSentAt = Number.NEGATIVE_INFINITY;
  /** When the process last asked who owns the cell. */
  lastReadAt = Number.NEGATIVE_INFINITY;

  constructor(options: DatabaseStoreOptions) {
    this.#options = options;
    this.fenceMs = options.mutation === 'no-fence' ? null : ANSWER_MS;
    this.#renewLater();
  }

  commit(fence: Fence, ops: readonly Op[], completion: Completion<readonly Outcome[]>): void {
    const { world, later, besideAnother } = this.#options;
    const owned = this.#owned;
    const session = this.#session;
    const refusal = this.#doubt ?? (owned === null || BigInt(owned.term) !== fence.term ? new StaleTermError(fence) : null);
    if (refusal !== null || owned === null || session === null) {
      later(0, () => completion.failed(refusal ?? new StaleTermError(fence)));
      return;
    }
    if (this.#open.length > 0) besideAnother();
    const batch: SentBatch = { life: this.#life, term: owned.term, number: ++owned.batch, ops };
    const pending: Pending = { fence, number: batch.number, sentAt: world.now, completion };
    this.#sentAt = world.now;
    this.#open.push(pending);
    this.#travel(session, batch, pending);
    later(ANSWER_MS, () => {
      if (this.#open.includes(pending)) this.#lose(new CapstanError('UNAVAILABLE', 'no answer within 3 s'));
    });
  }

  /** Sees the batches that were called before. */
  read<K extends keyof Reads>(query: K, args: Parameters<Reads[K]>, { done }: Completion<ReturnType<Reads[K]>>): void {
    const { world, database, later } = this.#options;
    this.#whenSettled(() =>
      later(0.1 + world.random.next(), () => {
        const result = database.queue.read(query, ...args);
        later(world.random.chance(0.5) ? 0 : world.random.next() * 4, () => done(result));
      }),
    );
  }

  search<K extends keyof Reads>(query: K, args: Parameters<Reads[K]>, completion: Completion<ReturnType<Reads[K]>>): void {
    this.read(query, args, completion);
  }

  acquire({ owner }: Acquisition, { done, failed }: Completion<{ readonly term: bigint } | { readonly heldBy: string }>): void {
    const { world, later } = this.#options;
    this.#whenSettled(() => {
      if (this.#owned !== null && this.#doubt === null) {
        const { term } = this.#owned;
        later(0, () => this.#begin(term, done));
        return;
      }
      const session = this.#connected();
      world.after(0.1 + world.random.next() * 2, () => {
        if (!session.isOpen) {
          later(0, () => failed(new CapstanError('UNAVAILABLE', 'the connection ended')));
          return;
        }
        this.#take(session, owner, { done, failed });
      });
    });
  }

  /** Calls when the lock is free, or after `ms`. */
  waitForTurn(_shard: number, ms: number, { done }: Completion<void>): void {
    const { database, later } = this.#options;
    let isOver = false;
    const end = (): void => {
      if (isOver) return;
      isOver = true;
      done();
    };
    later(ms, end);
    database.onFree(() => later(0, end));
  }

  /** Gives the cell up after the batches that were called before. */
  release(done: () => void): void {
    const { world, database } = this.#options;
    this.#whenSettled(() => {
      const session = this.#session;
      this.#owned = null;
      if (session !== null) world.after(0.1 + world.random.next(), () => database.release(session));
      done();
    });
  }

  /** The process has ended: the server learns it after what was sent before. */
  processEnded(): void {
    const { world, database } = this.#options;
    const session = this.#session;
    if (session !== null) world.after(Math.max(0, this.#sendFreeAt - world.now) + 1, () => database.end(session));
  }

  #connected(): Session {
    if (this.#session !== null) return this.#session;
    const { world, database, later } = this.#options;
    const session = database.connect(() => {
      // Over a mute connection nothing comes, also not its end.
      if (this.#session === session && this.#isMute) return;
      later(world.random.next() * 2, () => {
        if (this.#session === session) this.#lose(new CapstanError('UNAVAILABLE', 'the connection ended'));
      });
    });
    this.#session = session;
    this.#isMute = false;
    this.#sendFreeAt = world.now;
    return session;
  }

  #take(session: Session, owner: string, { done, failed }: Completion<{ readonly term: bigint } | { readonly heldBy: string }>): void {
    const { database, later, version, mono, mutation, world } = this.#options;
    const longEnough = mutation === 'take-early' ? EARLY_MS : UNCHANGED_MS;
    const seen = this.#seen;
    const unchanged = seen !== null && mono() - seen.since >= longEnough ? seen : null;
    const taken = database.take(session, { owner, version, known: this.#known, unchanged });
    later(world.random.next() * 2, () => {
      this.lastReadAt = world.now;
      if (taken instanceof CapstanError) {
        failed(taken);
        return;
      }
      if (this.#session !== session) {
        failed(new CapstanError('UNAVAILABLE', 'the connection ended'));
        return;
      }
      const { term, batch } = taken;
      this.#know({ term, batch });
      if (taken.kind === 'held') {
        if (seen?.term !== term || seen.batch !== batch) this.#seen = { term, batch, since: mono() };
        done({ heldBy: taken.owner });
        return;
      }
      this.#owned = { term, batch };
      this.#doubt = null;
      this.#begin(term, done);
    });
  }

  /** The state is read next. */
  #begin(term: number, done: (taken: { readonly term: bigint }) => void): void {
    this.#options.database.readAnew(term, ++this.#life);
    done({ term: BigInt(term) });
  }

  #know({ term, batch }: Mark): void {
    this.#known = { term: Math.max(this.#known.term, term), batch: Math.max(this.#known.batch, batch) };
  }

  #travel(session: Session, batch: SentBatch, pending: Pending): void {
    const { world, database, crash } = this.#options;
    const fate = this.#fateOf(batch);
    if (fate !== 'arrives') world.trace(`batch ${batch.number} of term ${batch.term}: ${fate}`);
    // Often about the time at which an owner in doubt takes the cell anew.
    const late = fate !== 'late' ? 0 : world.random.chance(0.5) ? RETAKEN_MS + world.random.next() * 20 : world.random.int(500, 6_000);
    // What is sent later on this connection comes after it.
    this.#sendFreeAt = Math.max(this.#sendFreeAt, world.now) + 0.1 + world.random.next() * 2 + late;
    if (fate === 'mute' || fate === 'late' || fate === 'half-open') this.#isMute = true;
    world.after(this.#sendFreeAt - world.now, () => {
      // A server works through what it has received, also when the connection is broken by then.
      if (!session.isOpen && !world.random.chance(0.5)) return;
      if (fate === 'crash-before') return crash();
      if (fate === 'cut-before') return database.end(session);
      if (fate === 'half-open') return database.end(session, false);
      const answer = fate === 'refused' ? new CapstanError('UNAVAILABLE', 'the server could not write') : database.commit(batch);
      if (fate === 'crash-after') return crash();
      if (fate === 'cut-after') return database.end(session);
      if (fate === 'copied') world.after(world.random.int(0, 4_000), () => void database.commit(batch));
      if (this.#session === session && this.#isMute) return undefined;
      return this.#answer(session, pending, answer);
    });
  }

  #fateOf({ ops }: SentBatch): Fate {
    const { world, faults } = this.#options;
    const { crash, cut, mute, copy, refusal } = faults();
    let left = world.random.next();
    // A renewal is as likely to meet a fault in ten minutes as a batch of jobs in one.
    const scale = ops.length === 0 ? 10 : 1;
    const fates: readonly [number, Fate][] = [
      [crash / 2, 'crash-before'],
      [crash / 2, 'crash-after'],
      [cut / 2, 'cut-before'],
      [cut / 2, 'cut-after'],
      [mute / 2, 'mute'],
      [mute / 2, 'late'],
      [mute, 'half-open'],
      [copy, 'copied'],
      [refusal, 'refused'],
    ];
    for (const [chance, fate] of fates) {
      if (left * scale < chance) return fate;
      left -= chance / scale;
    }
    return 'arrives';
  }

  #answer(session: Session, pending: Pending, answer: Outcome[] | Error): void {
    const { world, later } = this.#options;
    this.#answerFreeAt = Math.max(this.#answerFreeAt, world.now) + 0.05 + world.random.next();
    later(this.#answerFreeAt - world.now, () => {
      const at = this.#open.indexOf(pending);
      if (at === -1 || this.#session !== session) return;
      if (answer instanceof StaleTermError) {
        this.#drop(pending.fence);
        return;
      }
      if (answer instanceof Error) {
        this.#lose(answer as CapstanError);
        return;
      }
      this.#open.splice(at, 1);
      this.confirmedSentAt = Math.max(this.confirmedSentAt, pending.sentAt);
      this.#know({ term: Number(pending.fence.term), batch: pending.number });
      pending.completion.done(answer);
      this.#settled();
    });
  }

  /** Another process has the cell. */
  #drop(fence: Fence): void {
    this.#owned = null;
    this.#end(new StaleTermError(fence));
    this.#options.later(0, () => this.#options.hint(fence.term));
  }

  /** Nobody knows which of the open batches are written: every batch is refused until the cell is taken anew. */
  #lose(reason: CapstanError): void {
    const { mutation, later, hint } = this.#options;
    const owned = this.#owned;
    if (mutation === 'settle-by-marker' && owned !== null) {
      this.#settleByMarker(owned);
      return;
    }
    this.#doubt = reason;
    this.#owned = null;
    this.#end(reason);
    if (owned === null) return;
    later(0, () => hint(BigInt(owned.term)));
    if (mutation === 'keep-term') this.#goOn(owned);
  }

  #end(reason: Error): void {
    const { world, database, later } = this.#options;
    const session = this.#session;
    this.#session = null;
    // The network may be what is broken: then the server hears of it much later.
    const tellMs = world.random.chance(0.3) ? KEEPALIVE_MS : 1;
    if (session !== null) world.after(tellMs, () => database.end(session));
    for (const { completion } of this.#open.splice(0)) later(0, () => completion.failed(reason));
    later(0, () => this.#settled());
  }

  #settled(): void {
    if (this.#open.length === 0) for (const run of this.#afterOpen.splice(0)) run();
  }

  #whenSettled(run: () => void): void {
    if (this.#open.length === 0) run();
    else this.#afterOpen.push(run);
  }

  /** A fault: what the marker says was written is taken to have gone well, and the owner goes on. */
  #settleByMarker(owned: { readonly term: number }): void {
    const { mark } = this.#options.database;
    const written = this.#open.filter(({ fence, number }) => fence.term === BigInt(mark.term) && number <= mark.batch);
    this.#open = this.#open.filter((pending) => !written.includes(pending));
    this.#end(new CapstanError('UNAVAILABLE', 'the marker says that it was not written'));
    this.#goOn(owned);
    for (const { completion } of written) {
      this.confirmedSentAt = this.#options.world.now;
      completion.done([]);
    }
  }

  /** A fault: the owner goes on in its term, from where the database is now. */
  #goOn({ term }: { readonly term: number }): void {
    this.#doubt = null;
    this.#connected();
    this.#owned = { term, batch: this.#options.database.mark.batch };
  }

  /** An owner without an engine, which reads its state, renews its term. */
  #renewLater(): void {
    const { later, world } = this.#options;
    later(RENEW_MS, () => {
      if (this.#owned !== null && this.#open.length === 0 && world.now - this.#sentAt >= RENEW_MS)
        this.commit({ cell: 0, term: BigInt(this.#owned.term) }, [], { done: () => undefined, failed: () => undefined });
      this.#renewLater();
    });
  }
}
