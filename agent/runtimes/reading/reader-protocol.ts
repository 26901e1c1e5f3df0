/**
 * The protocol between the agent and the reader of an account. The agent sends messages and the descriptors of sources on
 * the IPC channel of Node; the reader sends frames (frames.ts) on a pipe. What it sends is checked as if a worker had sent
 * it: bytes of tenants may have broken it.
 */
import type { FrameLimits } from '../frames.ts';
import { MAX_HTTP_HEADER_BYTES } from '../host-frames.ts';
import { MAX_RESULT_BYTES } from '../runtime.ts';
import type { SourceRole } from '../worker-records.ts';

/** Descriptor of the pipe, in the reader; before it are its leash (leash.ts) and the IPC channel. */
export const RECORDS_FD = 5;

/** `w`: number of a worker, which is never used again. */
export type ToReader =
  /** With a socket: reads it from now on. */
  | { readonly t: 'source'; readonly w: number; readonly role: SourceRole }
  /** Bytes of a source, before those of its socket, or of one that has none. */
  | { readonly t: 'bytes'; readonly w: number; readonly role: SourceRole; readonly bytes: Uint8Array }
  /** Ends a source after what it has now. */
  | { readonly t: 'end'; readonly w: number; readonly role: SourceRole }
  /** The processes of the worker are gone: reads what is left, whatever is held. */
  | { readonly t: 'finish'; readonly w: number }
  /** Reads nothing more of its channel. */
  | { readonly t: 'stop'; readonly w: number }
  | { readonly t: 'forget'; readonly w: number }
  /** Replies `caught-up` once what its sources have now was read. */
  | { readonly t: 'catch-up'; readonly w: number }
  /** The account holds too much: reads no sources until it is called with false. */
  | { readonly t: 'hold'; readonly is: boolean }
  | { readonly t: 'ping' };

export type FromReader =
  | { readonly t: 'pong' }
  /** A socket has arrived. */
  | { readonly t: 'passed' }
  /** `h`: the header of a worker's frame; body: its body. */
  | { readonly t: 'frame'; readonly w: number; readonly h: unknown }
  /** Body: lines, each with its line end. */
  | { readonly t: 'lines'; readonly w: number; readonly stream: 'stdout' | 'stderr' }
  | { readonly t: 'violation'; readonly w: number; readonly text: string }
  /** One for each `catch-up`, in order. */
  | { readonly t: 'caught-up'; readonly w: number }
  | { readonly t: 'ended'; readonly w: number; readonly role: SourceRole };

const HEADER_BYTES = 4 * 1024;
/** Lines of one read, and what was held before it; an invalid byte becomes a character of three. */
const LINES_BYTES = 2 * 1024 * 1024;
/** Kind and number around the header of a worker's frame. */
const AROUND_BYTES = 64;

const limits = new Map<string, { readonly header: number; readonly body: number }>([
  ['pong', { header: HEADER_BYTES, body: 0 }],
  ['passed', { header: HEADER_BYTES, body: 0 }],
  ['frame', { header: MAX_HTTP_HEADER_BYTES + AROUND_BYTES, body: MAX_RESULT_BYTES }],
  ['lines', { header: HEADER_BYTES, body: LINES_BYTES }],
  ['violation', { header: HEADER_BYTES, body: 0 }],
  ['caught-up', { header: HEADER_BYTES, body: 0 }],
  ['ended', { header: HEADER_BYTES, body: 0 }],
]);

export const limitsOfReader: FrameLimits = (kind) => limits.get(kind);

const ROLES: ReadonlySet<unknown> = new Set<SourceRole>(['channel', 'entries', 'report', 'stdout', 'stderr', 'engine']);

/** Returns the record of a header. @throws Error that describes the violation. */
export function checkRecord(header: unknown): FromReader {
  const record = typeof header === 'object' && header !== null ? (header as Readonly<Record<string, unknown>>) : {};
  if (!isValid(record)) throw new Error(`an invalid record ${JSON.stringify(record['t'])?.slice(0, 32) ?? ''}`);
  return record as unknown as FromReader;
}

function isValid({ t, w, stream, text, role }: Readonly<Record<string, unknown>>): boolean {
  if (t === 'pong' || t === 'passed') return true;
  if (!Number.isSafeInteger(w)) return false;
  switch (t) {
    case 'frame':
    case 'caught-up':
      return true;
    case 'lines':
      return stream === 'stdout' || stream === 'stderr';
    case 'violation':
      return typeof text === 'string';
    case 'ended':
      return ROLES.has(role);
    default:
      return false;
  }
}
