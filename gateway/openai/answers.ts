/** Responses to OpenAI clients: one raw document, or server-sent events as the handler yields them. */
import { INTERNAL_ERROR } from '../../lib/http-messages.ts';
import { OpenAiError, yieldedError, yieldedEventError } from '../http/openai-errors.ts';
import { CallerGone, type OpenAiJob } from './job.ts';

/** A complete response. */
export interface Document {
  readonly type: string;
  readonly body: string | Buffer;
}

const JSON_TYPE = 'application/json; charset=utf-8';

/**
 * Returns the response of a call without `stream`: the only yield of the generator, or the result of a plain handler.
 * Throws OpenAiError.
 */
export async function documentOf(job: OpenAiJob): Promise<Document> {
  let first: Buffer | null = null;
  let count = 0;
  for await (const chunk of job.chunks()) {
    first ??= chunk;
    count += 1;
  }
  const ended = await job.completed();
  // Several yields are returned as the list that is the job's output.
  const bytes = count === 1 && first !== null ? first : await job.bytesOf(ended.output);
  return bytes === null ? { type: JSON_TYPE, body: 'null' } : document(bytes);
}

function document(bytes: Buffer): Document {
  if (bytes[0] === 0x22) {
    const text = JSON.parse(bytes.toString('utf8')) as string;
    if (/^\s*[{[]/.test(text) && isJson(text)) return { type: JSON_TYPE, body: text };
    return { type: 'text/plain; charset=utf-8', body: text };
  }
  if (bytes[0] === 0x7b && bytes.includes('"error"')) {
    const error = yieldedError(JSON.parse(bytes.toString('utf8')));
    if (error !== null) throw error;
  }
  return { type: JSON_TYPE, body: bytes };
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    // Not JSON: a plain text.
    return false;
  }
}

/**
 * Yields the response of a call with `stream`: yielded texts unchanged; yielded objects become events, with a closing
 * `[DONE]`. Throws OpenAiError before the first text; a later error is sent as a last event.
 */
export async function* eventsOf(job: OpenAiJob): AsyncGenerator<string, void> {
  let last = '';
  let framed = false;
  try {
    for await (const chunk of job.chunks()) {
      const value: unknown = JSON.parse(chunk.toString('utf8'));
      if (value === '') continue;
      const error = typeof value === 'string' ? (last === '' ? yieldedEventError(value) : null) : yieldedError(value);
      if (error !== null) throw error;
      framed ||= typeof value !== 'string';
      last = typeof value === 'string' ? value : event(oneLine(chunk));
      yield last;
    }
    if (last === '') {
      // A handler that is not a generator: its result is the only text.
      const { output } = await job.completed();
      const bytes = (await job.bytesOf(output)) ?? Buffer.from('null');
      const value: unknown = JSON.parse(bytes.toString('utf8'));
      const error = yieldedError(value);
      if (error !== null) throw error;
      if (typeof value === 'string') yield value;
      else if (value !== null && !(Array.isArray(value) && value.length === 0)) yield event(oneLine(bytes));
      framed = typeof value !== 'string';
    }
    if (framed) yield event('[DONE]');
  } catch (thrown) {
    if (last === '' || thrown instanceof CallerGone) throw thrown;
    const error = thrown instanceof OpenAiError ? thrown : new OpenAiError(500, INTERNAL_ERROR);
    // Ends an event that was cut off.
    const separator = last.endsWith('\n\n') ? '' : last.endsWith('\n') ? '\n' : '\n\n';
    yield `${separator}event: error\n${event(error.text)}`;
    if (error !== thrown) throw thrown;
  }
}

/** The document in one line, with its numbers as they are: JSON has line ends between its values only. */
function oneLine(document: Buffer): string {
  return document.toString('utf8').replaceAll(/[\r\n]+/g, ' ');
}

function event(data: string): string {
  return `data: ${data}\n\n`;
}
