/**
 * The chunks of one attempt that the caller has not read yet, kept so that a new session can send them again.
 *
 * A generator runs ahead of the agent by its credits only. The log keeps at most {@link KEPT_CHUNKS} chunks or {@link
 * KEPT_BYTES} bytes. When it is full:
 *  - while a reader is present (it drained something within {@link READER_LAPSE_MS}) or the session is down, credits
 *    are withheld and the generator waits;
 *  - while nobody reads, the generator continues, and the oldest chunks already sent are dropped here. They remain in
 *    the job's final output and in the scheduler's memory; only a scheduler that restarts during the job lacks them. A
 *    stream without a reader never blocks its job.
 */
import { invariant } from '../../lib/invariant.ts';
import type { Payload } from '../../lib/payload.ts';

/** Most chunks kept for sending again. */
export const KEPT_CHUNKS = 1_000;
/** Most bytes of chunks kept for sending again. */
const KEPT_BYTES = 8 * 1024 * 1024;
/** A reader that drained nothing for this long, ms, counts as absent. */
export const READER_LAPSE_MS = 15_000;

interface KeptChunk {
  /** Absent while a large chunk is being written to the blob store. */
  data: Payload | undefined;
  readonly bytes: number;
}

export interface ChunkLog {
  /** Index of the first kept chunk. */
  first: number;
  kept: KeptChunk[];
  bytes: number;
  /** Index of the next chunk to send in this session. */
  next: number;
  /** Number of chunks produced. */
  total: number;
  /** When the reader last drained, monotonic ms; absent without a reader. */
  drainedAt: number | undefined;
  /** Credits withheld from the generator. */
  owed: number;
}

export function newChunkLog(): ChunkLog {
  return { first: 0, kept: [], bytes: 0, next: 0, total: 0, drainedAt: undefined, owed: 0 };
}

/** Adds a chunk, whose payload may come later ({@link setStored}); returns its index. */
export function append(log: ChunkLog, data: Payload | undefined, bytes: number): number {
  log.kept.push({ data, bytes });
  log.bytes += bytes;
  log.owed += 1;
  return log.total++;
}

export function setStored(log: ChunkLog, index: number, data: Payload): void {
  const chunk = log.kept[index - log.first];
  // It was dropped while it was stored: nobody read the stream.
  if (chunk !== undefined) chunk.data = data;
}

/** True while a chunk waits for the blob store; the attempt's end waits with it. */
export function isStoring(log: ChunkLog): boolean {
  return log.kept.some((chunk) => chunk.data === undefined);
}

/** Returns the chunks that may be sent now, in order and without a gap, and marks them as sent. */
export function takeUnsent(log: ChunkLog): { readonly index: number; readonly data: Payload }[] {
  const out = [];
  for (;;) {
    const data = log.kept[log.next - log.first]?.data;
    if (data === undefined) return out;
    out.push({ index: log.next, data });
    log.next += 1;
  }
}

/** Marks all kept chunks as unsent, for a new session. */
export function rewind(log: ChunkLog): void {
  log.next = log.first;
}

/** The caller has read every chunk below `nextIndex`. */
export function drain(log: ChunkLog, nextIndex: number, now: number): void {
  const last = Math.min(nextIndex, log.total);
  if (last <= log.first) return;
  dropBefore(log, last);
  log.next = Math.max(log.next, log.first);
  log.drainedAt = now;
}

/** What else decides about credits. */
export interface Conditions {
  /** Chunks leave for the scheduler now. */
  readonly flows: boolean;
  /** The attempts of the account together hold what it may. */
  readonly isCrowded: boolean;
}

/**
 * Returns the credits to grant now: all that are owed, unless the log is full and the generator must wait. Drops chunks
 * that nobody reads. Where the account is crowded, a log that holds anything is full.
 */
export function grantCredits(log: ChunkLog, { flows, isCrowded }: Conditions, now: number): number {
  const isFull = (): boolean => log.kept.length > KEPT_CHUNKS || log.bytes > (isCrowded ? 0 : KEPT_BYTES);
  if (log.drainedAt !== undefined && now >= log.drainedAt + READER_LAPSE_MS) log.drainedAt = undefined;
  if (isFull()) {
    const hasReader = log.drainedAt !== undefined;
    if (!flows || hasReader) return 0;
    while (isFull() && log.first < log.next) dropBefore(log, log.first + 1);
    if (isFull()) return 0;
  }
  const credits = log.owed;
  log.owed = 0;
  return credits;
}

/** When withheld credits must be checked again, monotonic ms. */
export function nextGrantAt(log: ChunkLog): number | undefined {
  return log.owed > 0 && log.drainedAt !== undefined ? log.drainedAt + READER_LAPSE_MS : undefined;
}

function dropBefore(log: ChunkLog, index: number): void {
  const gone = log.kept.splice(0, index - log.first);
  for (const chunk of gone) log.bytes -= chunk.bytes;
  invariant(gone.length === index - log.first, 'only kept chunks are dropped', { first: log.first, index });
  invariant(log.bytes >= 0, 'chunks that are dropped were counted', { bytes: log.bytes });
  log.first = index;
}
