/** Calls of a load-balanced endpoint to paste, in several languages. The key stays a variable of the environment. Pure. */
import type { EndpointRequest, HeaderField } from '../../api/endpoint-request.ts';

const KEY = 'SERVICE_API_KEY';

/** Returns the name of a language and the code, for each. `url`: of the endpoint, without the path. */
export function requestSamples(url: string, { method, path, headers, body }: EndpointRequest): readonly (readonly [string, string])[] {
  const address = url + path;
  // An application with keys of its own has its own header.
  const hasOwn = headers.some(({ name }) => name.toLowerCase() === 'authorization');
  return [
    ['curl', curl(method, address, { headers, hasOwn, body })],
    ['Python', python(method, address, { headers, hasOwn, body })],
    ['TypeScript', typeScript(method, address, { headers, hasOwn, body })],
  ];
}

interface Rest {
  readonly headers: readonly HeaderField[];
  readonly hasOwn: boolean;
  readonly body: string | undefined;
}

function curl(method: string, address: string, { headers, hasOwn, body }: Rest): string {
  // The braces and brackets of an address are curl's own patterns.
  const parts = [`curl -sg ${method === 'HEAD' ? '-I' : `-X ${method}`} ${inShell(address)}`];
  if (!hasOwn) parts.push(`-H "Authorization: Bearer $${KEY}"`);
  for (const { name, value } of headers) parts.push(`-H ${inShell(value === '' ? `${name};` : `${name}: ${value}`)}`);
  if (body !== undefined) parts.push(`--data-raw ${inShell(body)}`);
  return parts.join(' \\\n  ');
}

function python(method: string, address: string, { headers, hasOwn, body }: Rest): string {
  const lines = [
    ...(hasOwn ? [] : [`        "Authorization": f"Bearer {os.environ['${KEY}']}",`]),
    ...headers.map(({ name, value }) => `        ${quoted(name)}: ${quoted(value)},`),
  ];
  return [
    ...(hasOwn ? [] : ['import os']),
    'import requests',
    '',
    'response = requests.request(',
    `    ${quoted(method)}, ${quoted(address)},`,
    '    headers={',
    ...lines,
    '    },',
    ...(body === undefined ? [] : [`    data=${quoted(body)}.encode(),`]),
    ')',
    'print(response.status_code, response.text)',
  ].join('\n');
}

function typeScript(method: string, address: string, { headers, hasOwn, body }: Rest): string {
  return [
    `const response = await fetch(${quoted(address)}, {`,
    `  method: ${quoted(method)},`,
    '  headers: {',
    ...(hasOwn ? [] : [`    authorization: \`Bearer \${process.env.${KEY}}\`,`]),
    ...headers.map(({ name, value }) => `    ${quoted(name)}: ${quoted(value)},`),
    '  },',
    ...(body === undefined ? [] : [`  body: ${quoted(body)},`]),
    '});',
    'console.log(response.status, await response.text());',
  ].join('\n');
}

function inShell(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** A text as Python and TypeScript write it. */
function quoted(text: string): string {
  return JSON.stringify(text);
}
