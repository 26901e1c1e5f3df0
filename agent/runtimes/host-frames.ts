/**
 * Validates the frames of a worker's host. User code runs in the same process and can write to the channel itself, and
 * the contents of a frame travel on streams shared with this node's other workers: an invalid frame ends its own worker
 * and nothing else.
 *
 * Headers are short, and texts of any length are bodies: the size of a frame is judged by its kind before a byte of it is
 * parsed (limitsOfHost).
 */
import type { FrameLimits } from './frames.ts';
import { HTTP_WINDOW_BYTES, MAX_CHUNK_BYTES, MAX_PROGRESS_BYTES, MAX_RESULT_BYTES } from './runtime.ts';
import { MAX_LOG_BYTES, type FromHost } from './host-protocol.ts';

type Check = (value: unknown) => boolean;

const MAX_HEADER_BYTES = 4 * 1024;
/**
 * Headers of a response are at most 64 KiB for a caller (lib/response-validator.ts), which answers for them; JSON has six
 * bytes for some characters.
 */
export const MAX_HTTP_HEADER_BYTES = 448 * 1024;
/** Longest error or detail text, bytes; hosts truncate at 16,384 characters. */
const MAX_TEXT_BYTES = 128 * 1024;
/** Longest key of a task, characters. */
export const MAX_KEY = 256;
const MAX_UINT32 = 0xffff_ffff;

const isText: Check = (value) => typeof value === 'string';
const isKey: Check = (value) => typeof value === 'string' && value.length <= MAX_KEY;
const isFlag: Check = (value) => typeof value === 'boolean';
const isCredit: Check = (value) => Number.isInteger(value) && (value as number) > 0 && (value as number) <= MAX_UINT32;
const isDuration: Check = (value) => typeof value === 'number' && value >= 0 && value <= MAX_UINT32;
const isStream: Check = (value) => value === 'stdout' || value === 'stderr';
/** ValidatedResponse checks the status and the headers. */
const isNumber: Check = (value) => typeof value === 'number';
const isHeaders: Check = (value) =>
  Array.isArray(value) && value.every((pair) => Array.isArray(pair) && pair.length === 2 && pair.every(isText));

interface Shape {
  readonly fields: Readonly<Record<string, Check>>;
  /** Longest body, bytes; absent: no body. */
  readonly body?: number;
  /** Longest header, bytes; default: MAX_HEADER_BYTES. */
  readonly header?: number;
  /** The body is UTF-8 text, and this field of the message. */
  readonly text?: string;
}

const bodyBytes = HTTP_WINDOW_BYTES;
const textBytes = MAX_TEXT_BYTES;
const key = isKey;

const shapes: Readonly<Record<FromHost['t'], Shape>> = {
  up: { fields: {} },
  loaded: { fields: {} },
  'load-failed': { fields: {}, body: textBytes, text: 'detail' },
  reloading: { fields: {} },
  clearing: { fields: { key } },
  stuck: { fields: {} },
  culprit: { fields: { key } },
  died: { fields: {}, body: textBytes, text: 'detail' },
  chunk: { fields: { key }, body: MAX_CHUNK_BYTES },
  progress: { fields: { key }, body: MAX_PROGRESS_BYTES },
  returned: { fields: { key, ms: isDuration }, body: MAX_RESULT_BYTES },
  failed: { fields: { key, ms: isDuration }, body: textBytes, text: 'error' },
  stopped: { fields: { key, ms: isDuration, entered: isFlag } },
  log: { fields: { stream: isStream, jobId: isKey }, body: MAX_LOG_BYTES, text: 'text' },
  'http-head': {
    fields: { key, status: isNumber, headers: isHeaders, ended: isFlag },
    body: bodyBytes,
    header: MAX_HTTP_HEADER_BYTES,
  },
  'http-body': { fields: { key, ended: isFlag }, body: bodyBytes },
  'http-credit': { fields: { key, count: isCredit } },
  'http-failed': { fields: { key }, body: textBytes, text: 'message' },
};

const limits = new Map(Object.entries(shapes).map(([kind, { header = MAX_HEADER_BYTES, body = 0 }]) => [kind, { header, body }] as const));

/** The limits of each kind, for the reader of a host's channel. */
export const limitsOfHost: FrameLimits = (kind) => limits.get(kind);

const NO_BODY: Buffer = Buffer.alloc(0);

/** Returns the message of a frame, whose body may still arrive. @throws Error that describes the violation. */
export function checkHostFrame(header: unknown, body = NO_BODY): FromHost {
  const frame = typeof header === 'object' && header !== null ? (header as Readonly<Record<string, unknown>>) : {};
  const kind = frame['t'];
  if (typeof kind !== 'string' || !isKind(kind)) throw new Error(`a frame of the worker host has the unknown kind ${shown(kind)}`);
  const { fields, body: most = 0, text } = shapes[kind];
  for (const [field, check] of Object.entries(fields)) {
    if (!check(frame[field])) throw new Error(`a frame ${kind} of the worker host has the invalid ${field} ${shown(frame[field])}`);
  }
  for (const field of Object.keys(frame)) {
    if (field !== 't' && !Object.hasOwn(fields, field))
      throw new Error(`a frame ${kind} of the worker host has the unknown field ${shown(field)}`);
  }
  if (body.length > most) throw new Error(`a frame ${kind} of the worker host has ${body.length} bytes; at most ${most} are allowed`);
  return (text === undefined ? frame : { ...frame, [text]: body.toString() }) as unknown as FromHost;
}

function isKind(kind: string): kind is FromHost['t'] {
  return Object.hasOwn(shapes, kind);
}

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? 'undefined';
  return text.length > 64 ? `${text.slice(0, 64)}…` : text;
}
