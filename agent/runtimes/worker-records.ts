/** What is read of one worker, whoever reads it: the agent itself, or the reader of the worker's account. */
import type { FromHost } from './host-protocol.ts';

/**
 * A source of a worker's bytes: its channel, the keys of its entered tasks, how its container's host ended, its output on
 * pipes, and both streams of its output in the frames of a container engine.
 */
export type SourceRole = 'channel' | 'entries' | 'report' | 'stdout' | 'stderr' | 'engine';

export interface WorkerRecords {
  /** Whether the body of a frame is wanted, before it has arrived; absent: it is. */
  accepts?(frame: FromHost): boolean;
  /** A frame of its channel. `header`: the text of its header. */
  frame(frame: FromHost, body: Buffer, header: string): void;
  /** A line of its second channel (host-protocol.ts). */
  entry(line: string): void;
  /** Whole lines of its output, each with its line end. */
  lines(stream: 'stdout' | 'stderr', text: string): void;
  report(line: string): void;
  /** It sent what it must not send. Nothing more of it is read. */
  violation(why: string): void;
  /** A source is read to its end. */
  ended(role: SourceRole): void;
}
