/** Seals segments and searches them. Runs in the log thread, so that neither blocks the agent's main loop. */
import { closeSync, fstatSync, openSync, readFileSync, readSync, unlinkSync } from 'node:fs';
import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib';

import { replaceDurablySync } from '../../lib/durable.ts';
import { isErrno } from '../../lib/to-error.ts';
import type { LogLine } from '../../proto/gen/capstan/v1/nodes.ts';
import { lineMatcher, type LogFilter } from './filter.ts';
import { decodeLine } from './line.ts';
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
}

/** Suffix of a compressed segment. */
export const SEALED = '.zst';
const BLOCK_BYTES = 256 * 1024;
const MAX_SEGMENT_BYTES = 1024 * 1024 * 1024;
/** The clock is read after so many lines, and after so many characters, whichever come first. */
const CLOCK_CHECK_LINES = 256;
const CLOCK_CHECK_CHARACTERS = 64 * 1024;
/** Characters of the lines of one reply: it is one message. */
export const MAX_REPLY_CHARACTERS = 2_000_000;
const COMPRESSION_LEVEL = 3;

/** Compresses a segment that receives no more lines. Returns its index and its size on disk; undefined if it holds no line. */
export function sealSegment(path: string, endpointId: string): { readonly index: SegmentIndex; readonly bytes: number } | undefined {
  const text = readFileSync(path);
  const builder = new IndexBuilder();
  let lines = 0;
  for (const raw of text.toString('utf8').split('\n')) {
    const line = decodeLine(raw, endpointId);
    if (line === undefined) continue;
    builder.add(line, Buffer.byteLength(raw) + 1);
    lines += 1;
  }
  if (lines === 0) {
    unlinkSync(path);
    return undefined;
  }
  const index = builder.build();
  const sealed = zstdCompressSync(text, { params: { [constants.ZSTD_c_compressionLevel]: COMPRESSION_LEVEL } });
  replaceDurablySync(`${path}.index`, JSON.stringify(index));
  replaceDurablySync(`${path}${SEALED}`, sealed);
  unlinkSync(path);
  return { index, bytes: sealed.length };
}

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
  let endsAt = performance.now() + budget.ms;
  let sliceEndsAt = performance.now() + sliceMs;
  let bytes = 0;
  let read = 0;
  let checkedAt = 0;
  let characters = 0;
  const stoppedAt = (line: LogLine): SearchResult => ({ lines: inOrder(found, oldestFirst), stoppedAtUs: Number(line.atUs) });
  for (const source of order) {
    if ('path' in source && source.index !== undefined && !mayMatch(source.index, filter)) continue;
    for (const raw of oldestFirst ? linesOf(source) : linesBackwards(source)) {
      bytes += raw.length;
      read += 1;
      const line = decodeLine(raw, endpointId);
      if (line === undefined) continue;
      const isCheckDue = read % CLOCK_CHECK_LINES === 0 || bytes - checkedAt > CLOCK_CHECK_CHARACTERS;
      if (isCheckDue) checkedAt = bytes;
      // The first line is always looked at: each page gets further.
      if (read > 1 && (bytes > budget.bytes || (isCheckDue && performance.now() > endsAt))) return stoppedAt(line);
      if (isCheckDue && performance.now() > sliceEndsAt) {
        const pausedAt = performance.now();
        yield;
        endsAt += performance.now() - pausedAt;
        sliceEndsAt = performance.now() + sliceMs;
      }
      // Lines are in the order of time within a segment: no later one can match.
      if (isBeyond(line, filter, oldestFirst)) break;
      if (!matches(line)) continue;
      characters += line.text.length + line.fields.length;
      if (found.length > 0 && characters > MAX_REPLY_CHARACTERS) return stoppedAt(line);
      found.push(line);
      if (found.length >= limit) return { lines: inOrder(found, oldestFirst), stoppedAtUs: undefined };
    }
  }
  return { lines: inOrder(found, oldestFirst), stoppedAtUs: undefined };
}

function isBeyond(line: LogLine, { after, before }: LogFilter, oldestFirst: boolean): boolean {
  const us = Number(line.atUs);
  return oldestFirst ? before !== undefined && us > before.us : after !== undefined && us < after.us;
}

function inOrder(found: LogLine[], oldestFirst: boolean): LogLine[] {
  return oldestFirst ? found : found.toReversed();
}

type Source = SegmentFile | { readonly text: string };

function* linesOf(source: Source): Generator<string> {
  yield* ('text' in source ? source.text : textOf(source.path)).split('\n');
}

function* linesBackwards(source: Source): Generator<string> {
  const file = 'text' in source || source.path.endsWith(SEALED) ? undefined : openIfPresent(source.path);
  if (file === undefined || 'text' in source) yield* [...linesOf(source)].reverse();
  else yield* tailLines(file);
}

/** Lines of the open segment from its end: mostly the last ones are wanted. */
function* tailLines(file: number): Generator<string> {
  try {
    let at = fstatSync(file).size;
    let rest: Buffer = Buffer.alloc(0);
    while (at > 0) {
      const size = Math.min(BLOCK_BYTES, at);
      at -= size;
      const block = Buffer.alloc(size);
      const got = readSync(file, block, 0, size, at);
      const text = Buffer.concat([block.subarray(0, got), rest]);
      const first = at === 0 ? 0 : text.indexOf(0x0a) + 1;
      // A block without a line end belongs to a line that begins further ahead.
      if (at > 0 && first === 0) {
        rest = text;
        continue;
      }
      rest = text.subarray(0, first);
      yield* text.subarray(first).toString('utf8').split('\n').reverse();
    }
  } finally {
    closeSync(file);
  }
}

/** Returns the text of a segment; of one that was removed or sealed meanwhile what is there now. */
function textOf(path: string): string {
  const raw = readIfPresent(path) ?? readIfPresent(path.endsWith(SEALED) ? path : `${path}${SEALED}`);
  if (raw === undefined) return '';
  return (raw.sealed ? zstdDecompressSync(raw.bytes, { maxOutputLength: MAX_SEGMENT_BYTES }) : raw.bytes).toString('utf8');
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
