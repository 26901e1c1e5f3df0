/** Parses request bodies: keeps the bytes as received and converts only the small members to values. */
import { isUtf8 } from 'node:buffer';

import { CapstanError } from '../../lib/errors.ts';
import { MAX_DEPTH, scanObject, type Span } from '../../lib/json-scan.ts';

/** A JSON value that is passed on as bytes and never parsed. */
export class RawJson {
  readonly bytes: Buffer;

  constructor(bytes: Buffer) {
    this.bytes = bytes;
  }

  get isObject(): boolean {
    return this.bytes[0] === 0x7b;
  }
}

/** The members of a body that the gateway knows; others are ignored. */
export interface ParsedBody {
  readonly input?: RawJson;
  readonly webhook?: unknown;
  readonly policy?: unknown;
  readonly s3Config?: unknown;
  readonly tags?: unknown;
  readonly id?: unknown;
}

const SMALL = new Set(['webhook', 'policy', 's3Config', 'tags', 'id']);
const KNOWN = new Set(['input', ...SMALL]);
const NONE: ReadonlySet<string> = new Set();
const MAX_SMALL_BYTES = 16 * 1024;

/**
 * Returns the body's known members, or the refusal to respond with. Never throws, because a refusal must not end the
 * connection.
 */
export function parseBody(bytes: Buffer): ParsedBody | CapstanError {
  const members = membersOf(bytes, KNOWN);
  if (members instanceof CapstanError) return members;
  const body: Record<string, unknown> = {};
  for (const [name, span] of members) {
    const value = bytes.subarray(span.start, span.end);
    if (name === 'input') {
      body['input'] = new RawJson(value);
    } else if (value.length > MAX_SMALL_BYTES) {
      return refusal(name, `${name}: must be at most ${MAX_SMALL_BYTES} bytes long`);
    } else {
      body[name] = JSON.parse(value.toString('utf8')) as unknown;
    }
  }
  return body;
}

/**
 * Returns the body as a value, or the refusal to respond with. The nesting is limited, so that later code may recurse
 * into the value.
 */
export function parseWhole(bytes: Buffer): unknown {
  const members = membersOf(bytes, NONE);
  return members instanceof CapstanError ? members : (JSON.parse(bytes.toString('utf8').replace(/^\uFEFF/, '')) as unknown);
}

/** Returns the positions of the requested members of a JSON object, or the reason why it is invalid. */
function membersOf(bytes: Buffer, wanted: ReadonlySet<string>): ReadonlyMap<string, Span> | CapstanError {
  if (!isUtf8(bytes)) return refusal('body', 'body: must be UTF-8 text');
  const scan = scanObject(bytes, wanted);
  if (scan.ok) return scan.members;
  switch (scan.why) {
    case 'syntax':
      return refusal(
        'body',
        `body: must be JSON: unexpected ${scan.offset >= bytes.length ? 'end of text' : 'text'} at byte ${scan.offset}`,
      );
    case 'shape':
      return refusal('body', 'body: must be a JSON object');
    case 'depth':
      return refusal('body', `body: must not be nested deeper than ${MAX_DEPTH} levels`);
  }
}

function refusal(field: string, message: string): CapstanError {
  return new CapstanError('INVALID_ARGUMENT', message, { field });
}
