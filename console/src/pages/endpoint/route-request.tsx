import type { JSX } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';

import { requestEndpoint, type EndpointRequest } from '../../api/endpoint-request.ts';
import { useWriteRefusal } from '../../api/session.ts';
import { ActionButton, Failure, Section } from '../../ui/parts.tsx';
import { visible } from '../../ui/plain-text.ts';
import { Samples } from './call-samples.tsx';
import { EndpointResponse, type Received } from './endpoint-response.tsx';
import type { EndpointData } from './query.ts';
import { draftOf, METHODS, requestOf, takesNoBody, type Draft } from './request-form.ts';
import { requestSamples } from './request-samples.ts';

/** Pause between two parts of a response that are shown, ms: it may come in pieces of a byte. */
const SHOW_MS = 100;

/** A form for a request to a load-balanced endpoint, its response, and the same request as calls to paste. */
export function RouteRequest({ endpoint }: { endpoint: EndpointData }): JSX.Element {
  const { routes } = endpoint;
  const [draft, setDraft] = useState(() => draftOf(endpoint, routes[0]));
  const request = requestOf(draft);
  return (
    <>
      <Section title="Test request">
        <Fields endpoint={endpoint} draft={draft} onChange={setDraft} />
        <Sender endpoint={endpoint.id} request={request} />
      </Section>
      <Samples of={typeof request === 'string' ? [] : requestSamples(endpoint.url, request)} />
    </>
  );
}

interface FieldsProps {
  readonly endpoint: EndpointData;
  readonly draft: Draft;
  readonly onChange: (draft: Draft) => void;
}

function Fields({ endpoint, draft, onChange }: FieldsProps): JSX.Element {
  const id = useId();
  const { routes } = endpoint;
  const [route, setRoute] = useState(0);
  const set = (part: Partial<Draft>): void => onChange({ ...draft, ...part });
  const choose = (place: number): void => {
    setRoute(place);
    // Another path keeps what was typed.
    if (routes[place] !== undefined) onChange(draftOf(endpoint, routes[place]));
  };
  return (
    <>
      <div class="fields">
        {routes.length > 0 && (
          <div>
            <label for={`${id}-route`}>Route</label>
            <select id={`${id}-route`} value={String(route)} onChange={({ currentTarget }) => choose(Number(currentTarget.value))}>
              {routes.map(({ method, path }, place) => (
                <option key={`${method} ${path}`} value={String(place)}>
                  {visible(`${method} ${path}`)}
                </option>
              ))}
              <option value="-1">another path</option>
            </select>
          </div>
        )}
        <div>
          <label for={`${id}-method`}>Method</label>
          <select id={`${id}-method`} value={draft.method} onChange={({ currentTarget }) => set({ method: currentTarget.value })}>
            {METHODS.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </div>
        <div class="wide">
          <label for={`${id}-path`}>Path and query</label>
          <input
            id={`${id}-path`}
            spellcheck={false}
            value={draft.path}
            onInput={({ currentTarget }) => set({ path: currentTarget.value })}
          />
        </div>
      </div>
      <label for={`${id}-headers`}>Headers (one a line)</label>
      <textarea
        id={`${id}-headers`}
        rows={2}
        spellcheck={false}
        placeholder="accept: application/json"
        value={draft.headers}
        onInput={({ currentTarget }) => set({ headers: currentTarget.value })}
      />
      {!takesNoBody(draft.method) && (
        <>
          <label for={`${id}-body`}>Body</label>
          <textarea
            id={`${id}-body`}
            rows={6}
            spellcheck={false}
            value={draft.body}
            onInput={({ currentTarget }) => set({ body: currentTarget.value })}
          />
        </>
      )}
    </>
  );
}

/** Sends the request, and shows what comes until it ends or is stopped. `request`: or what is wrong with it. */
function Sender({ endpoint, request }: { endpoint: string; request: EndpointRequest | string }): JSX.Element {
  const refusal = useWriteRefusal();
  const [received, setReceived] = useState<Received>();
  const [error, setError] = useState<Error>();
  const [isBusy, setBusy] = useState(false);
  const running = useRef<AbortController | undefined>(undefined);
  // The response ends with the page.
  useEffect(() => () => running.current?.abort(), []);

  async function run(asked: EndpointRequest): Promise<void> {
    const abort = new AbortController();
    running.current = abort;
    setBusy(true);
    setError(undefined);
    setReceived(undefined);
    const begun = performance.now();
    const body: Received['body'][number][] = [];
    let latest: Received = { status: 0, headers: [], body, size: 0, tookMs: 0 };
    let showing: number | undefined;
    const show = (): void => {
      window.clearTimeout(showing);
      showing = undefined;
      setReceived({ ...latest, tookMs: performance.now() - begun });
    };
    try {
      for await (const part of requestEndpoint(endpoint, asked, abort.signal)) {
        if (part.kind === 'body') {
          body.push(part.bytes);
          latest = { ...latest, size: latest.size + part.bytes.length };
          showing ??= window.setTimeout(show, SHOW_MS);
          continue;
        }
        const { kind: _, ...said } = part;
        latest = { ...latest, ...('why' in said ? { ...said, end: said.why } : said) };
        show();
      }
    } catch (failure) {
      if (abort.signal.aborted) latest = { ...latest, end: 'STOPPED' };
      else setError(failure instanceof Error ? failure : new Error(String(failure)));
      show();
    } finally {
      setBusy(false);
    }
  }

  const problem = typeof request === 'string' ? request : undefined;
  return (
    <>
      <div class="actions">
        <ActionButton
          tone="primary"
          refusal={refusal ?? problem}
          isBusy={isBusy}
          onClick={() => {
            if (typeof request !== 'string') void run(request);
          }}
        >
          {isBusy ? 'Sending…' : 'Send'}
        </ActionButton>
        {isBusy && (
          <button type="button" onClick={() => running.current?.abort()}>
            Stop
          </button>
        )}
        {problem !== undefined && <span class="failure">{visible(problem)}</span>}
      </div>
      <Failure error={error} />
      {received !== undefined && <EndpointResponse received={received} />}
    </>
  );
}
