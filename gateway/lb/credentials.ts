/**
 * Removes credentials of this service from requests before they reach an endpoint, wherever a caller put them: a worker that received
 * one could act as its caller. Pure.
 */
import type { Header } from '../../proto/gen/capstan/v1/invoke.ts';
import { PROTOCOL_HEADER } from '../../lib/websocket-key.ts';

/** Whether a text is an API key, a worker token or the token of a session. */
export type IsCredential = (text: string) => boolean;

/** What this service creates; operators may choose other keys. */
const CREATED = /(?:cap_[\w-]{32}|ses_[\w-]{43}|wkr_[a-z0-9]{1,64}_[\w-]{43})/;
/** Shorter and longer texts are no key. */
const SHORTEST = 8;
const LONGEST = 1_024;
/** Parts of one header or query that are examined; those behind them are kept only if no part looks like a credential. */
const MAX_PARTS = 64;

/** Headers of requests that browsers and libraries write themselves. Only what looks like a credential is removed from them. */
const GENERAL: ReadonlySet<string> = new Set([
  'accept',
  'accept-encoding',
  'accept-language',
  'cache-control',
  'content-encoding',
  'content-length',
  'content-type',
  'date',
  'host',
  'if-match',
  'if-modified-since',
  'if-none-match',
  'origin',
  'pragma',
  'range',
  'referer',
  'traceparent',
  'tracestate',
  'user-agent',
]);

/** Returns the headers without credentials: single cookies and subprotocols, and other headers as a whole. */
export function withoutCredentials(headers: readonly Header[], isCredential: IsCredential): Header[] {
  return headers.flatMap((header) => {
    const { name, value } = header;
    if (name === 'cookie') return list(header, '; ', value.split(';'), (cookie) => isIn(afterEquals(cookie), isCredential));
    if (name === PROTOCOL_HEADER) return list(header, ', ', value.split(','), (entry) => isIn(entry, isCredential));
    if (CREATED.test(value)) return [];
    return !GENERAL.has(name) && !name.startsWith('sec-') && holds(value, isCredential) ? [] : [header];
  });
}

/** Returns a path with its query without the parameters whose value is a credential. */
export function withoutCredentialsInQuery(target: string, isCredential: IsCredential): string {
  const at = target.indexOf('?');
  if (at === -1) return target;
  const parts = target.slice(at + 1).split('&');
  const kept = parts.filter((part, place) => !isIn(decoded(afterEquals(part)), place < MAX_PARTS ? isCredential : () => false));
  if (kept.length === parts.length) return target;
  return kept.length === 0 ? target.slice(0, at) : `${target.slice(0, at)}?${kept.join('&')}`;
}

/** The credential alone, behind a scheme as in Authorization, or in the user or password of Basic. */
function holds(value: string, isCredential: IsCredential): boolean {
  const text = value.trim();
  const scheme = /^([A-Za-z][\w-]*)\s+(\S.*)$/.exec(text);
  if (isIn(text, isCredential)) return true;
  const [, name = '', rest = ''] = scheme ?? [];
  if (rest === '') return false;
  if (isIn(rest, isCredential)) return true;
  return (
    name.toLowerCase() === 'basic' &&
    Buffer.from(rest, 'base64')
      .toString('latin1')
      .split(':')
      .some((each) => isIn(each, isCredential))
  );
}

function isIn(text: string, isCredential: IsCredential): boolean {
  const trimmed = text.trim().replace(/^"(.*)"$/, '$1');
  if (trimmed.length < SHORTEST) return false;
  return CREATED.test(trimmed) || (trimmed.length <= LONGEST && isCredential(trimmed));
}

function list(header: Header, separator: string, parts: readonly string[], isRemoved: (part: string) => boolean): Header[] {
  const kept = parts
    .map((part) => part.trim())
    .filter((part, place) => part !== '' && !(place < MAX_PARTS ? isRemoved(part) : CREATED.test(part)));
  return kept.length === 0 ? [] : [{ name: header.name, value: kept.join(separator) }];
}

function afterEquals(text: string): string {
  return text.slice(text.indexOf('=') + 1);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return text;
  }
}
