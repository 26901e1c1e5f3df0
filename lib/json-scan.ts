/**
 * A strict JSON scanner over bytes. It accepts exactly what JSON.parse accepts (up to a nesting limit) without building
 * values: a body of 20 MB needs no extra memory and little time. It returns the exact bytes of a member, so that
 * numbers beyond 2^53, key order and white space inside `input` reach the handler unchanged.
 */

/** Levels of nesting accepted: worker languages with recursive parsers must be able to read the document. */
export const MAX_DEPTH = 512;

/** Range of a value: from `start` up to, not including, `end`. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

export type Scan =
  | { readonly ok: true; readonly members: ReadonlyMap<string, Span> }
  /** `syntax`: not JSON, at `offset`. `shape`: JSON, but not an object. `depth`: nested too deeply. */
  | { readonly ok: false; readonly why: 'syntax' | 'shape' | 'depth'; readonly offset: number };

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const MINUS = 0x2d;
const PLUS = 0x2b;
const DOT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;

/** Longest spelling of a wanted key to decode: each character may be a \uXXXX escape. */
const MAX_KEY_BYTES = 128;

// Scratch of one synchronous scan: the closing bracket of each open level.
const closers = new Uint8Array(MAX_DEPTH + 1);
let tooDeep = false;

/** Start of the text: a byte order mark is not part of it (RFC 8259 section 8.1) and is not allowed elsewhere. */
export function textStart(bytes: Buffer): number {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0;
}

/**
 * Validates the whole text and finds the wanted members of its top-level object. The last one of a duplicate key
 * counts, as with JSON.parse.
 */
export function scanObject(bytes: Buffer, wanted: ReadonlySet<string>): Scan {
  tooDeep = false;
  let at = skipSpace(bytes, textStart(bytes));
  if (bytes[at] !== OPEN_BRACE) return notAnObject(bytes, at);
  const members = new Map<string, Span>();
  at = skipSpace(bytes, at + 1);
  if (bytes[at] === CLOSE_BRACE) return atEnd(bytes, at + 1) ? { ok: true, members } : syntax(skipSpace(bytes, at + 1));
  for (;;) {
    const key = at;
    const colon = keyEnd(bytes, at);
    if (colon < 0) return syntax(~colon);
    const start = skipSpace(bytes, colon + 1);
    const end = valueEnd(bytes, start);
    if (end < 0) return tooDeep ? { ok: false, why: 'depth', offset: ~end } : syntax(~end);
    const name = wantedName(bytes, key, colon, wanted);
    if (name !== undefined) members.set(name, { start, end });
    at = skipSpace(bytes, end);
    if (bytes[at] === COMMA) {
      at = skipSpace(bytes, at + 1);
      continue;
    }
    if (bytes[at] !== CLOSE_BRACE) return syntax(at);
    return atEnd(bytes, at + 1) ? { ok: true, members } : syntax(skipSpace(bytes, at + 1));
  }
}

function syntax(offset: number): Scan {
  return { ok: false, why: 'syntax', offset };
}

function notAnObject(bytes: Uint8Array, at: number): Scan {
  const end = valueEnd(bytes, at);
  if (end < 0) return tooDeep ? { ok: false, why: 'depth', offset: ~end } : syntax(~end);
  return atEnd(bytes, end) ? { ok: false, why: 'shape', offset: at } : syntax(skipSpace(bytes, end));
}

function atEnd(bytes: Uint8Array, at: number): boolean {
  return skipSpace(bytes, at) === bytes.length;
}

/** Returns the key between `key` (its opening quote) and the colon, if it is a wanted one. */
function wantedName(bytes: Buffer, key: number, colon: number, wanted: ReadonlySet<string>): string | undefined {
  let close = colon - 1;
  while (bytes[close] !== QUOTE) close -= 1;
  if (close - key > MAX_KEY_BYTES) return undefined;
  let name = bytes.toString('latin1', key + 1, close);
  if (name.includes('\\')) name = String(JSON.parse(bytes.toString('utf8', key, close + 1)));
  return wanted.has(name) ? name : undefined;
}

function skipSpace(bytes: Uint8Array, at: number): number {
  for (;;) {
    const byte = bytes[at];
    if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return at;
    at += 1;
  }
}

/** Returns the index of the colon after the key that starts at `at`; on error the complement of the offset. */
function keyEnd(bytes: Uint8Array, at: number): number {
  if (bytes[at] !== QUOTE) return ~at;
  const end = stringEnd(bytes, at + 1);
  if (end < 0) return end;
  const colon = skipSpace(bytes, end);
  return bytes[colon] === COLON ? colon : ~colon;
}

/** Returns the index after the value that starts at `at`; on error the complement of the offset. */
function valueEnd(bytes: Uint8Array, at: number): number {
  let depth = 0;
  for (;;) {
    const byte = bytes[at];
    if (byte === QUOTE) {
      at = stringEnd(bytes, at + 1);
    } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
      // The object around `input` is level one.
      if (depth >= MAX_DEPTH - 1) {
        tooDeep = true;
        return ~at;
      }
      depth += 1;
      const closer = byte === OPEN_BRACE ? CLOSE_BRACE : CLOSE_BRACKET;
      closers[depth] = closer;
      const opened = at;
      at = skipSpace(bytes, at + 1);
      if (bytes[at] === closer) {
        depth -= 1;
        at += 1;
      } else {
        if (bytes[opened] === OPEN_BRACE) {
          const colon = keyEnd(bytes, at);
          if (colon < 0) return colon;
          at = skipSpace(bytes, colon + 1);
        }
        continue;
      }
    } else if (byte === MINUS || (byte !== undefined && byte >= ZERO && byte <= NINE)) {
      at = numberEnd(bytes, at);
    } else {
      at = wordEnd(bytes, at);
    }
    if (at < 0) return at;
    // After a value: close levels until one continues.
    for (;;) {
      if (depth === 0) return at;
      at = skipSpace(bytes, at);
      const next = bytes[at];
      if (next === COMMA) {
        at = skipSpace(bytes, at + 1);
        if (closers[depth] === CLOSE_BRACE) {
          const colon = keyEnd(bytes, at);
          if (colon < 0) return colon;
          at = skipSpace(bytes, colon + 1);
        }
        break;
      }
      if (next !== closers[depth]) return ~at;
      depth -= 1;
      at += 1;
    }
  }
}

/** `at` is the first byte after the opening quote; returns the first after the closing one. */
function stringEnd(bytes: Uint8Array, at: number): number {
  for (;;) {
    const byte = bytes[at];
    if (byte === QUOTE) return at + 1;
    if (byte === undefined || byte < 0x20) return ~at;
    if (byte !== BACKSLASH) {
      at += 1;
      continue;
    }
    const escape = bytes[at + 1];
    switch (escape) {
      case 0x22: // "
      case 0x5c: // \
      case 0x2f: // /
      case 0x62: // b
      case 0x66: // f
      case 0x6e: // n
      case 0x72: // r
      case 0x74: // t
        at += 2;
        break;
      case 0x75: // u
        for (let digit = at + 2; digit < at + 6; digit += 1) if (!isHex(bytes[digit])) return ~digit;
        at += 6;
        break;
      default:
        return ~(at + 1);
    }
  }
}

function isHex(byte: number | undefined): boolean {
  if (byte === undefined) return false;
  return (byte >= ZERO && byte <= NINE) || (byte >= 0x41 && byte <= 0x46) || (byte >= 0x61 && byte <= 0x66);
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= ZERO && byte <= NINE;
}

function numberEnd(bytes: Uint8Array, at: number): number {
  if (bytes[at] === MINUS) at += 1;
  if (!isDigit(bytes[at])) return ~at;
  if (bytes[at] === ZERO) at += 1;
  else while (isDigit(bytes[at])) at += 1;
  if (bytes[at] === DOT) {
    at += 1;
    if (!isDigit(bytes[at])) return ~at;
    while (isDigit(bytes[at])) at += 1;
  }
  const exponent = bytes[at];
  if (exponent === 0x65 || exponent === 0x45) {
    at += 1;
    if (bytes[at] === PLUS || bytes[at] === MINUS) at += 1;
    if (!isDigit(bytes[at])) return ~at;
    while (isDigit(bytes[at])) at += 1;
  }
  return at;
}

function wordEnd(bytes: Uint8Array, at: number): number {
  const word = bytes[at] === 0x74 ? 'true' : bytes[at] === 0x66 ? 'false' : bytes[at] === 0x6e ? 'null' : '';
  if (word === '') return ~at;
  for (let index = 1; index < word.length; index += 1) if (bytes[at + index] !== word.charCodeAt(index)) return ~(at + index);
  return at + word.length;
}
