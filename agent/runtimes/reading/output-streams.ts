/** The output of a worker whose bytes are nothing else: a foreign worker, or a user's server. */
import type { Readable } from 'node:stream';

import type { OutputStream } from '../output-limiter.ts';
import { linesOf } from '../worker-output.ts';
import type { AccountReading } from '../account-reading.ts';
import { WorkerStreams, type ReadOptions } from './worker-streams.ts';
import type { SourceRole } from '../worker-records.ts';

export interface OutputListener {
  line(stream: OutputStream, text: string): void;
  /** As ReadListener. */
  lost(why: string): void;
}

export class OutputStreams {
  readonly #streams: WorkerStreams;
  /** The reader of the account ended while it read them. */
  isLost = false;

  constructor(listener: OutputListener, reading: AccountReading | undefined) {
    const nothing = (): void => undefined;
    this.#streams = new WorkerStreams(
      {
        frame: nothing,
        entry: nothing,
        report: nothing,
        violation: nothing,
        lines: (stream, text) => {
          for (const line of linesOf(text)) listener.line(stream, line);
        },
        ended: nothing,
        lost: (why) => {
          this.isLost = true;
          listener.lost(why);
        },
      },
      reading,
    );
  }

  /** As WorkerStreams. */
  read(role: SourceRole, source: Readable | undefined, options?: ReadOptions): void {
    if (source !== undefined) this.#streams.read(role, source, options);
  }

  ended(...roles: readonly SourceRole[]): Promise<void> {
    return this.#streams.ended(...roles);
  }

  finish(): void {
    this.#streams.finish();
  }
}
