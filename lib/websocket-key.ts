/**
 * The key of a caller that opens a WebSocket and cannot send headers. A browser can send no Authorization header with
 * one, but a list of subprotocols:
 *
 *     new WebSocket(url, ['capstan', `capstan-key.${key}`, …those of the application])
 *
 * The entries of this service are removed before the request is passed on. A browser refuses a response that selects
 * none of its subprotocols, so `capstan` is selected where the worker selects none. A key in the query would appear in
 * logs and histories, and is therefore not read. Pure.
 */

export const PROTOCOL_HEADER = 'sec-websocket-protocol';
/** Subprotocol that is selected when the worker selects none. */
const OWN_PROTOCOL = 'capstan';
/** Prefix of the subprotocol that holds the key. */
const KEY_PROTOCOL = 'capstan-key.';

export interface OfferedProtocols {
  /** The entries for the worker; undefined when none is left. */
  readonly forwarded: string | undefined;
  /** The value of an Authorization header with the key among the entries. */
  readonly authorization: string | undefined;
  /** Selected when the worker selects none. */
  readonly fallback: string | undefined;
}

/** Separates the entries of this service from those of the application. Returns null when there is no key among them. */
export function readProtocols(value: string | undefined): OfferedProtocols | null {
  if (value === undefined || !value.includes(KEY_PROTOCOL)) return null;
  const entries = value.split(',').map((entry) => entry.trim());
  const isKey = (entry: string): boolean => entry.startsWith(KEY_PROTOCOL);
  const key = entries.find(isKey);
  if (key === undefined) return null;
  const rest = entries.filter((entry) => entry !== '' && entry !== OWN_PROTOCOL && !isKey(entry));
  return {
    forwarded: rest.length === 0 ? undefined : rest.join(', '),
    authorization: `Bearer ${key.slice(KEY_PROTOCOL.length)}`,
    fallback: entries.includes(OWN_PROTOCOL) ? OWN_PROTOCOL : undefined,
  };
}

/** Adds the subprotocol that the gateway selects. `flat`: names and values alternate. */
export function withProtocol(flat: readonly string[], fallback: string | undefined): string[] {
  if (fallback === undefined || flat.some((text, i) => i % 2 === 0 && text.toLowerCase() === PROTOCOL_HEADER)) return [...flat];
  return [...flat, PROTOCOL_HEADER, fallback];
}
