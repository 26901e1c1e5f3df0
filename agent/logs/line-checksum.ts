/**
 * The checksum of a stored line: the last member of its JSON object. Lines of sealed segments have none, because the whole
 * segment has one; lines of earlier versions neither.
 */
import { crc32 } from 'node:zlib';

const CHECKSUM = /,"c":"([0-9a-f]{8})"\}$/;
/** Length of the member, and of what closes the object. */
const LENGTH = ',"c":"00000000"}'.length;

/** Adds the checksum to a JSON object that has a member. */
export function withChecksum(json: string): string {
  return `${json.slice(0, -1)},"c":"${sumOf(json)}"}`;
}

/** Returns the line as it was before its checksum was added; undefined if it has changed since. */
export function withoutChecksum(line: string): string | undefined {
  const sum = CHECKSUM.exec(line.slice(-LENGTH))?.[1];
  if (sum === undefined) return line;
  const json = `${line.slice(0, -LENGTH)}}`;
  return sumOf(json) === sum ? json : undefined;
}

function sumOf(json: string): string {
  return crc32(json).toString(16).padStart(8, '0');
}
