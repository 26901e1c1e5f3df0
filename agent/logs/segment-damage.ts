/** What a search says about a segment that is damaged: a line among the others, where the missing ones would be. */
import type { LogLine } from '../../proto/gen/capstan/v1/nodes.ts';
import type { LogFilter } from './filter.ts';
import type { SegmentIndex } from './segment-index.ts';

export interface DamagedSegment {
  readonly path: string;
  readonly reason: string;
}

/** Follows how much of one segment can be read. */
export class SegmentReading {
  /** Lines that were changed or destroyed. */
  damagedLines = 0;
  /** Why the segment cannot be read to its end. */
  failure: string | null = null;
  /** Time of the last line that was read, µs. */
  lastUs: number | undefined;
  readonly #path: string;
  readonly #index: SegmentIndex | undefined;

  constructor(path: string, index: SegmentIndex | undefined) {
    this.#path = path;
    this.#index = index;
  }

  get damage(): DamagedSegment | undefined {
    if (this.failure !== null) return { path: this.#path, reason: this.failure };
    return this.damagedLines === 0 ? undefined : { path: this.#path, reason: `${this.damagedLines} lines are damaged` };
  }

  /**
   * Returns the line that stands for what is missing. Its place is behind what was read of the segment in the direction of
   * the search and within its bounds, so that the next page goes on behind it.
   */
  notice(endpointId: string, { after, before }: LogFilter, oldestFirst: boolean): LogLine {
    const name = this.#path.slice(this.#path.lastIndexOf('/') + 1);
    const step = oldestFirst ? 1 : -1;
    const named = Number.parseInt(name, 10) || 0;
    const place = this.lastUs === undefined ? ((oldestFirst ? this.#index?.lastUs : this.#index?.firstUs) ?? named) : this.lastUs + step;
    const us = oldestFirst ? Math.min(place, (before?.us ?? Infinity) - 1) : Math.max(place, (after?.us ?? -Infinity) + 1);
    const text =
      this.failure === null
        ? `(${this.damagedLines} or more lines are missing: they are damaged in the log segment ${name})`
        : `(${this.#lines()} missing: the log segment ${name} is damaged)`;
    return {
      ...{ atUs: BigInt(us), atMs: BigInt(Math.trunc(us / 1_000)), workerId: '', releaseId: '', jobId: '', attempt: 0 },
      ...{ stream: 'system', level: 'warn', text, fields: '', endpointId },
    };
  }

  #lines(): string {
    if (this.#index === undefined) return 'lines are';
    const { lines, firstUs, lastUs } = this.#index;
    return `${lines} lines from ${timeOf(firstUs)} to ${timeOf(lastUs)} are`;
  }
}

function timeOf(us: number): string {
  return new Date(us / 1_000).toISOString();
}
