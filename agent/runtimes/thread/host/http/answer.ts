/**
 * Converts a function's return value to an HTTP response: a Response as it is, bytes as bytes, an iterator as a stream
 * (server-sent events if the caller requests them), anything else as JSON.
 */
import { AsyncLocalStorage } from 'node:async_hooks';

import { toJson } from '../call/output.ts';
import type { Place } from '../call/unfit.ts';

export interface Answer {
  readonly status: number;
  readonly headers: readonly (readonly [string, string])[];
  /** Bytes available now. */
  readonly bytes: Uint8Array;
  /** The bytes that follow. */
  readonly rest: AsyncIterator<Uint8Array> | undefined;
}

const NOTHING = new Uint8Array();
const encoder = new TextEncoder();
const decoder = new TextDecoder();
const JSON_HEADERS = [['content-type', 'application/json; charset=utf-8']] as const;

/** Returns the response of an error. `errors`: the places of values that do not fit. */
export function errorAnswer(status: number, title: string, detail: string, errors?: readonly Place[]): Answer {
  const body = { error: title, detail, ...(errors === undefined ? {} : { errors }) };
  return { status, headers: JSON_HEADERS, bytes: encoder.encode(JSON.stringify(body)), rest: undefined };
}

/** `accept`: the caller's Accept header. Throws OutputError for a value without a JSON form. */
export async function answerOf(value: unknown, accept: string): Promise<Answer> {
  if (value instanceof Response) return fromResponse(value);
  if (value instanceof Uint8Array) return bytesAnswer(value);
  if (value instanceof ArrayBuffer) return bytesAnswer(new Uint8Array(value));
  const chunks = chunksOf(value);
  if (chunks !== undefined) return streamed(chunks, accept);
  const bytes = encoder.encode(toJson(value, 'result'));
  return { status: 200, headers: JSON_HEADERS, bytes, rest: undefined };
}

function bytesAnswer(bytes: Uint8Array): Answer {
  return { status: 200, headers: [['content-type', 'application/octet-stream']], bytes, rest: undefined };
}

function fromResponse(response: Response): Answer {
  const headers = [...response.headers];
  if (response.body === null) return { status: response.status, headers, bytes: NOTHING, rest: undefined };
  return { status: response.status, headers, bytes: NOTHING, rest: response.body[Symbol.asyncIterator]() };
}

type Chunks = AsyncIterator<unknown> | Iterator<unknown>;

/** True for a generator or another iterator; arrays, maps and strings are values. */
function chunksOf(value: unknown): Chunks | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (Symbol.asyncIterator in value) return (value as AsyncIterable<unknown>)[Symbol.asyncIterator]();
  if (Symbol.iterator in value && 'next' in value && typeof value.next === 'function')
    return (value as Iterable<unknown>)[Symbol.iterator]();
  return undefined;
}

/**
 * Events or newline-delimited JSON if the caller requests them; otherwise the first chunk selects the kind of stream:
 * text, bytes, or JSON documents.
 */
async function streamed(source: Chunks, accept: string): Promise<Answer> {
  const chunks = inOneContext(source);
  const first = await chunks.next();
  const events = accept.includes('text/event-stream');
  const isText = !accept.includes('application/x-ndjson') && (first.done === true || typeof first.value === 'string');
  const kind = events ? 'events' : first.value instanceof Uint8Array ? 'bytes' : isText ? 'text' : 'lines';
  const type = {
    events: 'text/event-stream; charset=utf-8',
    text: 'text/plain; charset=utf-8',
    bytes: 'application/octet-stream',
    lines: 'application/x-ndjson; charset=utf-8',
  }[kind];
  const headers: [string, string][] = [['content-type', type]];
  if (events) headers.push(['cache-control', 'no-cache']);
  const write = (value: unknown): Uint8Array => {
    if (events) return encoder.encode(eventText(value));
    if (value instanceof Uint8Array) return value;
    return encoder.encode(typeof value === 'string' && kind !== 'lines' ? value : `${toJson(value, 'chunk')}\n`);
  };
  const rest: AsyncIterator<Uint8Array> = {
    async next() {
      const step = await chunks.next();
      return step.done === true ? { done: true, value: undefined } : { done: false, value: write(step.value) };
    },
    async return() {
      await source.return?.();
      return { done: true, value: undefined };
    },
  };
  return first.done === true
    ? { status: 200, headers, bytes: NOTHING, rest: undefined }
    : { status: 200, headers, bytes: write(first.value), rest };
}

/** What a generator enters in an AsyncLocalStorage holds in its next steps, whoever asks for them. */
function inOneContext(source: Chunks): { next(): ReturnType<Chunks['next']> } {
  let within = AsyncLocalStorage.snapshot();
  const next = (): ReturnType<Chunks['next']> => {
    const step = source.next();
    within = AsyncLocalStorage.snapshot();
    return step;
  };
  return { next: () => within(next) };
}

const LINE_END = /\r\n|\r|\n/;
const EVENT_LINE = /^(?:(?:data|event|id|retry)(?::|$)|:|$)/;

/**
 * Encodes a chunk as a server-sent event: text as its lines, anything else as JSON. Text that already consists of
 * events is unchanged.
 */
function eventText(value: unknown): string {
  const text = value instanceof Uint8Array ? decoder.decode(value) : typeof value === 'string' ? value : toJson(value, 'chunk');
  const lines = text.split(LINE_END);
  if (isEvents(lines)) return text;
  return `${lines.map((line) => `data: ${line}`).join('\n')}\n\n`;
}

/** True for whole events: each line is a field, a comment or empty, and the last event ends with an empty line. */
function isEvents(lines: readonly string[]): boolean {
  return lines.length > 2 && lines.at(-1) === '' && lines.at(-2) === '' && lines[0] !== '' && lines.every((line) => EVENT_LINE.test(line));
}
