/** Decodes the responses of another endpoint's routes: as a whole, or chunk by chunk as they arrive. */
import { ConnectionError, reasonOf } from './errors.ts';
import { parseExact } from './exact-json.ts';

/** Requests each chunk of the function as a JSON document of its own, whatever the chunks are. */
export const JSON_LINES = 'application/x-ndjson';

/**
 * Returns JSON as its value, text as text, anything else as bytes; undefined for an empty response. @throws
 * ConnectionError for invalid JSON
 */
export function valueOf(call: string, headers: Headers, bytes: Uint8Array): unknown {
  if (bytes.length === 0) return undefined;
  const kind = mediaType(headers);
  if (kind !== JSON_LINES && !isJson(kind) && !kind.startsWith('text/')) return bytes;
  const text = new TextDecoder().decode(bytes);
  if (kind === JSON_LINES) return linesOf(text).map((line) => parsed(call, line));
  return isJson(kind) ? parsed(call, text) : text;
}

/**
 * Yields the chunks as the function yielded them if the response separates them (JSON lines); otherwise text or bytes
 * as they arrive. @throws ConnectionError
 */
export async function* chunksOf(call: string, response: Response): AsyncGenerator<unknown, void, void> {
  const kind = mediaType(response.headers);
  if (response.body === null) return;
  const asText = kind === JSON_LINES || kind.startsWith('text/');
  const decoder = new TextDecoder();
  let rest = '';
  for await (const bytes of partsOf(call, response.body)) {
    if (!asText) {
      yield bytes;
      continue;
    }
    const text = decoder.decode(bytes, { stream: true });
    if (kind === JSON_LINES) {
      const lines = (rest + text).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) if (line !== '') yield parsed(call, line);
    } else if (text !== '') yield text;
  }
  if (rest !== '') yield parsed(call, rest);
}

/** Leaving the loop ends the request: the endpoint notices the disconnection and its function is stopped. */
async function* partsOf(call: string, body: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array, void, void> {
  const reader = body.getReader();
  let isOver = false;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      isOver = done;
      if (done) return;
      yield value;
    }
  } catch (cause) {
    isOver = true;
    throw new ConnectionError(`${call}: the stream ended early: ${reasonOf(cause)}`, cause);
  } finally {
    // Not awaited: the result of cancelling a body is irrelevant.
    if (!isOver) void reader.cancel().catch(() => undefined);
  }
}

function mediaType(headers: Headers): string {
  return (headers.get('content-type') ?? 'application/json').split(';')[0]?.trim().toLowerCase() ?? '';
}

function isJson(kind: string): boolean {
  return kind === 'application/json' || kind.endsWith('+json');
}

function linesOf(text: string): string[] {
  return text.split('\n').filter((line) => line !== '');
}

function parsed(call: string, text: string): unknown {
  try {
    return parseExact(text);
  } catch (cause) {
    throw new ConnectionError(`${call}: the response is not JSON: ${reasonOf(cause)}`, cause);
  }
}
