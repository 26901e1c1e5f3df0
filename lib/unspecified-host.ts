/**
 * Addresses with the unspecified host, 0.0.0.0 or [::], in messages between the parts: they stand for a host that the sender does not
 * know and the receiver does. Pure.
 */

const UNSPECIFIED = /^((?:https?:\/\/)?)(?:0\.0\.0\.0|\[::\])(?=[:/]|$)/;

export function isUnspecified(host: string): boolean {
  return host === '0.0.0.0' || host === '::' || host === '[::]';
}

/** Returns `host:port` or a URL with `host` in place of the unspecified host; others as they are. */
export function withHost(address: string, host: string): string {
  return address.replace(UNSPECIFIED, (_, scheme: string) => `${scheme}${urlHost(host)}`);
}

/** Returns a host as it is written before a port: IPv6 in brackets. */
export function urlHost(host: string): string {
  return host.includes(':') && !host.startsWith('[') ? `[${host}]` : host;
}
