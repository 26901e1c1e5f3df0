/**
 * Searches segments. Runs in the log thread, so that it does not block the agent's main loop. A damaged segment, or
 * line of the open one, is left out; a line in its place says so.
 */
import { openSync, readFileSync } from 'node:fs';
import { zstdDecompressSync } from 'node:zlib';

import { freeBuffer } from '../../lib/free-buffer.ts';
import { isErrno, messageOf } from '../../lib/to-error.ts';
import type { LogLine } from '../../proto/gen/capstan/v1/nodes.ts';
import { isWithin, lineMatcher, type LogFilter } from './filter.ts';
import { decodeLine } from './line.ts';
import { linesFrom, tailLines, wholeLines } from './open-segment.ts';
import { SegmentReading, type DamagedSegment } from './segment-damage.ts';
import { IndexBuilder, mayMatch, type SegmentIndex } from './segment-index.ts';

/** A segment's file. The index of the open segment is not known yet. */
export interface SegmentFile {
  readonly path: string;
  readonly index: SegmentIndex | undefined;
}

export interface SearchTask {
  readonly endpointId: string;
  /** Oldest first. */
  readonly segments: readonly SegmentFile[];
  /** Lines that could not be written yet, newer than those of the segments. */
  readonly unwritten: string;
  readonly filter: LogFilter;
  readonly limit: number;
  /** The oldest matching lines instead of the newest. */
  readonly oldestFirst: boolean;
  /** Most time, ms, and most uncompressed bytes to read. */
  readonly budget: { readonly ms: number; readonly bytes: number };
}

export interface SearchResult {
  /** In the order of time, oldest first. */
  readonly lines: LogLine[];
  /** The budget ended the search here, µs: lines beyond this time were not looked at. */
  readonly stoppedAtUs: number | undefined;
  /** Segments that could not be read, or not completely. */
  readonly damaged: readonly DamagedSegment[];
}

/** Suffix of a compressed segment. */
export const SEALED = '.zst';
const MAX_SEGMENT_BYTES = 1024 * 1024 * 1024;
/** The clock is read after so many lines, and after so many characters, whichever come first. */
const CLOCK_CHECK_LINES = 256;
const CLOCK_CHECK_CHARACTERS = 64 * 1024;
/** Characters of the lines of one reply: it is one message. */
export const MAX_REPLY_CHARACTERS = 2_000_000;

/** Reads the index of a sealed segment whose own index is lost. */
export function indexSegment(path: string, endpointId: string): SegmentIndex {
  const builder = new IndexBuilder();
  for (const raw of textOf(path).split('\n')) {
    const line = decodeLine(raw, endpointId);
    if (line !== undefined) builder.add(line, Buffer.byteLength(raw) + 1);
  }
  return builder.build();
}

/**
 * Searches for `sliceMs` until each yield, where other searches may proceed; the time between slices does not count.
 * Throws INVALID_ARGUMENT for a pattern that is no RE2 expression.
 */
export function* searchInSlices(
  { endpointId, segments, unwritten, filter, limit, oldestFirst, budget }: SearchTask,
  sliceMs: number,
): Generator<undefined, SearchResult> {
  const matches = lineMatcher(filter);
  const sources: readonly Source[] = [...segments, { text: unwritten }];
  const order = oldestFirst ? sources : sources.toReversed();
  const found: LogLine[] = [];
  const damaged: DamagedSegment[] = [];
  let endsAt = performance.now() + budget.ms;
  let sliceEndsAt = performance.now() + sliceMs;
  let bytes = 0;
  let read = 0;
  let checkedAt = 0;
  let characters = 0;
  const result = (stoppedAtUs?: number): SearchResult => ({ lines: inOrder(found, oldestFirst), stoppedAtUs, damaged });
  for (const source of order) {
    const [path, index] = 'path' in source ? [source.path, source.index] : ['', undefined];
    if (index !== undefined && !mayMatch(index, filter)) continue;
    const reading = new SegmentReading(path, index);
    try {
      for (const raw of readable(
        oldestFirst ? linesOf(source, endpointId, filter.after?.us) : linesBackwards(source, endpointId),
        reading,
      )) {
        bytes += raw.length;
        read += 1;
        const line = decodeLine(raw, endpointId);
        if (line === undefined) {
          if (raw !== '') reading.damagedLines += 1;
          continue;
        }
        const isCheckDue = read % CLOCK_CHECK_LINES === 0 || bytes - checkedAt > CLOCK_CHECK_CHARACTERS;
        if (isCheckDue) checkedAt = bytes;
        // The first line is always looked at: each page gets further.
        if (read > 1 && (bytes > budget.bytes || (isCheckDue && performance.now() > endsAt))) return result(Number(line.atUs));
        if (isCheckDue && performance.now() > sliceEndsAt) {
          const pausedAt = performance.now();
          yield;
          endsAt += performance.now() - pausedAt;
          sliceEndsAt = performance.now() + sliceMs;
        }
        // Lines are in the order of time within a segment: no later one can match.
        if (isBeyond(line, filter, oldestFirst)) break;
        reading.lastUs = Number(line.atUs);
        if (!matches(line)) continue;
        characters += line.text.length + line.fields.length;
        if (found.length > 0 && characters > MAX_REPLY_CHARACTERS) return result(Number(line.atUs));
        found.push(line);
        if (found.length >= limit) return result();
      }
    } finally {
      if (reading.damage !== undefined) damaged.push(reading.damage);
    }
    if (reading.damage === undefined) continue;
    const notice = reading.notice(endpointId, filter, oldestFirst);
    if (isWithin(notice, filter)) found.push(notice);
    if (found.length >= limit) return result();
  }
  return result();
}

/** The lines up to where the segment cannot be read. */
function* readable(lines: Iterable<string>, reading: SegmentReading): Generator<string> {
  try {
    yield* lines;
  } catch (error) {
    reading.failure = messageOf(error);
  }
}

function isBeyond(line: LogLine, { after, before }: LogFilter, oldestFirst: boolean): boolean {
  const us = Number(line.atUs);
  return oldestFirst ? before !== undefined && us > before.us : after !== undefined && us < after.us;
}

function inOrder(found: LogLine[], oldestFirst: boolean): LogLine[] {
  return oldestFirst ? found : found.toReversed();
}

type Source = SegmentFile | { readonly text: string };

/** Its lines, oldest first; those of an open segment from about `afterUs` on, since whoever follows a log has read the ones before. */
function* linesOf(source: Source, endpointId: string, afterUs = 0): Generator<string> {
  const file = openFileOf(source);
  if (file !== undefined) yield* linesFrom(file, endpointId, afterUs);
  else yield* wholeLines('text' in source ? source.text : textOf(source.path), endpointId);
}

function* linesBackwards(source: Source, endpointId: string): Generator<string> {
  const file = openFileOf(source);
  if (file !== undefined) yield* tailLines(file, endpointId);
  else yield* [...linesOf(source, endpointId)].reverse();
}

/** Opens an open segment; undefined for other sources, and for a segment that was removed or sealed meanwhile. */
function openFileOf(source: Source): number | undefined {
  return 'text' in source || source.path.endsWith(SEALED) ? undefined : openIfPresent(source.path);
}

/** Returns the text of a segment; of one that was removed or sealed meanwhile what is there now. */
function textOf(path: string): string {
  const raw = readIfPresent(path) ?? readIfPresent(path.endsWith(SEALED) ? path : `${path}${SEALED}`);
  if (raw === undefined) return '';
  const bytes = raw.sealed ? zstdDecompressSync(raw.bytes, { maxOutputLength: MAX_SEGMENT_BYTES }) : raw.bytes;
  const text = bytes.toString('utf8');
  freeBuffer(bytes);
  if (raw.sealed) freeBuffer(raw.bytes);
  return text;
}

function readIfPresent(path: string): { readonly bytes: Buffer; readonly sealed: boolean } | undefined {
  try {
    return { bytes: readFileSync(path), sealed: path.endsWith(SEALED) };
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return undefined;
    throw error;
  }
}

function openIfPresent(path: string): number | undefined {
  try {
    return openSync(path, 'r');
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return undefined;
    throw error;
  }
}
