import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Link } from 'wouter-preact';

import { callEndpoint } from '../../api/request.ts';
import { useWriteRefusal } from '../../api/session.ts';
import { JsonDocument } from '../../ui/json.tsx';
import { ActionButton, Badge, CopyButton, Failure, Section, Text } from '../../ui/parts.tsx';
import type { EndpointData, ParameterData } from './query.ts';

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
const EXAMPLES: Readonly<Record<string, unknown>> = { string: 'text', number: 0.5, integer: 1, boolean: true, array: [], object: {} };

/** An input that the function can be called with, as far as its source tells. */
function exampleInput({ signatures }: EndpointData): Record<string, unknown> {
  const parameters = signatures[0]?.parameters ?? [];
  const [only] = parameters;
  if (only?.takesBody === true) return exampleObject(only);
  return Object.fromEntries(parameters.filter(({ required }) => required).map((each) => [each.name, exampleOf(each)]));
}

function exampleOf({ type, schema }: ParameterData): unknown {
  const { default: given, examples, enum: values } = schemaOf(schema);
  if (given !== undefined) return given;
  if (Array.isArray(examples)) return examples[0];
  if (Array.isArray(values)) return values[0];
  return EXAMPLES[type ?? ''] ?? null;
}

function exampleObject({ schema }: ParameterData): Record<string, unknown> {
  const { properties } = schemaOf(schema);
  if (typeof properties !== 'object' || properties === null) return {};
  return Object.fromEntries(
    Object.entries(properties as Record<string, { type?: string; default?: unknown }>).map(([name, { type = '', default: given }]) => [
      name,
      given ?? EXAMPLES[type] ?? null,
    ]),
  );
}

function schemaOf(text: string | null): Record<string, unknown> {
  if (text === null) return {};
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return {};
  }
}

/** A form for the parameters, beside the same input as JSON; sends it and shows what comes, chunks included. */
export function TestRequest({ endpoint }: { endpoint: EndpointData }): JSX.Element {
  const refusal = useWriteRefusal();
  const [text, setText] = useState(() => JSON.stringify(exampleInput(endpoint), null, 2));
  const [job, setJob] = useState<Status>();
  const [chunks, setChunks] = useState<readonly unknown[]>([]);
  const [error, setError] = useState<Error>();
  const [isBusy, setBusy] = useState(false);
  const input = parsed(text);
  const fields = (endpoint.signatures[0]?.parameters ?? []).filter(({ takesBody }) => !takesBody);

  async function run(): Promise<void> {
    setBusy(true);
    setError(undefined);
    setChunks([]);
    setJob(undefined);
    try {
      const submitted = await callEndpoint<Status>(`${endpoint.id}/run`, { method: 'POST', body: JSON.stringify({ input }) });
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
      const part = await callEndpoint<Stream>(`${endpoint.id}/stream/${id}`, { method: 'POST' });
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
            <div key={each.name}>
              <label for={`parameter-${each.name}`}>
                <Text of={`${each.name}${each.required ? '' : ' (optional)'}${each.type === null ? '' : `: ${each.type}`}`} />
              </label>
              <input
                id={`parameter-${each.name}`}
                value={fieldText(input[each.name])}
                onInput={(event) => {
                  const { [each.name]: _, ...others } = input;
                  const { value } = event.currentTarget;
                  setText(
                    JSON.stringify(value === '' && !each.required ? others : { ...input, [each.name]: fieldValue(value, each) }, null, 2),
                  );
                }}
              />
            </div>
          ))}
        </div>
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
          {job.error !== undefined && (
            <pre class="failure" tabIndex={0}>
              <Text of={job.error} />
            </pre>
          )}
          {chunks.length > 0 && job.output === undefined && <JsonDocument name="chunks.json" text={JSON.stringify(chunks)} />}
          {job.output !== undefined && <JsonDocument name={`${job.id}-output.json`} text={JSON.stringify(job.output)} />}
        </div>
      )}
    </Section>
  );
}

function parsed(text: string): Record<string, unknown> | undefined {
  try {
    const value = JSON.parse(text) as unknown;
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

function fieldText(value: unknown): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** Text stays text for a parameter of that type; for others it is read as JSON where it is any. */
function fieldValue(text: string, { type }: ParameterData): unknown {
  if (type === 'string') return text;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

export function CallSamples({ endpoint }: { endpoint: EndpointData }): JSX.Element {
  return (
    <Section title="Call it">
      {samplesOf(endpoint).map(([name, code]) => (
        <div key={name} class="sample">
          <h3>{name}</h3>
          <CopyButton text={code} label={`Copy ${name}`} />
          <pre tabIndex={0}>
            <Text of={code} />
          </pre>
        </div>
      ))}
    </Section>
  );
}

function samplesOf(endpoint: EndpointData): readonly (readonly [string, string])[] {
  const { url, name, kind, routes } = endpoint;
  if (kind === 'LOAD_BALANCED') {
    const { method = 'GET', path = '/' } = routes[0] ?? {};
    const body = method === 'GET' ? '' : " -H 'Content-Type: application/json' -d '{}'";
    return [
      ['curl', `curl -s -X ${method} ${url}${path} -H "Authorization: Bearer $SERVICE_API_KEY"${body}`],
      [
        'Python',
        `import os\nimport requests\n\nresponse = requests.request(\n    "${method}", "${url}${path}",\n    headers={"Authorization": f"Bearer {os.environ['SERVICE_API_KEY']}"},\n)\nprint(response.json())`,
      ],
      [
        'TypeScript',
        `const response = await fetch('${url}${path}', {\n  method: '${method}',\n  headers: { authorization: \`Bearer \${process.env.SERVICE_API_KEY}\` },\n});\nconsole.log(await response.json());`,
      ],
    ];
  }
  const input = JSON.stringify(exampleInput(endpoint));
  return [
    [
      'curl',
      `curl -s ${url}/runsync -H "Authorization: Bearer $SERVICE_API_KEY" -H 'Content-Type: application/json' -d '{"input":${input.replaceAll("'", String.raw`'\''`)}}'`,
    ],
    ['capstan', `capstan call ${name} --json '${input.replaceAll("'", String.raw`'\''`)}'`],
    [
      'Python',
      `import json\nimport os\nimport requests\n\nresponse = requests.post(\n    "${url}/runsync",\n    headers={"Authorization": f"Bearer {os.environ['SERVICE_API_KEY']}"},\n    json={"input": json.loads(r'''${input}''')},\n)\nprint(response.json())`,
    ],
    [
      'TypeScript',
      `const response = await fetch('${url}/runsync', {\n  method: 'POST',\n  headers: { authorization: \`Bearer \${process.env.SERVICE_API_KEY}\`, 'content-type': 'application/json' },\n  body: JSON.stringify({ input: ${input} }),\n});\nconsole.log(await response.json());`,
    ],
  ];
}
