/** What the form of a test request holds, and the request that it makes. Pure. */
import type { EndpointRequest, HeaderField } from '../../api/endpoint-request.ts';
import { exampleInput } from './parameters.ts';
import type { EndpointData } from './query.ts';

export const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const;
const WITHOUT_BODY: ReadonlySet<string> = new Set(['GET', 'HEAD']);
/** Parameters that are no values of the request. */
const GIVEN: ReadonlySet<string> = new Set(['request', 'context', 'websocket']);

export interface Draft {
  readonly method: string;
  readonly path: string;
  /** One header a line: `name: value`. */
  readonly headers: string;
  readonly body: string;
}

/** A request to try, for a route or, without one, for the endpoint's own server. */
export function draftOf(endpoint: Pick<EndpointData, 'signatures'>, route?: EndpointData['routes'][number]): Draft {
  const { method = 'GET', path = '/' } = route ?? {};
  if (takesNoBody(method)) return { method, path, headers: '', body: '' };
  const inPath = new Set([...path.matchAll(/\{(\w+)\}|:(\w+)/g)].map(([, braced, bare]) => braced ?? bare));
  const signatures = endpoint.signatures.filter(({ name }) => name === route?.function);
  const isWhole = signatures.some(({ parameters }) => parameters.some(({ name }) => GIVEN.has(name)));
  const input = Object.entries(exampleInput({ signatures })).filter(([name]) => !inPath.has(name) && !GIVEN.has(name));
  const body = isWhole && input.length === 0 ? '' : JSON.stringify(Object.fromEntries(input), null, 2);
  return { method, path, headers: 'content-type: application/json', body };
}

export function takesNoBody(method: string): boolean {
  return WITHOUT_BODY.has(method);
}

/** Returns the request, or what is wrong with the draft. */
export function requestOf({ method, path, headers, body }: Draft): EndpointRequest | string {
  if (!path.startsWith('/')) return 'The path must start with /.';
  const name = /\{(\w+)\}|\/:(\w+)/.exec(path);
  if (name !== null) return `Put a value in place of ${name[0].replace('/', '')} in the path.`;
  const fields: HeaderField[] = [];
  for (const line of headers.split('\n')) {
    if (line.trim() === '') continue;
    const at = line.indexOf(':');
    if (at < 1) return `A header must be a name, a colon and a value: ${line.trim()}`;
    fields.push({ name: line.slice(0, at).trim(), value: line.slice(at + 1).trim() });
  }
  return { method, path, headers: fields, ...(takesNoBody(method) || body === '' ? {} : { body }) };
}
