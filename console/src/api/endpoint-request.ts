/** Requests to load-balanced endpoints: the gateway sends them and returns the response in an envelope, as lines of JSON. */
import { ApiError, LONG_LIMIT_MS, parse, send } from './request.ts';

export interface HeaderField {
  readonly name: string;
  readonly value: string;
}

export interface EndpointRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: readonly HeaderField[];
  readonly body?: string;
}

/** Why a response ended: SIZE and TIME are limits of the console, BROKEN is the endpoint's failure. */
export type End = 'COMPLETE' | 'SIZE' | 'TIME' | 'BROKEN';

export type Part =
  | { readonly kind: 'head'; readonly status: number; readonly headers: readonly (readonly [string, string])[] }
  | { readonly kind: 'body'; readonly bytes: Uint8Array<ArrayBuffer> }
  | { readonly kind: 'end'; readonly why: End; readonly error?: string };

type Line = Exclude<Part, { kind: 'body' }> | { readonly kind: 'body'; readonly bytes: string };

/** Sends a request and reads its response as it comes. @throws ApiError for what the gateway refuses to send. */
export async function* requestEndpoint(endpoint: string, request: EndpointRequest, signal: AbortSignal): AsyncGenerator<Part> {
  const response = await send(`lb/${encodeURIComponent(endpoint)}`, {
    method: 'POST',
    body: JSON.stringify(request),
    signal,
    limitMs: LONG_LIMIT_MS,
  });
  if (response.body === null) throw new ApiError(0, 'The gateway sent no response.');
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    const lines = (text + value).split('\n');
    text = lines.pop() ?? '';
    for (const line of lines) {
      if (line === '') continue;
      const part = parse(line) as Line;
      yield part.kind === 'body' ? { kind: 'body', bytes: bytesOf(part.bytes) } : part;
      if (part.kind === 'end') return;
    }
  }
  throw new ApiError(0, 'The connection to the gateway was lost before the response was complete.');
}

function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}
