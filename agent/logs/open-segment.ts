/**
 * Reads the segment that still receives lines, block by block into one buffer: with a buffer for each block, or for the whole segment,
 * a thread that is searched often holds 100 MiB of them until the next collection.
 */
import { closeSync, fstatSync, readSync } from 'node:fs';

import { freeBuffer } from '../../lib/free-buffer.ts';
import { decodeLine } from './line.ts';

/** Text of this length is an ordinary object of V8's heap, not one with pages of its own. */
const BLOCK_BYTES = 64 * 1024;
const LINE_END = 0x0a;

/** A crash or a full disk may have truncated the last line, which is no damage. */
export function wholeLines(text: string, endpointId: string): string[] {
  const lines = text.split('\n');
  if (decodeLine(lines.at(-1) ?? '', endpointId) === undefined) lines.pop();
  return lines;
}

/** Yields the lines from the end. Closes the file. */
export function* tailLines(file: number, endpointId: string): Generator<string> {
  let buffer: Buffer = Buffer.allocUnsafeSlow(2 * BLOCK_BYTES);
  try {
    let at = fstatSync(file).size;
    let isTail = true;
    /** Bytes at the end of the buffer of a line that begins further ahead. */
    let kept = 0;
    while (at > 0) {
      const size = Math.min(BLOCK_BYTES, at);
      if (size + kept > buffer.length) buffer = grown(buffer, 'end');
      at -= size;
      const start = buffer.length - kept - size;
      const got = readSync(file, buffer, start, size, at);
      buffer.copyWithin(start + size - got, start, start + got);
      const bytes = buffer.subarray(start + size - got);
      const first = at === 0 ? 0 : bytes.indexOf(LINE_END) + 1;
      // A block without a line end belongs to a line that begins further ahead.
      if (at > 0 && first === 0) {
        kept = bytes.length;
        continue;
      }
      const lines = bytes.toString('utf8', first);
      bytes.copyWithin(bytes.length - first, 0, first);
      kept = first;
      yield* (isTail ? wholeLines(lines, endpointId) : lines.split('\n')).reverse();
      isTail = false;
    }
  } finally {
    closeSync(file);
    freeBuffer(buffer);
  }
}

/** Yields the lines in order, and may leave out those before `afterUs`: lines are in the order of time. Closes the file. */
export function* linesFrom(file: number, endpointId: string, afterUs: number): Generator<string> {
  let buffer: Buffer = Buffer.allocUnsafeSlow(2 * BLOCK_BYTES);
  try {
    let at = startOf(file, buffer, endpointId, afterUs);
    /** Bytes at the start of the buffer of a line that is not complete. */
    let kept = 0;
    for (;;) {
      if (kept + BLOCK_BYTES > buffer.length) buffer = grown(buffer, 'start');
      const got = readSync(file, buffer, kept, BLOCK_BYTES, at);
      if (got === 0) break;
      at += got;
      const bytes = buffer.subarray(0, kept + got);
      const end = bytes.lastIndexOf(LINE_END);
      const lines = end < 0 ? '' : bytes.toString('utf8', 0, end);
      bytes.copyWithin(0, end + 1);
      kept = bytes.length - end - 1;
      if (end >= 0) yield* lines.split('\n');
    }
    yield* wholeLines(buffer.toString('utf8', 0, kept), endpointId);
  } finally {
    closeSync(file);
    freeBuffer(buffer);
  }
}

/** Where a line begins that is before `afterUs`, as near to the end as steps of doubled length find; 0 if there is none. */
function startOf(file: number, buffer: Buffer, endpointId: string, afterUs: number): number {
  if (afterUs <= 0) return 0;
  const { size } = fstatSync(file);
  for (let back = BLOCK_BYTES; back < size; back *= 2) {
    const bytes = buffer.subarray(0, readSync(file, buffer, 0, BLOCK_BYTES, size - back));
    const first = bytes.indexOf(LINE_END) + 1;
    const end = bytes.indexOf(LINE_END, first);
    const line = first === 0 || end < 0 ? undefined : decodeLine(bytes.toString('utf8', first, end), endpointId);
    if (line !== undefined && Number(line.atUs) < afterUs) return size - back + first;
  }
  return 0;
}

/** Returns a buffer of twice the size with the same bytes at its start or at its end; frees the one given. */
function grown(buffer: Buffer, place: 'start' | 'end'): Buffer {
  const larger = Buffer.allocUnsafeSlow(2 * buffer.length);
  buffer.copy(larger, place === 'start' ? 0 : buffer.length);
  freeBuffer(buffer);
  return larger;
}
