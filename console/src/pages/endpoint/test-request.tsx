import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Link } from 'wouter-preact';

import { parseExact, stringifyExact } from '../../../../lib/exact-json.ts';
import { useAction } from '../../api/live.ts';
import { callEndpoint, LONG_LIMIT_MS } from '../../api/request.ts';
import { useWriteRefusal } from '../../api/session.ts';
import { JsonDocument } from '../../ui/json.tsx';
import { ActionButton, Badge, Failure, Section, Text } from '../../ui/parts.tsx';
import { visible } from '../../ui/plain-text.ts';
import { useUrlState } from '../../ui/url-state.ts';
import { ParameterField } from './parameter-field.tsx';
import { exampleInput, parametersOf } from './parameters.ts';
import type { EndpointData } from './query.ts';

interface Status {
  readonly id: string;
  readonly status: string;
  readonly output?: unknown;
  readonly error?: string;
}

interface Stream {
  readonly status: string;
  readonly stream: readonly { readonly output: unknown }[];
  readonly error?: string;
}

const ENDED = new Set(['COMPLETED', 'FAILED', 'CANCELLED', 'TIMED_OUT']);

/** A form for the parameters, beside the same input as JSON; sends it and shows what comes, chunks included. */
export function TestRequest({ endpoint }: { endpoint: EndpointData }): JSX.Element {
  const refusal = useWriteRefusal();
  const [text, setText] = useState(() => JSON.stringify(exampleInput(endpoint), null, 2));
  const [job, setJob] = useState<Status>();
  const [chunks, setChunks] = useState<readonly unknown[]>([]);
  const [error, setError] = useState<Error>();
  const [isBusy, setBusy] = useState(false);
  const [{ job: source }] = useUrlState({ job: '' });
  const cancel = useAction((id: string) => callEndpoint(`${endpoint.id}/cancel/${id}`, { method: 'POST' }));
  useEffect(() => {
    if (source === '') return undefined;
    const reading = new AbortController();
    callEndpoint(`${endpoint.id}/jobs/${encodeURIComponent(source)}/input`, { signal: reading.signal }).then(
      (earlier) => setText(stringifyExact(earlier, 2)),
      (failure: unknown) => {
        if (!reading.signal.aborted) setError(failure instanceof Error ? failure : new Error(String(failure)));
      },
    );
    return () => reading.abort();
  }, [endpoint.id, source]);
  const input = parsed(text);
  const fields = parametersOf(endpoint);

  async function run(): Promise<void> {
    setBusy(true);
    setError(undefined);
    setChunks([]);
    setJob(undefined);
    try {
      const submitted = await callEndpoint<Status>(`${endpoint.id}/run`, { method: 'POST', body: stringifyExact({ input }) });
      setJob(submitted);
      await follow(submitted.id);
    } catch (failure) {
      setError(failure instanceof Error ? failure : new Error(String(failure)));
    } finally {
      setBusy(false);
    }
  }

  async function follow(id: string): Promise<void> {
    for (;;) {
      const part = await callEndpoint<Stream>(`${endpoint.id}/stream/${id}`, { method: 'POST', limitMs: LONG_LIMIT_MS });
      setChunks((before) => [...before, ...part.stream.map(({ output }) => output)]);
      setJob({ id, status: part.status });
      if (!ENDED.has(part.status)) continue;
      setJob(await callEndpoint<Status>(`${endpoint.id}/status/${id}`));
      return;
    }
  }

  return (
    <Section title="Test request">
      {fields.length > 0 && input !== undefined && (
        <div class="fields">
          {fields.map((each) => (
            <ParameterField
              key={each.name}
              parameter={each}
              value={input[each.name]}
              onChange={(value) => {
                const { [each.name]: _, ...others } = input;
                setText(stringifyExact(value === undefined ? others : { ...input, [each.name]: value }, 2));
              }}
            />
          ))}
        </div>
      )}
      {source !== '' && (
        <p class="muted">
          The input of the job{' '}
          <Link href={`/endpoints/${encodeURIComponent(endpoint.id)}/jobs/${encodeURIComponent(source)}`}>{visible(source)}</Link>: edit and
          run it as a new job.
        </p>
      )}
      <label for="input">Input (JSON)</label>
      <textarea
        id="input"
        rows={8}
        spellcheck={false}
        value={text}
        aria-invalid={input === undefined}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <div class="actions">
        <ActionButton
          tone="primary"
          refusal={refusal ?? (input === undefined ? 'The input must be a JSON object.' : undefined)}
          isBusy={isBusy}
          onClick={() => void run()}
        >
          {isBusy ? 'Running…' : 'Run'}
        </ActionButton>
        {input === undefined && <span class="failure">The input must be a JSON object.</span>}
      </div>
      <Failure error={error} />
      {job !== undefined && (
        <div class="panel" role="status">
          <p>
            <Badge state={job.status} />{' '}
            <Link href={`/endpoints/${encodeURIComponent(endpoint.id)}/jobs/${encodeURIComponent(job.id)}`}>{job.id}</Link>
          </p>
          {!ENDED.has(job.status) && (
            <>
              {job.status === 'IN_QUEUE' && endpoint.queue.reason !== null && (
                <p>
                  Waiting: <Text of={[endpoint.queue.reason, endpoint.queue.detail ?? ''].filter((each) => each !== '').join(' · ')} />
                </p>
              )}
              <ActionButton refusal={refusal} isBusy={cancel.isPending} onClick={() => cancel.mutate(job.id)}>
                Cancel
              </ActionButton>
              <Failure error={cancel.error} />
            </>
          )}
          {job.error !== undefined && (
            <pre class="failure" tabIndex={0}>
              <Text of={job.error} />
            </pre>
          )}
          {chunks.length > 0 && job.output === undefined && <JsonDocument name="chunks.json" text={stringifyExact(chunks)} />}
          {job.output !== undefined && <JsonDocument name={`${job.id}-output.json`} text={stringifyExact(job.output)} />}
        </div>
      )}
    </Section>
  );
}

function parsed(text: string): Record<string, unknown> | undefined {
  try {
    const value = parseExact(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}
