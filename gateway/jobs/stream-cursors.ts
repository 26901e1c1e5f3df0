/**
 * How far the readers of each job's stream have got through this gateway. Chunks that came over the
 * channel go to a reader, so the next read can tell the scheduler to drop them; a read that is sent
 * again says the same as before, and gets what its lost answer held. Bounded; a cursor that fell
 * out costs nothing while the channel stands.
 */
import type { StreamCursor, StreamPart } from '../../proto/gen/capstan/v1/jobs.ts';

/** Jobs whose streams are remembered. */
const MOST_STREAMS = 10_000;

export class StreamCursors {
  /** Oldest first. */
  readonly #cursors = new Map<string, StreamCursor>();
  readonly #givenUp = new Set<string>();

  /** What readers of the job's stream have; undefined when that is not known. */
  of(jobId: string): StreamCursor | undefined {
    return this.#cursors.get(jobId);
  }

  /** A read was given up: its answer may be on its way, and nobody takes it. The next read has to say so. */
  giveUp(jobId: string): void {
    this.#givenUp.delete(jobId);
    this.#givenUp.add(jobId);
    dropOldest(this.#givenUp);
  }

  /** True when chunks may have been answered to nobody since the last part came. */
  isGivenUp(jobId: string): boolean {
    return this.#givenUp.has(jobId);
  }

  /** A part of the job's stream has come. `told`: the read said what its reader has; one asked before a read was given up did not. */
  note(jobId: string, part: StreamPart, told = true): void {
    if (!told && this.#givenUp.has(jobId)) return;
    this.#givenUp.delete(jobId);
    const cursor = cursorAfter(part);
    if (cursor === undefined) return;
    this.#cursors.delete(jobId);
    this.#cursors.set(jobId, cursor);
    dropOldest(this.#cursors);
  }

  /** The answer with this part broke off on its way to its reader, who had what `before` says: unless someone read on, it is to come again. */
  lost(jobId: string, part: StreamPart, before: StreamCursor | undefined): void {
    const now = this.#cursors.get(jobId);
    const told = cursorAfter(part);
    if (now === undefined || now.token !== told?.token || now.nextIndex !== told.nextIndex) return;
    if (before === undefined) this.#cursors.delete(jobId);
    else this.#cursors.set(jobId, before);
    this.giveUp(jobId);
  }

  /** There is no such job any more. */
  forget(jobId: string): void {
    this.#cursors.delete(jobId);
    this.#givenUp.delete(jobId);
  }
}

function dropOldest(jobs: Map<string, unknown> | Set<string>): void {
  if (jobs.size <= MOST_STREAMS) return;
  for (const oldest of jobs.keys()) {
    jobs.delete(oldest);
    return;
  }
}

/** Where a reader stands that has this part; undefined when the part does not tell its place. */
export function cursorAfter({ token, firstIndex, chunks }: StreamPart): StreamCursor | undefined {
  return token === undefined || firstIndex === undefined ? undefined : { token, nextIndex: firstIndex + chunks.length };
}
