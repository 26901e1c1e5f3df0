/**
 * Finds the scheduler that owns the queue and follows it.
 *
 *                  a scheduler serves
 *   searching ───────────────────────────▶ following ──no reply for a while──▶ doubting
 *      ▲                                     │   ▲  ◀──a message arrives──────────┤
 *      └──connection lost, or NOT_OWNER──────┘   └──another serves, higher term───┘
 *
 * All candidates are watched while it searches; while it doubts, all others are, and the connection stays: only the
 * higher term of another owner ends it, so a slow owner loses nothing. A single address is dialled without being watched.
 */
import type { ChannelCredentials, Metadata } from '@grpc/grpc-js';

import { backoffMs } from '../backoff.ts';
import { cellHealth, DEFAULT_CELL } from '../cells.ts';
import { messageOf } from '../to-error.ts';
import type { GuardLog } from '../stream-guard.ts';
import { fixedCandidate, namedCandidate, resolveCandidates, systemLookUp, type Candidate, type LookUp } from './addresses.ts';
import { Probe, type HealthReply } from './probe.ts';
import { termOf } from './term.ts';

export interface FinderLog extends GuardLog {
  warn(facts: object, message: string): void;
}

export interface OwnerFinderOptions {
  /** CAPSTAN_SCHEDULER. */
  readonly setting: string;
  readonly credentials: ChannelCredentials;
  readonly log: FinderLog;
  /** Whose owner is looked for; read at the start, and at each {@link OwnerFinder.turn}. */
  readonly cell: () => string;
  readonly lookUp?: LookUp;
}

const NOT_OWNER = 'it does not own the queue';

type Mode = 'searching' | 'following' | 'doubting' | 'closed';

/** How long the owner that a standby named is tried alone, and the others before one that refused calls, ms. */
const NAMED_FIRST_MS = 200;
/** Interval of resolving names anew while it searches, ms. */
const RESOLVE_MS = 1_000;
/** An owner that was followed for this long, ms, resets the backoff. */
const STEADY_MS = 1_000;

export class OwnerFinder {
  readonly #options: OwnerFinderOptions;
  readonly #fixed: Candidate | undefined;
  readonly #probes = new Map<string, Probe>();
  readonly #listeners = new Set<(owner: Candidate) => void>();
  readonly #cellSwitchListeners = new Set<() => void>();
  #candidates: readonly Candidate[] = [];
  #owner: Candidate | undefined;
  #mode: Mode = 'searching';
  /** The cell whose owner it looks for. */
  #cell: string | undefined;
  /** Highest term that any scheduler of the cell showed. */
  #term: bigint | undefined;
  #attempt = 0;
  /** The scheduler that was followed last: it is tried later than the others, and last if it refused calls. */
  #left: { readonly key: string; readonly behindMs: number } | undefined;
  #followedAt = 0;
  #round: NodeJS.Timeout | undefined;
  /** Reasons and failures that were logged since an owner was followed for a while. */
  readonly #said = new Set<string>();

  constructor(options: OwnerFinderOptions) {
    this.#options = options;
    this.#fixed = fixedCandidate(options.setting);
  }

  /** Starts the search. */
  start(): void {
    this.#cell = this.#options.cell();
    if (this.#fixed !== undefined) this.#follow(this.#fixed);
    else this.#resolve(undefined);
  }

  /**
   * Turns to the owner of another cell, if it is to look for one by now. The terms of two cells cannot be compared: those of
   * the first are forgotten, with everything that its schedulers could still say.
   */
  switchCell(): void {
    const cell = this.#options.cell();
    if (this.#mode === 'closed' || cell === this.#cell) return;
    this.#cell = cell;
    this.#owner = undefined;
    this.#left = undefined;
    for (const listener of [...this.#cellSwitchListeners]) listener();
    this.#term = undefined;
    if (this.#fixed !== undefined) this.#follow(this.#fixed);
    else this.#search(undefined, 'the node belongs to another cell');
  }

  /** Calls `listener` when the owner of another cell is looked for. Returns what ends that. */
  onCellSwitch(listener: () => void): () => void {
    this.#cellSwitchListeners.add(listener);
    return () => void this.#cellSwitchListeners.delete(listener);
  }

  get setting(): string {
    return this.#options.setting;
  }

  get credentials(): ChannelCredentials {
    return this.#options.credentials;
  }

  /** Service of a scheduler's health that says whether it owns the queue. */
  get service(): string {
    return cellHealth(this.#options.cell());
  }

  /** The highest term that any scheduler of the cell showed; undefined while none did. */
  get term(): bigint | undefined {
    return this.#term;
  }

  /** The scheduler to call; undefined while it searches. */
  get owner(): Candidate | undefined {
    return this.#owner;
  }

  /** There are other schedulers to turn to. */
  get hasRivals(): boolean {
    return this.#candidates.length > 1;
  }

  /** Calls `listener` with each owner that is found, also when it is the same one again. Returns what ends that. */
  onOwner(listener: (owner: Candidate) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Resolves once an owner is known. */
  async known(): Promise<void> {
    if (this.#owner !== undefined) return;
    await new Promise<void>((resolve) => {
      const stop = this.onOwner(() => {
        stop();
        resolve();
      });
    });
  }

  /**
   * Notes the term in a response. Returns false when it is lower than one seen before: the scheduler lost the queue
   * without having noticed, and nothing it says may be used.
   */
  accepts(metadata: Metadata | undefined): boolean {
    const term = termOf(metadata);
    if (term === undefined) return true;
    if (this.#term !== undefined && term < this.#term) return false;
    this.#term = term;
    return true;
  }

  /** True when responses of owners carry a term, and this one does not. */
  lacksTerm(metadata: Metadata | undefined): boolean {
    return this.#term !== undefined && termOf(metadata) === undefined;
  }

  /** The connection to this scheduler broke or cannot be opened. */
  lost(candidate: Candidate): void {
    // A fixed address is dialled again by the connection itself.
    if (this.#fixed === undefined && this.#isFollowed(candidate)) this.#search(undefined, 'the connection is lost');
  }

  /** This scheduler does not own the queue. `named`: the owner, as it says. */
  refused(candidate: Candidate, named: string | undefined): void {
    if (!this.#isFollowed(candidate)) return;
    const next = named === undefined ? undefined : namedCandidate(named, this.#candidates);
    this.#search(next?.key === candidate.key ? undefined : next, NOT_OWNER);
  }

  /** This scheduler does not reply. */
  silent(candidate: Candidate): void {
    if (this.#mode !== 'following' || !this.#isFollowed(candidate) || !this.hasRivals) return;
    this.#mode = 'doubting';
    this.#options.log.warn({ scheduler: candidate.key }, 'the scheduler does not reply; looking for another owner');
    this.#resolve(undefined);
  }

  /** This scheduler sent something. */
  noteMessage(candidate: Candidate): void {
    if (this.#mode !== 'doubting' || !this.#isFollowed(candidate)) return;
    this.#mode = 'following';
    this.#endProbes();
  }

  close(): void {
    this.#mode = 'closed';
    this.#owner = undefined;
    this.#listeners.clear();
    this.#cellSwitchListeners.clear();
    this.#endProbes();
  }

  #isFollowed(candidate: Candidate): boolean {
    return this.#owner?.key === candidate.key;
  }

  #search(first: Candidate | undefined, reason: string): void {
    if (performance.now() - this.#followedAt >= STEADY_MS) {
      this.#attempt = 0;
      this.#said.clear();
    }
    if (!this.#said.has(reason))
      this.#options.log.warn({ cell: this.#cell, scheduler: this.#owner?.key, reason }, 'looking for the scheduler that owns the queue');
    this.#said.add(reason);
    if (this.#owner !== undefined) this.#left = { key: this.#owner.key, behindMs: reason === NOT_OWNER ? NAMED_FIRST_MS : 0 };
    this.#owner = undefined;
    this.#mode = 'searching';
    this.#endProbes();
    this.#resolve(first);
    this.#attempt += 1;
  }

  /** Resolves the names, and again at an interval until an owner is found. */
  #resolve(first: Candidate | undefined): void {
    clearTimeout(this.#round);
    this.#round = setTimeout(() => this.#resolve(undefined), RESOLVE_MS / 2 + (RESOLVE_MS / 2) * Math.random());
    resolveCandidates(this.#options.setting, this.#options.lookUp ?? systemLookUp).then(
      (candidates) => this.#watch(candidates, first),
      (error: unknown) => this.#note('name', messageOf(error)),
    );
  }

  #watch(candidates: readonly Candidate[], first: Candidate | undefined): void {
    if (this.#mode !== 'searching' && this.#mode !== 'doubting') return;
    this.#candidates = candidates;
    for (const [key, probe] of this.#probes) {
      if (candidates.some((candidate) => candidate.key === key)) continue;
      probe.close();
      this.#probes.delete(key);
    }
    // A scheduler that was left a moment ago, or refused the calls, must not be tried in a tight loop.
    const patience = this.#attempt === 0 ? 0 : backoffMs(this.#attempt - 1);
    const [only, ...others] = candidates;
    if (only !== undefined && others.length === 0) {
      // The next connection may lead to another scheduler: the address may be that of a load balancer.
      if (this.#mode === 'searching') this.#dialLater(only, patience);
      return;
    }
    for (const candidate of candidates) {
      if (this.#probes.has(candidate.key) || candidate.key === this.#owner?.key) continue;
      this.#probes.set(candidate.key, this.#probe(candidate, this.#delayOf(candidate, { first, patience })));
    }
  }

  /** One that serves and refuses all the same would otherwise be found first again and again. */
  #delayOf({ key }: Candidate, { first, patience }: { readonly first: Candidate | undefined; readonly patience: number }): number {
    if (key === first?.key) return 0;
    const isLeft = key === this.#left?.key;
    return (isLeft ? patience : 0) + Math.max(isLeft ? (this.#left?.behindMs ?? 0) : 0, first === undefined ? 0 : NAMED_FIRST_MS);
  }

  #dialLater(candidate: Candidate, delayMs: number): void {
    clearTimeout(this.#round);
    this.#round = setTimeout(() => this.#follow(candidate), delayMs);
  }

  #probe(candidate: Candidate, delayMs: number): Probe {
    const { credentials, log } = this.#options;
    return new Probe(candidate, {
      credentials,
      log,
      service: this.service,
      // Schedulers from before cells have accounts of the default cell only; after one with a term there are none.
      takesEarlier: () => this.#cell === DEFAULT_CELL && this.#term === undefined,
      delayMs,
      onServing: (reply) => this.#served(candidate, reply),
      onFailure: (reason) => this.#note(candidate.key, reason),
    });
  }

  #served(candidate: Candidate, { term }: HealthReply): boolean {
    const isNewer = term !== undefined && term > (this.#term ?? -1n);
    const isOlder = term !== undefined && this.#term !== undefined && term < this.#term;
    if (this.#mode === 'searching' ? isOlder : this.#mode !== 'doubting' || !isNewer) return false;
    if (term !== undefined) this.#term = term;
    this.#options.log.info(
      { scheduler: candidate.key, ...(term === undefined ? {} : { term: String(term) }) },
      'found the owner of the queue',
    );
    this.#follow(candidate);
    return true;
  }

  #follow(candidate: Candidate): void {
    this.#endProbes();
    this.#mode = 'following';
    this.#owner = candidate;
    this.#followedAt = performance.now();
    for (const listener of this.#listeners) listener(candidate);
  }

  #endProbes(): void {
    clearTimeout(this.#round);
    for (const probe of this.#probes.values()) probe.close();
    this.#probes.clear();
  }

  /** Logs a reason once until an owner was followed for a while: one that refuses calls may be found and left many times. */
  #note(scheduler: string, reason: string): void {
    const text = `${scheduler} ${reason.replace(/\(.*\)|\d{4}-\d\d-\d\dT[\d:.]+Z/g, '')}`;
    if (this.#said.has(text)) return;
    this.#said.add(text);
    this.#options.log.info({ cell: this.#cell, scheduler, reason }, 'no owner here');
  }
}
