/** Prints the result of a deployment: the endpoints by kind and the command to try next. */
import { parameterExample } from '../../lib/schema-examples.ts';
import type { EndpointRow } from '../api/endpoint-row.ts';
import { quote } from '../../client/local.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import type { Parameter } from '../../compiler/signatures/parameters.ts';
import type { Application, ApplicationEndpoint } from '../../compiler/application/application.ts';

export function printEndpoints(rows: readonly EndpointRow[], terminal: Terminal): void {
  const balanced = rows.filter(({ kind }) => kind === 'load-balanced');
  const queued = rows.filter(({ kind }) => kind === 'queue');
  if (balanced.length > 0) terminal.line('Load-balanced endpoints');
  for (const { name, url, routes } of balanced) {
    terminal.line(`  ${name}  ${url}`);
    for (const [route, fn] of Object.entries(routes)) terminal.line(`    ${route} → ${fn}`);
  }
  if (queued.length > 0) terminal.line('Queue-based endpoints');
  for (const { name, url } of queued) terminal.line(`  ${name}  ${url}`);
}

/** What it means that an endpoint is public. */
export function publicWarning(name: string): string {
  return `${name} is public: callers need no key, so everyone who can reach the gateway runs its code; it must check its callers itself`;
}

/** Returns a complete call of a queue endpoint; `key` is the shell expression of the API key. */
export function curlFor(url: string, input: unknown, key: string): string {
  const body = quote(JSON.stringify({ input }));
  return `curl -s ${quote(`${url}/runsync`)} -H "Authorization: Bearer ${key}" -H 'Content-Type: application/json' -d ${body}`;
}

/** Returns the same call with the tool. */
export function toolCallFor(name: string, input: Readonly<Record<string, unknown>>): string {
  const members = Object.entries(input).map(([key, value]) => quote(`${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`));
  return ['capstan call', quote(name), ...members].join(' ');
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * Returns an input with a value of the right type for every required parameter; for a class those of its first method, which
 * is named where there are several.
 */
function sampleInput({ functions }: ApplicationEndpoint): Readonly<Record<string, unknown>> {
  const methods = functions[0]?.methods ?? [];
  const [first] = methods;
  if (first === undefined) return sampleOf(functions[0]?.parameters ?? []);
  return { ...(methods.length > 1 ? { method: first.name } : {}), ...sampleOf(first.parameters) };
}

function sampleOf(parameters: readonly Parameter[]): Readonly<Record<string, unknown>> {
  const whole = parameters.find(({ takesBody }) => takesBody === true);
  if (whole !== undefined && parameters.length === 1) {
    const example = parameterExample(whole, whole.sample);
    return isObject(example) ? example : {};
  }
  return Object.fromEntries(parameters.filter(({ required }) => required).map((each) => [each.name, parameterExample(each, each.sample)]));
}

/**
 * Returns the calls of the first queue endpoint, with the tool and with curl, else the curl line for the first route
 * that needs no body, or for the root of an endpoint that serves every path; empty when there is none of these.
 */
export function nextCommands(application: Application, rows: readonly EndpointRow[], key: string): readonly string[] {
  const row = rows.find(({ kind }) => kind === 'queue');
  const endpoint = application.endpoints.find(({ spec }) => spec.name === row?.name);
  if (row !== undefined && endpoint !== undefined) {
    const input = sampleInput(endpoint);
    return [toolCallFor(row.name, input), curlFor(row.url, input, key)];
  }
  for (const { url, routes } of rows) {
    const given = Object.keys(routes);
    const path = given.length === 0 ? '/' : given.find((route) => /^GET [^{:]+$/.test(route))?.slice('GET '.length);
    if (path !== undefined)
      return [`curl -s ${quote(`${url.replace(/\/v2\/([^/]+)$/, '/lb/$1')}${path}`)} -H "Authorization: Bearer ${key}"`];
  }
  return [];
}
