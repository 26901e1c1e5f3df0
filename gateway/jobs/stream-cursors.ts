/**
 * Positions of the readers of each job's stream. Chunks that arrived over the channel go to a reader, so the next read
 * can tell the scheduler to drop them; a read that is sent again carries the same position and gets the chunks of the
 * lost response. The number of cursors is bounded; a dropped cursor has no effect while the channel is connected.
 */
import type { JobReply, ReadStream, StreamCursor, StreamPart } from '../../proto/gen/capstan/v1/jobs.ts';

/** Jobs whose streams are remembered. */
const MAX_STREAMS = 10_000;

export class StreamCursors {
  /** Oldest first. */
  readonly #cursors = new Map<string, StreamCursor>();
  readonly #givenUp = new Set<string>();

  /** Returns the position of the job's readers; undefined when unknown. */
  of(jobId: string): StreamCursor | undefined {
    return this.#cursors.get(jobId);
  }

  /** A read of a stream carries the reader's position so far, unless its caller sent one. */
  place(read: ReadStream): void {
    if (read.exact) return;
    const after = this.of(read.jobId);
    if (this.isGivenUp(read.jobId)) {
      read.after = after ?? { token: 0, nextIndex: 0 };
      read.exact = true;
    } else if (after === undefined) delete read.after;
    else read.after = after;
  }

  /** Handles the reply to a read. */
  noteResult({ jobId, exact }: ReadStream, result: JobReply['result']): void {
    if (result?.$case === 'stream') this.note(jobId, result.value, exact);
    else if (result?.$case === 'failure') this.forget(jobId);
  }

  /** A read was abandoned: its response may be on its way and is dropped. The next read must say so. */
  giveUp(jobId: string): void {
    this.#givenUp.delete(jobId);
    this.#givenUp.add(jobId);
    dropOldest(this.#givenUp);
  }

  /** True when chunks may have been sent to an abandoned read since the last part. */
  isGivenUp(jobId: string): boolean {
    return this.#givenUp.has(jobId);
  }

  /**
   * Handles a part of the job's stream. `sent`: the read named its reader's position; false for one that was sent
   * before a read was abandoned.
   */
  note(jobId: string, part: StreamPart, sent = true): void {
    if (!sent && this.#givenUp.has(jobId)) return;
    this.#givenUp.delete(jobId);
    const cursor = cursorAfter(part);
    if (cursor === undefined) return;
    this.#cursors.delete(jobId);
    this.#cursors.set(jobId, cursor);
    dropOldest(this.#cursors);
  }

  /**
   * The response with this part was cut off; its reader's position was `before`. Unless someone has read further, the
   * part is returned again.
   */
  lost(jobId: string, part: StreamPart, before: StreamCursor | undefined): void {
    const now = this.#cursors.get(jobId);
    const sent = cursorAfter(part);
    if (now === undefined || now.token !== sent?.token || now.nextIndex !== sent.nextIndex) return;
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
  if (jobs.size <= MAX_STREAMS) return;
  for (const oldest of jobs.keys()) {
    jobs.delete(oldest);
    return;
  }
}

/** Returns the position of a reader that has this part; undefined when the part does not carry it. */
export function cursorAfter({ token, firstIndex, chunks }: StreamPart): StreamCursor | undefined {
  return token === undefined || firstIndex === undefined ? undefined : { token, nextIndex: firstIndex + chunks.length };
}
