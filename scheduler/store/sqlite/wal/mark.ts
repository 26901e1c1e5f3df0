/**
 * A file beside the database that says how far the write-ahead log was durable: `<database>-mark`. The log alone cannot
 * show that its end is missing, because a damaged last transaction looks like one that a power failure cut off.
 *
 * The mark is overwritten after each batch and not synced: it costs no wait for the disk. What it says was durable when
 * it was written, so it never says too much. When the process is killed it is exact. After a power failure it may be as
 * old as the system's write-back (about 30 s), and says less.
 */
import { closeSync, fsyncSync, openSync, readFileSync, readSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { crc32 } from 'node:zlib';

import { syncPathSync } from '../../../../lib/durable.ts';
import { isErrno } from '../../../../lib/to-error.ts';
import { HEADER_BYTES, isSame, parseHeader, type LogHeader, type Salts } from './format.ts';

/** What was durable. */
export interface Mark {
  readonly salts: Salts;
  readonly sequence: number;
  /** Frames of the log, and those of them that are in the database, too. */
  readonly frames: number;
  readonly checkpointed: number;
  /** The highest number of an accepted job. */
  readonly seq: number;
}

const MAGIC = 'CAPSMRK1';
const SUMMED_BYTES = 48;
const MARK_BYTES = SUMMED_BYTES + 4;

export function markPath(database: string): string {
  return `${database}-mark`;
}

export function logPath(database: string): string {
  return `${database}-wal`;
}

/** Returns null without a mark, for one that claims nothing, and for one that is damaged. */
export function readMark(database: string): Mark | null {
  let bytes: Buffer;
  try {
    bytes = readFileSync(markPath(database));
  } catch (error) {
    if (isErrno(error, 'ENOENT', 'ENOTDIR')) return null;
    throw error;
  }
  const isWhole = bytes.length === MARK_BYTES && bytes.toString('latin1', 0, MAGIC.length) === MAGIC;
  if (!isWhole || bytes.readUInt32LE(SUMMED_BYTES) !== crc32(bytes.subarray(0, SUMMED_BYTES))) return null;
  const frames = bytes.readUInt32LE(20);
  if (frames === 0) return null;
  return {
    salts: { first: bytes.readUInt32LE(8), second: bytes.readUInt32LE(12) },
    sequence: bytes.readUInt32LE(16),
    frames,
    checkpointed: bytes.readUInt32LE(24),
    seq: Number(bytes.readBigUInt64LE(32)),
  };
}

/** Writes the mark of an open database. */
export class MarkWriter {
  readonly #database: string;
  readonly #file: number;
  readonly #bytes = Buffer.alloc(MARK_BYTES);
  #log: number | null = null;
  #header: LogHeader | null = null;
  #frames = 0;
  #checkpointed = 0;
  #seq: number;

  /**
   * Creates the file if it is missing; `seq` is the highest number of a job so far. It claims nothing until the first {@link note}: what was recovered from the log of
   * a killed process may not be durable before the next commit.
   */
  constructor(database: string, seq: number) {
    this.#database = database;
    this.#seq = seq;
    this.#bytes.write(MAGIC, 'latin1');
    this.#file = openForUpdate(markPath(database));
    this.#write();
    fsyncSync(this.#file);
    syncPathSync(dirname(database));
  }

  /** A batch with this job was committed. */
  accepted(seq: number): void {
    this.#seq = Math.max(this.#seq, seq);
  }

  /** The log has durable frames, of which the database has the first ones. */
  note(frames: number, checkpointed: number): void {
    // A use of the file from its start has fewer frames than before, or none that were copied.
    if (frames <= this.#frames || checkpointed < this.#checkpointed || this.#header === null) this.#header = this.#readHeader();
    this.#frames = frames;
    this.#checkpointed = checkpointed;
    if (this.#header === null) return;
    const { salts, sequence } = this.#header;
    for (const [i, value] of [salts.first, salts.second, sequence, frames, checkpointed].entries())
      this.#bytes.writeUInt32LE(value, MAGIC.length + 4 * i);
    this.#bytes.writeBigUInt64LE(BigInt(this.#seq), 32);
    this.#write();
  }

  /** Claims nothing from now on: the database is about to be closed, which removes the log. */
  close(): void {
    this.#bytes.fill(0, MAGIC.length);
    this.#write();
    fsyncSync(this.#file);
    closeSync(this.#file);
    if (this.#log !== null) closeSync(this.#log);
  }

  #write(): void {
    this.#bytes.writeUInt32LE(crc32(this.#bytes.subarray(0, SUMMED_BYTES)), SUMMED_BYTES);
    writeSync(this.#file, this.#bytes, 0, MARK_BYTES, 0);
  }

  #readHeader(): LogHeader | null {
    this.#log ??= openSync(logPath(this.#database), 'r');
    const bytes = Buffer.alloc(HEADER_BYTES);
    return readSync(this.#log, bytes, 0, HEADER_BYTES, 0) < HEADER_BYTES ? null : parseHeader(bytes);
  }
}

/** Whether the log is of the mark's use of the file, of a later one, or of neither. */
export function useOf(header: LogHeader, { salts, sequence }: Mark): 'same' | 'later' | 'other' {
  if (isSame(header.salts, salts)) return 'same';
  const further = header.sequence - sequence;
  return further > 0 && header.salts.first === (salts.first + further) >>> 0 ? 'later' : 'other';
}

function openForUpdate(path: string): number {
  try {
    return openSync(path, 'r+');
  } catch (error) {
    if (!isErrno(error, 'ENOENT')) throw error;
    return openSync(path, 'wx', 0o600);
  }
}
