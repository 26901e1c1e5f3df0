/** Converts a request on `/v2/<endpoint>/openai/*` to the input of its job. Pure. */
import { isUtf8 } from 'node:buffer';

import { CapstanError } from '../../lib/errors.ts';
import { MAX_DEPTH, scanObject, textStart } from '../../lib/json-scan.ts';

export interface OpenAiRequest {
  readonly method: string;
  /** The decoded path after `/openai`, for example `/v1/chat/completions`. */
  readonly route: string;
  /** The query string without its question mark; empty when there is none. */
  readonly query: string;
  /** The body as received; null when there is none. */
  readonly body: Buffer | null;
}

export interface OpenAiInput {
  /** The job's input, the caller's body in it byte for byte. */
  readonly bytes: Buffer;
  /** The caller requested server-sent events. */
  readonly stream: boolean;
}

const WANTED = new Set(['stream']);

/**
 * `{"openai_route":…,"openai_input":<body>}`, without `openai_input` when there is no body. Other properties of the
 * request have their own keys: `openai_method` for a method other than GET without and POST with a body, and
 * `openai_query` for a query string.
 */
export function openAiInput({ method, route, query, body }: OpenAiRequest): OpenAiInput | CapstanError {
  const parts: (string | Buffer)[] = [`{"openai_route":${JSON.stringify(route.toWellFormed())}`];
  let stream = false;
  if (body !== null && body.length > 0) {
    if (!isUtf8(body)) return refusal('must be UTF-8 text');
    const scan = scanObject(body, WANTED);
    if (!scan.ok) {
      switch (scan.why) {
        case 'syntax':
          return refusal(`must be JSON: unexpected ${scan.offset >= body.length ? 'end of text' : 'text'} at byte ${scan.offset}`);
        case 'shape':
          return refusal('must be a JSON object');
        case 'depth':
          return refusal(`must not be nested deeper than ${MAX_DEPTH} levels`);
      }
    }
    const span = scan.members.get('stream');
    stream = span !== undefined && body.toString('latin1', span.start, span.end) === 'true';
    parts.push(',"openai_input":', body.subarray(textStart(body)));
  } else if (method === 'POST') {
    return refusal('is required and must be a JSON object');
  }
  if (method !== (body === null || body.length === 0 ? 'GET' : 'POST')) parts.push(`,"openai_method":${JSON.stringify(method)}`);
  if (query !== '') parts.push(`,"openai_query":${JSON.stringify(query)}`);
  parts.push('}');
  return { bytes: Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : part))), stream };
}

function refusal(rule: string): CapstanError {
  return new CapstanError('INVALID_ARGUMENT', `body: ${rule}`, { field: 'body' });
}
