/**
 * The model of a PostgreSQL that several schedulers share: the row of the one cell, the owner's lock, which goes with
 * its session, and the queue itself, which is a real SQLite engine. What the SQL of the driver does in one statement
 * happens here at once; the statements themselves are for the tests on real servers.
 *
 * Beside its own rules it checks, as an observer, what they are there for.
 */
import { CapstanError } from '../../lib/errors.ts';
import { SqliteEngine } from '../../scheduler/store/sqlite/engine.ts';
import { StaleTermError, type Fence, type Op, type Outcome } from '../../scheduler/core/ports/store.ts';
import type { Mutation } from './mutations.ts';
import type { World } from './world.ts';

/** A term and the number of the last batch. */
export interface Mark {
  readonly term: number;
  readonly batch: number;
}

/** A connection as the server sees it. */
export interface Session {
  isOpen: boolean;
  /** The server, or the network, has ended it. */
  readonly ended: () => void;
}

export interface Claim {
  readonly owner: string;
  /** Version of the schema that the program knows. */
  readonly version: number;
  /** What the database acknowledged or showed to this process. */
  readonly known: Mark;
  /** What it has seen unchanged for long enough; null if nothing. */
  readonly unchanged: Mark | null;
}

export type Taken = (Mark & { readonly kind: 'taken' }) | (Mark & { readonly kind: 'held'; readonly owner: string }) | CapstanError;

export interface SentBatch {
  /** Counts the states that its sender has read from the database. */
  readonly life: number;
  readonly term: number;
  readonly number: number;
  readonly ops: readonly Op[];
}

interface Written {
  readonly at: number;
  readonly mark: Mark;
  readonly ops: readonly Op[];
}

export interface DatabaseOptions {
  readonly world: World;
  readonly mutation: Mutation | null;
  /** Every operation and its outcome, as they were written. */
  readonly observe: (op: Op, outcome: Outcome) => void;
  /** Keeps what was written, for {@link SimDatabase.failOver}. */
  readonly hasReplica: boolean;
}

/** How long a standby waits from the release of the lock until it has it, ms. */
const LOCK_GRANT_MS = 5;

export class SimDatabase {
  readonly #options: DatabaseOptions;
  #queue: SqliteEngine;
  #fence: Fence;
  #mark: Mark = { term: 0, batch: 0 };
  #owner = 'nobody';
  #schema = 1;
  #lockedBy: Session | null = null;
  readonly #sessions = new Set<Session>();
  #waiting: (() => void)[] = [];
  #written: Written[] = [];
  /** The highest term that was taken over because its owner was silent, which that owner may not know. */
  #silenced = 0;
  #isBehind = false;
  /** Who read the state last. */
  #reader = { term: 0, life: 0 };
  readonly counts = { terms: 0, bySilence: 0, refused: 0, failovers: 0 };

  constructor(options: DatabaseOptions) {
    this.#options = options;
    this.#queue = this.#emptyQueue();
    this.#fence = { cell: 0, term: this.#queue.acquire(0, 'the model', 0).term };
  }

  get queue(): SqliteEngine {
    return this.#queue;
  }

  get mark(): Mark {
    return this.#mark;
  }

  get schema(): number {
    return this.#schema;
  }

  /** Whether this term was taken over from its owner while that one was silent. */
  isSilenced(term: number): boolean {
    return term < this.#silenced;
  }

  /** Its owner's batches that were acknowledged are not all there. */
  get isBehind(): boolean {
    return this.#isBehind;
  }

  connect(ended: () => void): Session {
    const session = { isOpen: true, ended };
    this.#sessions.add(session);
    return session;
  }

  /** The server learns that a session has ended, or ends it; the other side may not hear of that. */
  end(session: Session, isTold = true): void {
    if (!session.isOpen) return;
    session.isOpen = false;
    this.#sessions.delete(session);
    this.release(session);
    if (isTold) session.ended();
  }

  /** The owner of this term begins to read the state. */
  readAnew(term: number, life: number): void {
    this.#reader = { term, life };
  }

  /** Gives the lock up: who waits for it learns that at once. */
  release(session: Session): void {
    if (this.#lockedBy !== session) return;
    this.#lockedBy = null;
    for (const wake of this.#waiting.splice(0)) this.#options.world.after(this.#options.world.random.next() * LOCK_GRANT_MS, wake);
  }

  /** Called once, when the lock is free. */
  onFree(wake: () => void): void {
    this.#waiting.push(wake);
  }

  /** The one function that writes: it refuses a batch of another term, and one out of turn. */
  commit(batch: SentBatch): Outcome[] | Error {
    const { term, number } = batch;
    const { mutation } = this.#options;
    const isStale = term !== this.#mark.term && mutation !== 'fence-by-count';
    const isOutOfTurn =
      mutation === 'no-chain' || mutation === 'fence-by-count'
        ? false
        : mutation === 'take-copies'
          ? number > this.#mark.batch + 1
          : number !== this.#mark.batch + 1;
    if (isStale || isOutOfTurn) {
      this.counts.refused++;
      return new StaleTermError({ cell: 0, term: BigInt(term) });
    }
    return this.#write(batch);
  }

  /** Takes the cell under the next term, or says who has it. */
  take(session: Session, { owner, version, known, unchanged }: Claim): Taken {
    const { world, mutation } = this.#options;
    const { term, batch } = this.#mark;
    // An older program stays a standby of a newer one.
    if (version < this.#schema && mutation !== 'older-owner') return { kind: 'held', owner: this.#owner, term, batch };
    const isFree = this.#lockedBy === null || this.#lockedBy === session;
    const isUnchanged = unchanged?.term === term && unchanged.batch === batch;
    if (!isFree && !isUnchanged) return { kind: 'held', owner: this.#owner, term, batch };
    if ((term < known.term || batch < known.batch) && mutation !== 'trust-replica')
      return new CapstanError('DATA_LOST', `the database is at batch ${batch}, ${known.batch} was acknowledged`);
    if (version < this.#schema) fail(`a scheduler of version ${version} owns a schema of version ${this.#schema}`);
    if (this.#isBehind) fail('the queue was taken over from a database that lacks acknowledged batches');
    this.#schema = version;
    this.#mark = { term: Math.max(term + 1, Math.floor(world.clock().wall / 1_000)), batch };
    this.#owner = owner;
    this.counts.terms++;
    if (!isFree) {
      this.counts.bySilence++;
      this.#silenced = this.#mark.term;
      const holder = this.#lockedBy;
      // A host that is lost or cut off does not hear of it.
      if (holder !== null) this.end(holder, world.random.chance(0.5));
    }
    this.#lockedBy = session;
    world.trace(`term ${this.#mark.term} is ${owner}'s, ${isFree ? 'by the lock' : 'by silence'}`);
    return { kind: 'taken', ...this.#mark };
  }

  /** The server is lost, and another goes on with what it has: the state of that time. */
  failOver(at: number): void {
    const { world } = this.#options;
    const kept = this.#written.filter((batch) => batch.at <= at);
    const last = kept.at(-1)?.mark ?? { term: 0, batch: 0 };
    world.trace(`failover: batch ${last.batch} of ${this.#mark.batch}`);
    this.counts.failovers++;
    this.#isBehind = last.batch < this.#mark.batch;
    for (const session of this.#sessions) this.end(session);
    if (!this.#isBehind) return;
    this.#queue.close();
    this.#queue = this.#emptyQueue();
    this.#fence = { cell: 0, term: this.#queue.acquire(0, 'the model', 0).term };
    for (const { ops } of kept) this.#queue.commit(this.#fence, ops);
    this.#written = kept;
    this.#mark = last;
  }

  close(): void {
    this.#queue.close();
  }

  #write({ life, term, number, ops }: SentBatch): Outcome[] {
    const { world, observe, hasReplica } = this.#options;
    if (term !== this.#mark.term) fail(`a batch of term ${term} was written in term ${this.#mark.term}`);
    if (this.#isBehind) fail(`batch ${number} was written to a database that lacks acknowledged batches`);
    if (number <= this.#mark.batch) fail(`batch ${number} of term ${term} was written twice`);
    if (number > this.#mark.batch + 1) fail(`batch ${number} of term ${term} was written, the one before it was not`);
    if (term === this.#reader.term && life < this.#reader.life) fail(`batch ${number} was written after its owner had read the state anew`);
    const outcomes = this.#queue.commit(this.#fence, ops);
    this.#mark = { term, batch: number };
    if (hasReplica) this.#written.push({ at: world.now, mark: this.#mark, ops });
    for (const [i, op] of ops.entries()) observe(op, outcomes[i] as Outcome);
    return outcomes;
  }

  #emptyQueue(): SqliteEngine {
    return new SqliteEngine({ file: ':memory:', now: () => this.#options.world.clock().wall });
  }
}

function fail(what: string): never {
  throw new Error(`invariant broken: ${what}`);
}
