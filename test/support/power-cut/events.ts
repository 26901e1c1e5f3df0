/** The records of recorder.c. */

/** `at` is the position of the record in the log, bytes; paths are absolute. */
export type DiskEvent = { readonly at: number } & (
  | { readonly kind: 'opened'; readonly inode: bigint; readonly path: string; readonly truncates: boolean }
  | { readonly kind: 'written'; readonly inode: bigint; readonly offset: number; readonly bytes: Buffer }
  | { readonly kind: 'truncated'; readonly inode: bigint; readonly size: number }
  /** Covers the records before the position `before`. `size` is the file's; null for a folder. */
  | { readonly kind: 'synced'; readonly inode: bigint; readonly before: number; readonly size: number | null }
  | { readonly kind: 'folder'; readonly inode: bigint; readonly path: string }
  | { readonly kind: 'renamed' | 'linked'; readonly from: string; readonly to: string }
  | { readonly kind: 'removed'; readonly path: string }
);

const HEAD_BYTES = 33;
const NO_SIZE = 2n ** 64n - 1n;

/** Parses the whole records of a log. */
export function* parseEvents(log: Buffer): Generator<DiskEvent> {
  for (let at = 0; at + HEAD_BYTES <= log.length;) {
    const end = at + HEAD_BYTES + log.readUInt32LE(at + 25) + log.readUInt32LE(at + 29);
    if (end > log.length) return;
    yield parseEvent(log.subarray(at, end), at);
    at = end;
  }
}

function parseEvent(record: Buffer, at: number): DiskEvent {
  const inode = record.readBigUInt64LE(1);
  const a = record.readBigUInt64LE(9);
  const b = record.readBigUInt64LE(17);
  const middle = HEAD_BYTES + record.readUInt32LE(25);
  const first = record.subarray(HEAD_BYTES, middle);
  const path = (): string => first.toString('utf8');
  switch (record.readUInt8(0)) {
    case 1:
      return { at, kind: 'opened', inode, path: path(), truncates: a === 1n };
    case 2:
      return { at, kind: 'written', inode, offset: Number(a), bytes: first };
    case 3:
      return { at, kind: 'truncated', inode, size: Number(a) };
    case 4:
      return { at, kind: 'synced', inode, before: Number(a), size: b === NO_SIZE ? null : Number(b) };
    case 5:
      return { at, kind: 'folder', inode, path: path() };
    case 6:
      return { at, kind: 'renamed', from: path(), to: record.subarray(middle).toString('utf8') };
    case 7:
      return { at, kind: 'linked', from: path(), to: record.subarray(middle).toString('utf8') };
    case 8:
      return { at, kind: 'removed', path: path() };
    default:
      throw new Error(`byte ${at} of the log begins no record`);
  }
}
