/**
 * Compresses segments that receive no more lines. Runs in the log thread, a block of lines at a time: whole segments of a worker
 * that printed many short lines made the agent grow by 50 MiB each.
 */
import { once } from 'node:events';
import { closeSync, openSync, readSync, unlinkSync } from 'node:fs';
import { finished } from 'node:stream/promises';
import { constants, createZstdCompress } from 'node:zlib';

import { replaceDurablySync } from '../../lib/durable.ts';
import { decodeLine } from './line.ts';
import { withoutChecksum } from './line-checksum.ts';
import { SEALED } from './search.ts';
import { encodeIndex, IndexBuilder, type SegmentIndex } from './segment-index.ts';

const BLOCK_BYTES = 64 * 1024;
const COMPRESSION_LEVEL = 3;
const LINE_END = 0x0a;

export interface SealedSize {
  readonly index: SegmentIndex;
  /** Size on disk, bytes. */
  readonly bytes: number;
}

/** Compresses a segment; returns undefined if it holds no line. */
export async function sealSegment(path: string, endpointId: string): Promise<SealedSize | undefined> {
  const builder = new IndexBuilder();
  const { ZSTD_c_compressionLevel: level, ZSTD_c_checksumFlag: checksum } = constants;
  const compressor = createZstdCompress({ params: { [level]: COMPRESSION_LEVEL, [checksum]: 1 } });
  const sealed: Buffer[] = [];
  compressor.on('data', (piece: Buffer) => sealed.push(piece));
  let lines = 0;
  let kept = 0;
  for (const { raw, isLast } of blocksOf(path)) {
    const texts: string[] = [];
    for (const [at, each] of raw.entries()) {
      const line = decodeLine(each, endpointId);
      // A crash or a full disk may have truncated the last line, which is no damage.
      if (line === undefined && isLast && at === raw.length - 1) break;
      // A damaged line stays as it is: its checksum keeps saying so.
      const text = line === undefined ? each : (withoutChecksum(each) ?? each);
      if (text !== '') texts.push(`${text}\n`);
      if (line === undefined) continue;
      builder.add(line, Buffer.byteLength(text) + 1);
      lines += 1;
    }
    kept += texts.length;
    if (texts.length > 0 && !compressor.write(texts.join(''))) await once(compressor, 'drain');
  }
  compressor.end();
  await finished(compressor);
  if (lines === 0) {
    if (kept > 0) throw new Error('all of its lines are damaged');
    unlinkSync(path);
    return undefined;
  }
  const index = builder.build();
  const bytes = Buffer.concat(sealed);
  replaceDurablySync(`${path}.index`, encodeIndex(index));
  replaceDurablySync(`${path}${SEALED}`, bytes);
  unlinkSync(path);
  return { index, bytes: bytes.length };
}

interface Block {
  readonly raw: readonly string[];
  /** Its last line has no line end, or is empty. */
  readonly isLast: boolean;
}

/** The lines of a file, in blocks of whole ones. */
function* blocksOf(path: string): Generator<Block> {
  const file = openSync(path, 'r');
  try {
    const block = Buffer.alloc(BLOCK_BYTES);
    let rest: Buffer = Buffer.alloc(0);
    for (let got = readSync(file, block); got > 0; got = readSync(file, block)) {
      const bytes = Buffer.concat([rest, block.subarray(0, got)]);
      const end = bytes.lastIndexOf(LINE_END);
      rest = bytes.subarray(end + 1);
      if (end >= 0) yield { raw: bytes.toString('utf8', 0, end).split('\n'), isLast: false };
    }
    yield { raw: [rest.toString('utf8')], isLast: true };
  } finally {
    closeSync(file);
  }
}
