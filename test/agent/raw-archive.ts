/** Archives that no honest tool would write: entries one by one, as given. */
import { gzipSync } from 'node:zlib';

import { Header, Pax } from 'tar';

export interface RawEntry {
  readonly path: string;
  readonly type?: 'File' | 'Directory' | 'SymbolicLink' | 'Link' | 'CharacterDevice' | 'BlockDevice' | 'FIFO';
  readonly linkpath?: string;
  readonly body?: string;
  readonly mode?: number;
  /** Claimed size, where it is not the body's. */
  readonly size?: number;
}

export function rawArchive(entries: readonly RawEntry[]): Buffer {
  const parts: Buffer[] = [];
  for (const { path, type = 'File', linkpath, body = '', mode = 0o644, size } of entries) {
    const bytes = Buffer.from(body);
    const header = new Header({ path, type, mode, size: size ?? bytes.length, ...(linkpath === undefined ? {} : { linkpath }) });
    // Names that the old format has no room for.
    if (header.encode()) parts.push(new Pax({ path, ...(linkpath === undefined ? {} : { linkpath }) }).encode());
    parts.push(header.block ?? Buffer.alloc(512), bytes, Buffer.alloc((512 - (bytes.length % 512)) % 512));
  }
  parts.push(Buffer.alloc(1024));
  return gzipSync(Buffer.concat(parts));
}
