/** Parses the documents that workers post; the bytes for the caller are passed on unchanged. */
import { isUtf8 } from 'node:buffer';

import { scanObject, type Span } from '../../lib/json-scan.ts';
import { MAX_CHUNK_BYTES, MAX_RESULT_BYTES } from '../runtimes/runtime.ts';
import type { JobPost } from './job-mailbox.ts';

/** Longest error text kept, characters: a traceback, not a document. */
const MAX_ERROR_CHARACTERS = 65_536;
const EMPTY_OBJECT = Buffer.from('{}');
const MEMBERS: ReadonlySet<string> = new Set(['output', 'error', 'status', 'stopPod']);

/** Parses a worker's posted result. An unreadable post becomes a failure with a reason. */
export function readJobPost(body: Buffer): JobPost {
  const members = membersOf(body);
  if (typeof members === 'string') return failure(`the worker posted a result that is not JSON: ${members}`);
  const textOf = (name: string): Buffer | undefined => slice(body, members.get(name));
  const output = textOf('output');
  if (valueOf(textOf('status')) === 'IN_PROGRESS') return { kind: 'progress', output: output ?? EMPTY_OBJECT };
  const stopPod = valueOf(textOf('stopPod')) === true;
  if (output !== undefined && output.length > MAX_RESULT_BYTES) return failure(tooLarge(output.length), stopPod);
  const error = errorOf(valueOf(textOf('error')));
  if (error !== undefined) return { kind: 'failed', error, output, stopPod };
  // Clients omit an output that is `{}`.
  return { kind: 'returned', output: output ?? EMPTY_OBJECT, stopPod };
}

/** Parses one chunk of a generator's output; returns the reason if it is invalid. */
export function readChunk(body: Buffer): { readonly data: Buffer } | { readonly fault: string } {
  const members = membersOf(body);
  if (typeof members === 'string') return { fault: `the worker posted a chunk that is not JSON: ${members}` };
  const data = slice(body, members.get('output')) ?? Buffer.from('null');
  if (data.length > MAX_CHUNK_BYTES) return { fault: `a chunk has ${data.length} bytes; at most 1 MiB is allowed` };
  return { data };
}

export function tooLarge(bytes: number): string {
  return `the result has ${bytes} bytes; at most 20 MiB are allowed`;
}

function failure(error: string, stopPod = false): JobPost {
  return { kind: 'failed', error, output: undefined, stopPod };
}

function membersOf(body: Buffer): ReadonlyMap<string, Span> | string {
  if (!isUtf8(body)) return 'it is not UTF-8';
  const scan = scanObject(body, MEMBERS);
  if (scan.ok) return scan.members;
  switch (scan.why) {
    case 'shape':
      return 'it is not an object';
    case 'depth':
      return 'it is nested too deeply';
    case 'syntax':
      // Python writes these for numbers that JSON cannot represent.
      return /^(NaN|-?Infinity)/.test(body.toString('latin1', scan.offset, scan.offset + 9))
        ? 'it contains NaN or Infinity'
        : `error at byte ${scan.offset}`;
  }
}

function slice(body: Buffer, span: Span | undefined): Buffer | undefined {
  return span === undefined ? undefined : body.subarray(span.start, span.end);
}

function valueOf(text: Buffer | undefined): unknown {
  return text === undefined ? undefined : (JSON.parse(text.toString()) as unknown);
}

/**
 * Returns a worker's error as posted; an error that is not a string is written as JSON, since a job's error is a
 * string.
 */
function errorOf(value: unknown): string | undefined {
  if (value === undefined || value === null || value === '' || value === false) return undefined;
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return text.length <= MAX_ERROR_CHARACTERS ? text : `${text.slice(0, MAX_ERROR_CHARACTERS)}…`;
}
