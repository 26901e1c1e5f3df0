/**
 * Exports the audit log of a cell, in order and each entry at least once. Only the owner of the cell does: it alone can record up to
 * where it came, with the cell itself.
 *
 *   committed entry ──▶ entries after the position, up to a time before which all are committed ──▶ receiver ──▶ position recorded
 *
 * Nothing waits here but entries of one batch: the log itself is the queue, and a receiver that is away holds up nothing else. After
 * a take-over or a restart the entries of {@link OVERLAP_MS} before the position are sent again: clocks of hosts differ.
 */
import { CapstanError } from '../../lib/errors.ts';
import type { Write } from '../core/effects.ts';
import type { Command } from '../core/events.ts';
import type { Now } from '../core/now.ts';
import type { AuditPosition, AuditRow } from '../core/ports/store.ts';
import type { State } from '../core/state.ts';
import { timeOf } from './audit-record.ts';

/** `isRefused`: the receiver would not take this batch another time, either. */
export type SendOutcome = { readonly kind: 'sent' } | { readonly kind: 'failed'; readonly reason: string; readonly isRefused: boolean };

export interface AuditSender {
  send(rows: readonly AuditRow[]): Promise<SendOutcome>;
  close(): void;
}

export interface AuditExportOptions {
  /** Null unless this scheduler owns the queue. */
  readonly state: () => State | null;
  readonly command: (command: Command) => Promise<unknown>;
  /** Entries after a position and before a time, oldest first. */
  readonly entries: (after: AuditPosition, until: number, limit: number) => Promise<readonly AuditRow[]>;
  readonly now: () => Now;
  readonly sender: AuditSender;
  /** Host and port, for log lines. */
  readonly receiver: string;
  readonly log: { info(fields: object, message: string): void; warn(fields: object, message: string): void };
}

/** Interval at which the log is looked at, ms. */
const LOOK_MS = 1_000;
/** Entries of a batch: one has some 9 KiB at most. */
const BATCH = 100;
const OVERLAP_MS = 60_000;
/** First and longest pause after a batch that was not sent, ms. */
const MIN_PAUSE_MS = 1_000;
const MAX_PAUSE_MS = 60_000;

export class AuditExport {
  readonly #options: AuditExportOptions;
  #state: State | null = null;
  #position: AuditPosition = { at: 0, id: '' };
  /** When the last entries were committed, and the time before which all were read: wall clock ms. */
  #newsAt = 0;
  #readUntil = 0;
  #batch = BATCH;
  /** Batches in a row that were not sent. */
  #failures = 0;
  #pausedUntil = 0;
  #failing = false;
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> | null = null;
  #isClosed = false;

  constructor(options: AuditExportOptions) {
    this.#options = options;
  }

  start(): void {
    this.#timer = setInterval(() => this.look(), LOOK_MS);
    this.#timer.unref();
  }

  /** What is not sent by then is sent by the next owner. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    this.#options.sender.close();
    await this.#looking;
  }

  /** Notes whether entries were written. */
  committed(writes: readonly Write[]): void {
    if (writes.some(({ op }) => op.kind === 'put' && op.rowKind === 'audit')) this.#newsAt = this.#options.now().wall;
  }

  look(): void {
    this.#looking ??= this.#look().finally(() => (this.#looking = null));
  }

  async #look(): Promise<void> {
    const state = this.#options.state();
    if (state === null || this.#options.now().mono < this.#pausedUntil) return;
    try {
      if (state !== this.#state) await this.#begin(state);
      if (this.#newsAt >= this.#readUntil) await this.#sendAll(state);
    } catch (error) {
      // Another scheduler owns the queue by now, or it is being taken over.
      if (this.#isClosed || this.#options.state() !== state || (error instanceof CapstanError && error.code === 'UNAVAILABLE')) return;
      this.#failed('the log could not be read', error);
    }
  }

  async #begin(state: State): Promise<void> {
    const { wall } = this.#options.now();
    const known = state.auditExport;
    if (known === null) {
      // Entries may have come since the take-over.
      this.#position = { at: wall - OVERLAP_MS, id: '' };
      await this.#note();
    } else {
      // A clock that was set back: what is written now is before the position.
      this.#position = { at: Math.min(known.at, wall) - OVERLAP_MS, id: '' };
    }
    this.#newsAt = wall;
    this.#readUntil = 0;
    this.#state = state;
  }

  /** Sends what is there, until a batch is not sent. */
  async #sendAll(state: State): Promise<void> {
    const { now, command, entries, sender } = this.#options;
    const until = now().wall;
    // Its answer comes after the commit of what was decided before: no entry before this time is still to be written.
    await command({ kind: 'audit' });
    for (;;) {
      const rows = await entries(this.#position, until, this.#batch);
      const last = rows.at(-1);
      if (this.#isClosed || this.#options.state() !== state) return;
      if (last === undefined) break;
      const outcome = await sender.send(rows);
      if (this.#isClosed) return;
      if (outcome.kind === 'failed' && !this.#isGivenUp(outcome, last, rows.length)) return;
      this.#position = { at: timeOf(last), id: last.id };
      await this.#note();
      if (outcome.kind === 'sent') this.#succeeded();
    }
    this.#readUntil = until;
  }

  /**
   * Smaller batches find the entry that a receiver refuses. It is left out, or nothing after it would ever be sent; it stays in the log.
   */
  #isGivenUp({ reason, isRefused }: Extract<SendOutcome, { kind: 'failed' }>, { id }: AuditRow, size: number): boolean {
    if (isRefused && size === 1) {
      this.#options.log.warn(
        { receiver: this.#options.receiver, entry: id, reason },
        'an entry of the audit log was refused and is not exported',
      );
      return true;
    }
    if (isRefused) this.#batch = Math.ceil(size / 2);
    this.#failed(reason);
    return false;
  }

  #note(): Promise<unknown> {
    return this.#options.command({ kind: 'note-audit-export', position: this.#position });
  }

  #succeeded(): void {
    this.#batch = Math.min(BATCH, this.#batch * 2);
    this.#failures = 0;
    if (!this.#failing) return;
    this.#failing = false;
    this.#options.log.info({ receiver: this.#options.receiver }, 'the audit log is exported again');
  }

  /** Told once, until it works again. */
  #failed(reason: string, err?: unknown): void {
    this.#pausedUntil = this.#options.now().mono + Math.min(MAX_PAUSE_MS, MIN_PAUSE_MS * 2 ** Math.min(this.#failures++, 16));
    if (this.#failing) return;
    this.#failing = true;
    const facts = { receiver: this.#options.receiver, reason, ...(err === undefined ? {} : { err }) };
    this.#options.log.warn(facts, 'the audit log is not exported; its entries wait in the log until they are');
  }
}
