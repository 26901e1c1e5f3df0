/** What a segment holds, so that a search skips those without a matching line. Stored beside it. */
import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';

import { LOG_LEVELS } from '../../lib/log-filter.ts';
import type { LogLine } from '../../proto/gen/capstan/v1/nodes.ts';
import type { LogFilter } from './filter.ts';

export interface SegmentIndex {
  /** Times of the first and the last line, µs. */
  readonly firstUs: number;
  readonly lastUs: number;
  readonly lines: number;
  /** Size before compression, bytes. */
  readonly bytes: number;
  readonly workers: readonly string[];
  readonly releases: readonly string[];
  /** Levels that occur; a line without one counts as `info`. */
  readonly levels: readonly string[];
  /** Bloom filter of the jobs, base64; empty without jobs. */
  readonly jobs: string;
}

/** Bits of the filter for each job: one in a hundred other jobs seems to be in it. */
const BITS_PER_JOB = 10;
const HASHES = 5;
const MAX_FILTER_BITS = 1_048_576;
/** More workers or releases than this are not listed: an empty list says that any may be there. */
const MAX_LISTED = 1_000;

export class IndexBuilder {
  #firstUs = 0;
  #lastUs = 0;
  #lines = 0;
  #bytes = 0;
  readonly #workers = new Set<string>();
  readonly #releases = new Set<string>();
  readonly #levels = new Set<string>();
  readonly #jobs = new Set<string>();

  add(line: LogLine, bytes: number): void {
    const us = Number(line.atUs);
    if (this.#lines === 0) this.#firstUs = us;
    this.#lastUs = Math.max(this.#lastUs, us);
    this.#lines += 1;
    this.#bytes += bytes;
    this.#workers.add(line.workerId);
    this.#releases.add(line.releaseId);
    this.#levels.add(line.level || 'info');
    if (line.jobId !== '') this.#jobs.add(line.jobId);
  }

  build(): SegmentIndex {
    return {
      firstUs: this.#firstUs,
      lastUs: this.#lastUs,
      lines: this.#lines,
      bytes: this.#bytes,
      workers: this.#workers.size > MAX_LISTED ? [] : [...this.#workers],
      releases: this.#releases.size > MAX_LISTED ? [] : [...this.#releases],
      levels: [...this.#levels],
      jobs: bloomOf(this.#jobs),
    };
  }
}

/** Whether the segment may hold a line that the filter accepts. */
export function mayMatch(index: SegmentIndex, filter: LogFilter): boolean {
  if (index.lines === 0) return false;
  if (filter.after !== undefined && index.lastUs < filter.after.us) return false;
  if (filter.before !== undefined && index.firstUs > filter.before.us) return false;
  if (filter.workerId !== '' && index.workers.length > 0 && !index.workers.includes(filter.workerId)) return false;
  if (filter.releaseId !== '' && index.releases.length > 0 && !index.releases.includes(filter.releaseId)) return false;
  if (filter.jobId !== '' && !bloomHas(index.jobs, filter.jobId)) return false;
  if (filter.level === '') return true;
  const least = LOG_LEVELS.findIndex((level) => level === filter.level);
  return index.levels.some((level) => LOG_LEVELS.findIndex((each) => each === level) >= least);
}

/** Returns the index as text: a checksum, and JSON. */
export function encodeIndex(index: SegmentIndex): string {
  const json = JSON.stringify(index);
  return `${sumOf(json)} ${json}`;
}

/** Returns undefined for a text that is no index, or is damaged. Those of earlier versions have no checksum. */
export function parseIndex(text: string): SegmentIndex | undefined {
  const [, sum, json = text] = /^([0-9a-f]{8}) (.*)$/s.exec(text) ?? [];
  if (sum !== undefined && sum !== sumOf(json)) return undefined;
  let value: Partial<SegmentIndex> | null;
  try {
    value = JSON.parse(json) as Partial<SegmentIndex> | null;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
  const { firstUs, lastUs, lines, bytes, workers, releases, levels, jobs } = value ?? {};
  const numbers = [firstUs, lastUs, lines, bytes].every((each) => Number.isSafeInteger(each));
  const lists = [workers, releases, levels].every((each) => Array.isArray(each));
  return numbers && lists && typeof jobs === 'string' ? (value as SegmentIndex) : undefined;
}

function sumOf(json: string): string {
  return crc32(json).toString(16).padStart(8, '0');
}

function bloomOf(jobs: ReadonlySet<string>): string {
  if (jobs.size === 0) return '';
  const bits = Math.min(MAX_FILTER_BITS, Math.max(64, jobs.size * BITS_PER_JOB));
  const filter = Buffer.alloc(Math.ceil(bits / 8));
  for (const job of jobs) for (const bit of bitsOf(job, filter.length * 8)) filter[bit >> 3] = (filter[bit >> 3] ?? 0) | (1 << (bit & 7));
  return filter.toString('base64');
}

function bloomHas(jobs: string, job: string): boolean {
  if (jobs === '') return false;
  const filter = Buffer.from(jobs, 'base64');
  return bitsOf(job, filter.length * 8).every((bit) => ((filter[bit >> 3] ?? 0) & (1 << (bit & 7))) !== 0);
}

function bitsOf(job: string, size: number): number[] {
  const hash = createHash('sha256').update(job).digest();
  return Array.from({ length: HASHES }, (_, at) => hash.readUInt32LE(at * 4) % size);
}
