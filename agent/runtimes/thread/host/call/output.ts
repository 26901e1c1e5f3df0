/** Encodes values as JSON bytes within the limits, with readable error messages. */
import { MAX_CHUNK_BYTES, MAX_RESULT_BYTES } from '../../../runtime.ts';
import { jsonText } from './json-values.ts';

/** The handler's value is not a valid result; the message is the job's error. */
export class OutputError extends Error {}

const encoder = new TextEncoder();

/** Returns the JSON text of a value by the table of docs/values.md; `undefined` becomes null. @throws OutputError */
export function toJson(value: unknown, what: 'result' | 'chunk' | 'progress' | 'message'): string {
  if (typeof value === 'function' || typeof value === 'symbol') throw new OutputError(`the ${what} is not JSON: a ${typeof value}`);
  try {
    return jsonText(value, what);
  } catch (error) {
    throw new OutputError(`the ${what} is not JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
}

export function resultBytes(json: string): Uint8Array {
  const bytes = encoder.encode(json);
  if (bytes.length > MAX_RESULT_BYTES) throw new OutputError(`the result has ${bytes.length} bytes; at most 20 MiB are allowed`);
  return bytes;
}

export function chunkBytes(json: string): Uint8Array {
  const bytes = encoder.encode(json);
  if (bytes.length > MAX_CHUNK_BYTES) throw new OutputError(`a chunk has ${bytes.length} bytes; at most 1 MiB is allowed`);
  return bytes;
}

/** The output of a generator's job: the array of its chunks, whose total size is limited like any result. */
export class Aggregate {
  readonly #chunks: Uint8Array[] = [];
  // The brackets.
  #bytes = 2;

  add(chunk: Uint8Array): void {
    this.#bytes += chunk.length + 1;
    if (this.#bytes > MAX_RESULT_BYTES) throw new OutputError('the chunks together have more than 20 MiB, the limit of a result');
    this.#chunks.push(chunk);
  }

  toBytes(): Uint8Array {
    const out = new Uint8Array(Math.max(2, this.#bytes - (this.#chunks.length > 0 ? 1 : 0)));
    out[0] = 0x5b;
    let at = 1;
    for (const [index, chunk] of this.#chunks.entries()) {
      if (index > 0) out[at++] = 0x2c;
      out.set(chunk, at);
      at += chunk.length;
    }
    out[at] = 0x5d;
    return out;
  }
}

/** Returns the message of a thrown value: an Error's message, a string itself, anything else as JSON. */
export function errorMessage(thrown: unknown): string {
  return clip(messageOf(thrown));
}

/** Returns the text for the worker's log. */
export function errorStack(thrown: unknown): string {
  const stack = typeof thrown === 'object' && thrown !== null && 'stack' in thrown ? thrown.stack : undefined;
  return typeof stack === 'string' ? stack : messageOf(thrown);
}

function messageOf(thrown: unknown): string {
  if (typeof thrown === 'string') return thrown;
  if (typeof thrown === 'object' && thrown !== null) {
    if ('message' in thrown && typeof thrown.message === 'string') {
      if (thrown.message !== '') return thrown.message;
      if ('name' in thrown && typeof thrown.name === 'string') return thrown.name;
    }
    try {
      return JSON.stringify(thrown) ?? Object.prototype.toString.call(thrown);
    } catch {
      // A thrown value that cannot be formatted still has a type.
      return Object.prototype.toString.call(thrown);
    }
  }
  return String(thrown);
}

/** A caller needs a line or two of an error, not a document. */
const MAX_ERROR_CHARACTERS = 16_384;

function clip(text: string): string {
  return text.length <= MAX_ERROR_CHARACTERS ? text : `${text.slice(0, MAX_ERROR_CHARACTERS)}…`;
}
