/**
 * SQLite's write-ahead log as a file (https://www.sqlite.org/fileformat2.html#walformat): a header, then frames, each
 * one page. A frame's checksum continues that of the frame before it, so the first wrong one ends what SQLite reads.
 */

export const HEADER_BYTES = 32;
export const FRAME_HEADER_BYTES = 24;
/** Page size of the databases that this program creates. */
export const PAGE_BYTES = 4_096;

const MAGIC_LITTLE_ENDIAN = 0x377f0682;
const MAGIC_BIG_ENDIAN = 0x377f0683;
const VERSION = 3_007_000;
const LEAST_PAGE_BYTES = 512;
const MAX_PAGE_BYTES = 65_536;
/** Bytes of a frame's header that its checksum includes. */
const SUMMED_HEADER_BYTES = 8;
const HOST_IS_LITTLE_ENDIAN = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1;

export interface Salts {
  readonly first: number;
  readonly second: number;
}

/** Both halves of a checksum, each 32 bits; signed, because bitwise operations are. */
export interface Checksum {
  readonly first: number;
  readonly second: number;
}

/** One use of the file from its start: SQLite writes the header anew each time. */
export interface LogHeader {
  readonly isBigEndian: boolean;
  readonly pageBytes: number;
  /** Grows by one with each use of the file, and so does the first salt. */
  readonly sequence: number;
  readonly salts: Salts;
  readonly checksum: Checksum;
}

export interface FrameHeader {
  readonly page: number;
  /** Whether the frame is the last one of a transaction. */
  readonly isCommit: boolean;
  readonly salts: Salts;
  readonly checksum: Checksum;
}

/** Returns null for what SQLite does not accept as a header. */
export function parseHeader(bytes: Buffer): LogHeader | null {
  if (bytes.length < HEADER_BYTES) return null;
  const magic = bytes.readUInt32BE(0);
  if (magic !== MAGIC_LITTLE_ENDIAN && magic !== MAGIC_BIG_ENDIAN) return null;
  const isBigEndian = magic === MAGIC_BIG_ENDIAN;
  const pageBytes = bytes.readUInt32BE(8);
  const isPageSize = pageBytes >= LEAST_PAGE_BYTES && pageBytes <= MAX_PAGE_BYTES && (pageBytes & (pageBytes - 1)) === 0;
  if (bytes.readUInt32BE(4) !== VERSION || !isPageSize) return null;
  const checksum = { first: bytes.readInt32BE(24), second: bytes.readInt32BE(28) };
  const sum = addWords({ first: 0, second: 0 }, bytes.subarray(0, 24), isBigEndian);
  if (!isSame(sum, checksum)) return null;
  return { isBigEndian, pageBytes, sequence: bytes.readUInt32BE(12), salts: saltsAt(bytes, 16), checksum };
}

export function parseFrameHeader(bytes: Buffer): FrameHeader {
  return {
    page: bytes.readUInt32BE(0),
    isCommit: bytes.readUInt32BE(4) !== 0,
    salts: saltsAt(bytes, 8),
    checksum: { first: bytes.readInt32BE(16), second: bytes.readInt32BE(20) },
  };
}

/** Returns the checksum of a frame that follows one with the checksum `before`. `frame` starts on a multiple of 4 bytes of its buffer. */
export function checksumOf(before: Checksum, frame: Buffer, isBigEndian: boolean): Checksum {
  const head = addWords(before, frame.subarray(0, SUMMED_HEADER_BYTES), isBigEndian);
  return addWords(head, frame.subarray(FRAME_HEADER_BYTES), isBigEndian);
}

export function isSame(a: Salts | Checksum, b: Salts | Checksum): boolean {
  return a.first === b.first && a.second === b.second;
}

function saltsAt(bytes: Buffer, at: number): Salts {
  return { first: bytes.readUInt32BE(at), second: bytes.readUInt32BE(at + 4) };
}

function addWords({ first, second }: Checksum, bytes: Buffer, isBigEndian: boolean): Checksum {
  const words = new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.length >> 2);
  const isSwapped = isBigEndian === HOST_IS_LITTLE_ENDIAN;
  for (let i = 0; i < words.length; i += 2) {
    first = (first + wordAt(words, i, isSwapped) + second) | 0;
    second = (second + wordAt(words, i + 1, isSwapped) + first) | 0;
  }
  return { first, second };
}

function wordAt(words: Uint32Array, i: number, isSwapped: boolean): number {
  const word = words[i] ?? 0;
  if (!isSwapped) return word;
  return (word >>> 24) | ((word >>> 8) & 0xff00) | ((word << 8) & 0xff0000) | (word << 24);
}
