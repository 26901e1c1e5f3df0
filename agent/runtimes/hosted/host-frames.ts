/**
 * Validates the frames of a worker's host. User code runs in the same process and can write to the channel itself, and
 * the contents of a frame travel on streams shared with this node's other workers: an invalid frame ends its own worker
 * and nothing else.
 */
import { MAX_CHUNK_BYTES, MAX_PROGRESS_BYTES, MAX_RESULT_BYTES } from '../runtime.ts';
import type { FromHost } from './protocol.ts';

type Check = (value: unknown) => boolean;

/** Longest error or detail text, characters; hosts truncate earlier. */
const MAX_TEXT = 256 * 1024;
const MAX_KEY = 256;
const MAX_UINT32 = 0xffff_ffff;

const isText: Check = (value) => typeof value === 'string';
const isShortText: Check = (value) => typeof value === 'string' && value.length <= MAX_TEXT;
const isKey: Check = (value) => typeof value === 'string' && value.length <= MAX_KEY;
const isFlag: Check = (value) => typeof value === 'boolean';
const isCount: Check = (value) => Number.isInteger(value) && (value as number) >= 0 && (value as number) <= MAX_UINT32;
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
}

const bodyBytes = MAX_RESULT_BYTES;
const key = isKey;

const shapes = {
  up: { fields: {} },
  loaded: { fields: {} },
  'load-failed': { fields: { detail: isShortText } },
  reloading: { fields: {} },
  stuck: { fields: {} },
  culprit: { fields: { key } },
  died: { fields: { detail: isShortText } },
  chunk: { fields: { key }, body: MAX_CHUNK_BYTES },
  progress: { fields: { key }, body: MAX_PROGRESS_BYTES },
  returned: { fields: { key, ms: isDuration }, body: MAX_RESULT_BYTES },
  failed: { fields: { key, ms: isDuration, error: isShortText } },
  stopped: { fields: { key, ms: isDuration, entered: isFlag } },
  log: { fields: { stream: isStream, jobId: isKey, text: isText } },
  'http-head': { fields: { key, status: isNumber, headers: isHeaders, ended: isFlag }, body: bodyBytes },
  'http-body': { fields: { key, ended: isFlag }, body: bodyBytes },
  'http-credit': { fields: { key, count: isCount } },
  'http-failed': { fields: { key, message: isShortText } },
} as const satisfies Readonly<Record<FromHost['t'], Shape>>;

/** Returns the header of a frame. @throws Error that describes the violation. */
export function checkHostFrame(header: unknown, body: Uint8Array): FromHost {
  const frame = typeof header === 'object' && header !== null ? (header as Readonly<Record<string, unknown>>) : {};
  const kind = frame['t'];
  if (typeof kind !== 'string' || !isKind(kind)) throw new Error(`a frame of the worker host has the unknown kind ${shown(kind)}`);
  const shape: Shape = shapes[kind];
  for (const [field, check] of Object.entries(shape.fields)) {
    if (!check(frame[field])) throw new Error(`a frame ${kind} of the worker host has the invalid ${field} ${shown(frame[field])}`);
  }
  const most = shape.body ?? 0;
  if (body.length > most) throw new Error(`a frame ${kind} of the worker host has ${body.length} bytes; at most ${most} are allowed`);
  return frame as unknown as FromHost;
}

function isKind(kind: string): kind is FromHost['t'] {
  return Object.hasOwn(shapes, kind);
}

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? 'undefined';
  return text.length > 64 ? `${text.slice(0, 64)}…` : text;
}
