/**
 * Reads text files that people and editors write, in the encodings that they have: UTF-8, with or without a byte order
 * mark, and UTF-16 with one, as PowerShell redirects output.
 */
import { readFile } from 'node:fs/promises';
import { extname, join } from 'node:path';

import { ToolError } from './tool-error.ts';
import { isErrno } from '../lib/to-error.ts';

export type Encoding = 'utf-8' | 'utf-16le' | 'utf-16be';

/** Returns the encoding that the first bytes name; UTF-8 without a byte order mark. */
export function encodingOf(bytes: Uint8Array): Encoding {
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return 'utf-16le';
  return bytes[0] === 0xfe && bytes[1] === 0xff ? 'utf-16be' : 'utf-8';
}

/** Decodes a file without its byte order mark. `name`: for messages. @throws CapstanError INVALID_MANIFEST with the line. */
export function decodeText(bytes: Uint8Array, name: string): string {
  const encoding = encodingOf(bytes);
  const isNul = encoding === 'utf-8' && bytes.includes(0);
  try {
    if (!isNul) return new TextDecoder(encoding, { fatal: true }).decode(bytes);
  } catch {
    // Reported below, with its place.
  }
  throw new ToolError(
    'INVALID_MANIFEST',
    `${name}:${faultyLine(bytes, encoding)}: the file must be text in UTF-8, or in UTF-16 with a byte order mark${isNul ? '; it contains a NUL' : ''}`,
    'Save it as UTF-8.',
  );
}

/**
 * Decodes a file that another program reads in UTF-8 alone, such as a source. @throws CapstanError INVALID_MANIFEST with
 * the line.
 */
export function decodeUtf8(bytes: Uint8Array, name: string, reader: string): string {
  const encoding = encodingOf(bytes);
  if (encoding === 'utf-8') return decodeText(bytes, name);
  throw new ToolError(
    'INVALID_MANIFEST',
    `${name}:1: the file must be UTF-8, which ${reader} reads; it is ${encoding.toUpperCase()}`,
    'Save it as UTF-8.',
  );
}

/**
 * Decodes a source of Python or Node. Python reads the encoding that a source declares itself, and reports what it cannot
 * decode. @throws CapstanError INVALID_MANIFEST with the line.
 */
export function decodeSource(bytes: Buffer, path: string): string {
  const isPython = extname(path) === '.py';
  return isPython && encodingOf(bytes) === 'utf-8' ? bytes.toString('utf8') : decodeUtf8(bytes, path, isPython ? 'Python' : 'Node');
}

/** Reads a file of a folder; null without one. @throws CapstanError INVALID_MANIFEST when it is not text. */
export async function readText(folder: string, name: string): Promise<string | null> {
  try {
    return decodeText(await readFile(join(folder, name)), name);
  } catch (error) {
    if (isErrno(error, 'ENOENT', 'EISDIR', 'ENOTDIR')) return null;
    throw error;
  }
}

/** Returns the line of the first byte that cannot be decoded. */
function faultyLine(bytes: Uint8Array, encoding: Encoding): number {
  if (encoding !== 'utf-8') return new TextDecoder(encoding).decode(bytes).split('\ufffd')[0]?.split('\n').length ?? 1;
  let start = 0;
  for (let line = 1; ; line += 1) {
    const end = bytes.indexOf(0x0a, start);
    const part = bytes.subarray(start, end === -1 ? undefined : end);
    if (part.includes(0) || !isUtf8(part) || end === -1) return line;
    start = end + 1;
  }
}

function isUtf8(bytes: Uint8Array): boolean {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    return true;
  } catch {
    return false;
  }
}
