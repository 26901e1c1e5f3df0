/**
 * What the readers of streams in the simulated world got, and what holds of it: every chunk of an
 * attempt once and in order, whatever breaks between scheduler and gateway; a new attempt's stream
 * from its first chunk on; never a gap. Where the gateway itself died, and for callers that say
 * themselves what they have, chunks may come again.
 */
import type { SimBlobs } from './blobs.ts';
import type { StreamCursor, StreamPart } from '../../proto/gen/capstan/v1/jobs.ts';

interface Place {
  readonly token: number;
  readonly index: number;
  /** Of the gateway. */
  readonly life: number;
}

export class Streams {
  readonly #read = new Map<string, Place>();
  /** Chunks that an attempt made: `<job> <token>` → count. */
  readonly #made = new Map<string, number>();
  readonly #blobs: SimBlobs;
  #life = 1;
  /** Chunks read. */
  count = 0;

  constructor(blobs: SimBlobs) {
    this.#blobs = blobs;
  }

  /** An attempt is over, with so many chunks. */
  ended(job: string, token: number, chunks: number): void {
    this.#made.set(`${job} ${token}`, chunks);
  }

  gatewayDied(): void {
    this.#life++;
  }

  /** The place of a caller that has everything read so far. */
  cursorOf(job: string): StreamCursor | undefined {
    const last = this.#read.get(job);
    return last === undefined ? undefined : { token: last.token, nextIndex: last.index + 1 };
  }

  /** A part of a job's stream reached its reader. */
  read(job: string, part: StreamPart, mayRepeat: boolean): void {
    for (const chunk of part.chunks) {
      const [token = 0, index = 0] = this.#blobs.textOf(chunk).split(' ').map(Number);
      const last = this.#read.get(job);
      const place = { token, index, life: this.#life };
      this.#read.set(job, mayRepeat && last !== undefined && isBefore(place, last) ? last : place);
      this.count++;
      if (last === undefined || token > last.token) {
        if (index !== 0) fail(`job ${job}: the stream of attempt ${token} began with chunk ${index}`);
      } else if (token < last.token) {
        fail(`job ${job}: a chunk of attempt ${token} came after one of ${last.token}`);
      } else if (index > last.index + 1) {
        fail(`job ${job}: chunk ${index} came after chunk ${last.index}`);
      } else if (index <= last.index && !mayRepeat && last.life === this.#life) {
        fail(`job ${job}: chunk ${index} came again after chunk ${last.index}`);
      }
    }
  }

  /** How many chunks an attempt that is over had. */
  made(job: string, token: number): number {
    return this.#made.get(`${job} ${token}`) ?? 0;
  }

  /** The whole stream of the attempt that completed a job has been read. */
  readToItsEnd(job: string, token: number): void {
    const made = this.made(job, token);
    const last = this.#read.get(job);
    const read = last?.token === token ? last.index + 1 : 0;
    if (read !== made) fail(`job ${job}: ${read} of the ${made} chunks of attempt ${token} were read`);
  }
}

function isBefore(one: Place, other: Place): boolean {
  return one.token === other.token && one.index < other.index;
}

function fail(what: string): never {
  throw new Error(`invariant broken: ${what}`);
}
