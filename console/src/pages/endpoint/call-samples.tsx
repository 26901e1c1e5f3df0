import type { JSX } from 'preact';

import { CopyButton, Section, Text } from '../../ui/parts.tsx';
import { exampleInput } from './parameters.ts';
import type { EndpointData } from './query.ts';

/** Calls of a queue endpoint to paste. The key stays a variable of the environment. */
export function CallSamples({ endpoint }: { endpoint: EndpointData }): JSX.Element {
  return <Samples of={samplesOf(endpoint)} />;
}

/** Code to paste, by the name of its language. */
export function Samples({ of }: { of: readonly (readonly [string, string])[] }): JSX.Element {
  return (
    <Section title="Call it">
      {of.length === 0 && <p class="muted">Complete the request above.</p>}
      {of.map(([name, code]) => (
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
  const { url, name } = endpoint;
  const input = JSON.stringify(exampleInput(endpoint));
  return [
    [
      'curl',
      `curl -s ${url}/runsync -H "Authorization: Bearer $SERVICE_API_KEY" -H 'Content-Type: application/json' -d '{"input":${input.replaceAll("'", String.raw`'\''`)}}'`,
    ],
    ['capstan', `capstan call ${name} --json '${input.replaceAll("'", String.raw`'\''`)}'`],
    [
      'Python',
      `import json\nimport os\nimport requests\n\nresponse = requests.post(\n    "${url}/runsync",\n    headers={"Authorization": f"Bearer {os.environ['SERVICE_API_KEY']}"},\n    json={"input": json.loads(${JSON.stringify(input)})},\n)\nprint(response.json())`,
    ],
    [
      'TypeScript',
      `const response = await fetch('${url}/runsync', {\n  method: 'POST',\n  headers: { authorization: \`Bearer \${process.env.SERVICE_API_KEY}\`, 'content-type': 'application/json' },\n  body: JSON.stringify({ input: ${input} }),\n});\nconsole.log(await response.json());`,
    ],
  ];
}
