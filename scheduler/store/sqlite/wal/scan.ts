/**
 * Reads a write-ahead log as SQLite does when it opens the database, and looks behind the first wrong frame, where
 * SQLite stops. A transaction is written only after the one before it was synced. So a power failure damages nothing but
 * the last transaction: frames of a further one behind a wrong frame prove that something else damaged the file.
 *
 * Frames behind the wrong one are checked against the checksum that their predecessor holds. Those of an earlier use of
 * the file have other salts. Those of a transaction that was rolled back have the salts, and no commit.
 */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';

import { isErrno } from '../../../../lib/to-error.ts';
import {
  checksumOf,
  FRAME_HEADER_BYTES,
  HEADER_BYTES,
  isSame,
  PAGE_BYTES,
  parseFrameHeader,
  parseHeader,
  type Checksum,
  type LogHeader,
  type Salts,
} from './format.ts';

export interface LogScan {
  /** Null for a header that SQLite does not accept: it reads no frame then. */
  readonly header: LogHeader | null;
  /** Frames up to the last commit that SQLite reads. */
  readonly committed: number;
  /** The length of that part of the file, bytes. */
  readonly committedBytes: number;
  /** The first wrong frame (counted from 1; 0 is the header), where a later transaction proves the damage. */
  readonly damagedFrame: number | null;
  /** Commits behind the damage whose frames can be checked: at least so many are lost. */
  readonly lostCommits: number;
}

const FRAMES_A_READ = 256;

/** Returns null without a log, or with one that holds no frame. */
export function scanLog(path: string): LogScan | null {
  const file = openIfPresent(path);
  if (file === undefined) return null;
  try {
    const head = Buffer.alloc(HEADER_BYTES);
    if (fstatSync(file).size <= HEADER_BYTES || readSync(file, head, 0, HEADER_BYTES, 0) < HEADER_BYTES) return null;
    return scanFrames(file, parseHeader(head));
  } finally {
    closeSync(file);
  }
}

function scanFrames(file: number, header: LogHeader | null): LogScan {
  const pageBytes = header?.pageBytes ?? PAGE_BYTES;
  const frames = new FrameReader(header);
  const frameBytes = FRAME_HEADER_BYTES + pageBytes;
  const buffer = Buffer.from(new ArrayBuffer(FRAMES_A_READ * frameBytes));
  for (let at = HEADER_BYTES; ;) {
    const whole = Math.floor(readSync(file, buffer, 0, buffer.length, at) / frameBytes);
    for (let i = 0; i < whole; i++) frames.read(buffer.subarray(i * frameBytes, (i + 1) * frameBytes));
    at += whole * frameBytes;
    if (whole === 0) break;
  }
  const { committed, firstWrong, lostCommits, isProven } = frames;
  return {
    header,
    committed,
    committedBytes: committed === 0 ? 0 : HEADER_BYTES + committed * frameBytes,
    damagedFrame: isProven ? firstWrong : null,
    lostCommits,
  };
}

class FrameReader {
  committed = 0;
  firstWrong: number | null;
  lostCommits = 0;
  isProven = false;
  readonly #isBigEndian: boolean;
  /** Null where the header has none: then those of the frame before. */
  readonly #salts: Salts | null;
  #saltsBefore: Salts | null = null;
  #count = 0;
  #before: Checksum;
  /** Whether the frame before is behind the damage, has a right checksum and ends a transaction. */
  #followsLostCommit = false;

  constructor(header: LogHeader | null) {
    this.#isBigEndian = header?.isBigEndian ?? false;
    this.#salts = header?.salts ?? null;
    this.#before = header?.checksum ?? { first: 0, second: 0 };
    this.firstWrong = header === null ? 0 : null;
  }

  read(bytes: Buffer): void {
    this.#count += 1;
    const frame = parseFrameHeader(bytes);
    const salts = this.#salts ?? this.#saltsBefore;
    const isRight =
      frame.page !== 0 &&
      salts !== null &&
      isSame(frame.salts, salts) &&
      isSame(checksumOf(this.#before, bytes, this.#isBigEndian), frame.checksum);
    this.#before = frame.checksum;
    this.#saltsBefore = frame.salts;
    if (this.firstWrong === null) {
      if (!isRight) this.firstWrong = this.#count;
      else if (frame.isCommit) this.committed = this.#count;
      return;
    }
    const isLostCommit = isRight && frame.isCommit;
    if (isLostCommit) this.lostCommits += 1;
    // The header is synced before the first frame is written: one commit proves that it was there.
    if ((isRight && this.#followsLostCommit) || (isLostCommit && this.#salts === null)) this.isProven = true;
    this.#followsLostCommit = isLostCommit;
  }
}

function openIfPresent(path: string): number | undefined {
  try {
    return openSync(path, 'r');
  } catch (error) {
    if (isErrno(error, 'ENOENT', 'ENOTDIR')) return undefined;
    throw error;
  }
}
