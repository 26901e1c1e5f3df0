/** A request to a load-balanced endpoint as the console's form describes it. Pure. */
import type { IncomingHttpHeaders } from 'node:http';

import { z } from 'zod';

import { CapstanError } from '../../lib/errors.ts';
import { HOP_BY_HOP } from '../../lib/response-validator.ts';
import { FORWARDED, type RequestHead } from '../http/forwarded.ts';

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const;
const MAX_HEADERS = 50;
const MAX_PATH = 8_000;
const MAX_NAME = 128;
const MAX_VALUE = 4_096;
/** A name and a value of a header (RFC 9110, section 5). */
const NAME = /^[\w!#$%&'*+.^`|~-]+$/;
const VALUE = /^[\t\u{20}-\u{7e}\u{80}-\u{ff}]*$/u;
/** Browsers and libraries drop line breaks and tabs from addresses without a word. */
// oxlint-disable-next-line no-control-regex -- these are the characters to refuse
const CONTROL = /[\u{0}-\u{1f}\u{7f}]/u;
/** Headers that follow from the request, or that belong to the console. */
const OWN = new Set(['host', 'content-length', 'cookie', 'expect']);
const OURS = /^capstan-/;

const header = z.object(
  {
    name: z.string('must be a string').max(MAX_NAME, `must have at most ${MAX_NAME} characters`),
    value: z.string('must be a string').max(MAX_VALUE, `must have at most ${MAX_VALUE} characters`),
  },
  'must be an object with the keys name and value',
);

export const describedRequest = z.object(
  {
    method: z.enum(METHODS, `must be one of ${METHODS.join(', ')}`),
    path: z.string('must be a string').max(MAX_PATH, `must have at most ${MAX_PATH} characters`),
    headers: z.array(header, 'must be a list').max(MAX_HEADERS, `must have at most ${MAX_HEADERS} entries`),
    body: z.string('must be a string').optional(),
  },
  'must be an object with the keys method, path and headers',
);
export type DescribedRequest = z.output<typeof describedRequest>;

/**
 * Returns the path and the query as a browser would send them.
 * @throws CapstanError INVALID_ARGUMENT
 */
export function targetOf(path: string): string {
  const own = 'http://endpoint.invalid';
  if (!path.startsWith('/')) throw invalid('path', 'must start with /');
  if (CONTROL.test(path)) throw invalid('path', 'must not contain control characters');
  // Two slashes, or a slash and a backslash, begin the address of another host.
  const url = URL.canParse(path, own) ? new URL(path, own) : null;
  if (url?.origin !== own) throw invalid('path', 'must be a path of the endpoint, not an address');
  return url.pathname + url.search;
}

/**
 * Returns the request as the load balancer reads one from a connection: nothing of the console's own request is in it but where it
 * came from.
 * @param console - the request that describes it.
 * @throws CapstanError INVALID_ARGUMENT
 */
export function requestHead({ method, headers, body }: DescribedRequest, url: string, console: RequestHead): RequestHead {
  const raw: string[] = [];
  const parsed: IncomingHttpHeaders = {};
  const add = (name: string, value: string): void => {
    raw.push(name, value);
    parsed[name] = value;
  };
  for (const [place, { name, value }] of headers.entries()) {
    const field = `headers.${place}`;
    const lower = name.toLowerCase();
    if (!NAME.test(name)) throw invalid(`${field}.name`, 'must be the name of a header');
    if (!VALUE.test(value)) throw invalid(`${field}.value`, 'must be one line of printable Latin-1 characters');
    if (HOP_BY_HOP.has(lower) || FORWARDED.has(lower) || OWN.has(lower) || OURS.test(lower))
      throw invalid(`${field}.name`, `${lower} cannot be set from the console`);
    add(lower, value.trim());
  }
  if (body !== undefined) add('content-length', String(Buffer.byteLength(body)));
  // Where the caller and the gateway are, as in any other request of this connection.
  for (const name of ['host', 'x-forwarded-for', 'x-forwarded-proto', 'x-forwarded-host']) {
    const value = console.headers[name];
    if (value !== undefined) add(name, String(value));
  }
  return { method, url, headers: parsed, rawHeaders: raw, socket: console.socket };
}

function invalid(field: string, rule: string): CapstanError {
  return new CapstanError('INVALID_ARGUMENT', `${field}: ${rule}`, { field });
}
