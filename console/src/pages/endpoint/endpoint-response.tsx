/** Shows the response of an endpoint as it comes: always as text or as a file, never as a page. */
import type { JSX } from 'preact';

import type { End } from '../../api/endpoint-request.ts';
import { save } from '../../ui/download.ts';
import { bytes, duration } from '../../ui/format.ts';
import { JsonDocument } from '../../ui/json.tsx';
import { Badge, Text } from '../../ui/parts.tsx';

export interface Received {
  readonly status: number;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: readonly Uint8Array<ArrayBuffer>[];
  readonly size: number;
  /** From the request to this point, ms. */
  readonly tookMs: number;
  /** Undefined while it goes on; STOPPED by the user. */
  readonly end?: End | 'STOPPED';
  readonly error?: string;
}

/** Longer bodies are shown by their beginning. */
const SHOWN_BYTES = 64 * 1024;
const TEXT = /^(text\/|application\/(json|javascript|xml|x-ndjson|jsonl|yaml|x-www-form-urlencoded)\b|[^;]*\+(json|xml)\b|image\/svg)/i;
const JSON_TYPE = /^[^;]*[/+]json\b/i;

const ENDS: Readonly<Record<End | 'STOPPED', string>> = {
  COMPLETE: '',
  SIZE: 'The response is longer. The console reads at most 4 MiB of it.',
  TIME: 'The response goes on. The console reads it for at most 5 minutes.',
  BROKEN: 'The endpoint ended the response before it was complete',
  STOPPED: 'Stopped. The response goes on without the console.',
};

export function EndpointResponse({ received }: { received: Received }): JSX.Element {
  const { status, headers, size, tookMs, end, error } = received;
  const note = end === undefined || end === 'COMPLETE' ? undefined : `${ENDS[end]}${error === undefined ? '' : `: ${error}`}`;
  return (
    <div class="panel">
      <p role="status">
        {status === 0 ? (
          'No response'
        ) : (
          <>
            <Badge state={String(status)} /> {bytes(size)}
          </>
        )}{' '}
        in {duration(tookMs)}
        {end === undefined && ', more may come'}
      </p>
      {note !== undefined && (
        <p class="failure">
          <Text of={note} />
        </p>
      )}
      <details>
        <summary>{headers.length} headers</summary>
        <pre tabIndex={0} aria-label="Response headers">
          <Text of={headers.map(([name, value]) => `${name}: ${value}`).join('\n')} />
        </pre>
      </details>
      <Body received={received} />
    </div>
  );
}

function Body({ received: { headers, body, size, end } }: { received: Received }): JSX.Element | null {
  if (size === 0) return end !== 'COMPLETE' ? null : <p class="muted">The response has no body.</p>;
  const type = headers.find(([name]) => name.toLowerCase() === 'content-type')?.[1] ?? '';
  const text = textOf(type, body);
  // The browser must not take the file for anything that it would open.
  const download = (
    <button type="button" onClick={() => save('response.bin', new Blob([...body], { type: 'application/octet-stream' }))}>
      Download ({bytes(size)})
    </button>
  );
  if (text === undefined)
    return (
      <>
        <p>
          <Text of={`${bytes(size)} of ${type === '' ? 'binary data' : type}`} />
        </p>
        {download}
      </>
    );
  if (JSON_TYPE.test(type) && end === 'COMPLETE' && size <= SHOWN_BYTES) return <JsonDocument name="response.json" text={text} />;
  return (
    <>
      {size > SHOWN_BYTES && (
        <p class="muted">
          The first {bytes(SHOWN_BYTES)} of {bytes(size)}.
        </p>
      )}
      {download}
      <pre tabIndex={0} role="log" aria-label="Response body">
        <Text of={text} />
      </pre>
    </>
  );
}

/** The beginning of a body; undefined when it is no text. */
function textOf(type: string, body: Received['body']): string | undefined {
  const decoder = new TextDecoder('utf-8', { fatal: !TEXT.test(type) });
  let text = '';
  let left = SHOWN_BYTES;
  try {
    for (const part of body) {
      if (left <= 0) break;
      text += decoder.decode(part.subarray(0, left), { stream: true });
      left -= part.length;
    }
  } catch {
    return undefined;
  }
  // Bytes that happen to be UTF-8 are no text with a zero among them.
  return !TEXT.test(type) && text.includes('\0') ? undefined : text;
}
