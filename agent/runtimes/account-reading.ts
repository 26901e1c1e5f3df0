/** How the bytes of an account's workers are read, as the runtimes see it. */
import type { Socket } from 'node:net';

import type { ReadingShare } from './reading-shares.ts';
import type { SourceRole, WorkerRecords } from './worker-records.ts';

export interface AccountReading {
  /** What the account may use of the agent's loop. */
  readonly share: ReadingShare;
  /** Adds a worker to those that the account's reader reads. Throws when no reader can be started. */
  attach(listener: ReadListener): RemoteReading;
}

/** Receives what is read of a worker. */
export interface ReadListener extends WorkerRecords {
  /** The reader is gone, and with it what it had not sent. */
  lost(why: string): void;
}

/** The sources of one worker, read by the reader of its account. */
export interface RemoteReading {
  /**
   * Hands a socket over, which stays open here for writing. `stop` is called when it is its turn: Node passes one socket at a time. It
   * ends the reading of the socket here, and returns undefined if there is nothing to hand over any more.
   */
  pass(role: SourceRole, stop: () => Socket | undefined): void;
  /** Resolves when what the worker has written until now was read, as far as its account may be read, or the reader is gone. */
  catchUp(): Promise<void>;
  /** Passes bytes of a source on; `sent` is called once the reader can take more. */
  push(role: SourceRole, bytes: Buffer, sent?: () => void): void;
  /** Ends a source after what it has now. */
  end(role: SourceRole): void;
  /** The worker's processes are gone: what is left is read, whatever its account holds. */
  finish(): void;
  /** Reads nothing more of its channel. */
  stop(): void;
  /** All its sources have ended. */
  forget(): void;
}
