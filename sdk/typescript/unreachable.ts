/** What callers are told about an address without a response, and about retries. */
import { ConnectionError, reasonOf } from './errors.ts';

/** Codes of Node for a connection that was never established. */
const NOT_CONNECTED = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL|ETIMEDOUT|UND_ERR_CONNECT_TIMEOUT)$/;
/** Interval between notices about one address, ms. */
const NOTICE_MS = 60_000;

/** Origin → when a notice was last printed for it, ms. */
const noticed = new Map<string, number>();

/** Returns the error of a call without a response: it names the address, and what to check. */
export function unreachable(call: string, baseUrl: string, cause: unknown): ConnectionError {
  const reason = reasonOf(cause);
  const origin = originOf(baseUrl);
  return new ConnectionError(
    isConnectionFailure(cause)
      ? `${call}: cannot connect to ${origin}: ${reason}. Check CAPSTAN_URL (or baseUrl), or start the service there: capstan up`
      : `${call}: ${reason} (from ${origin})`,
    cause,
  );
}

/** Prints that a call is retried: on stderr, once a minute for each address, so that a long outage is not silent. */
export function noteRetry(baseUrl: string, error: Error, retries: number): void {
  const origin = originOf(baseUrl);
  const now = performance.now();
  const last = noticed.get(origin);
  if (last !== undefined && now - last < NOTICE_MS) return;
  noticed.set(origin, now);
  // The message may hold what a server sent: nothing of it may act on a terminal.
  const message = error.message.replaceAll(/\p{Cc}/gu, ' ');
  // Runs in browsers, too, which have no stderr.
  // oxlint-disable-next-line no-console
  console.warn(`capstan: ${message}; retrying up to ${retries} ${retries === 1 ? 'time' : 'times'}`);
}

/** Without a user name and a password. */
function originOf(baseUrl: string): string {
  const url = URL.canParse(baseUrl) ? new URL(baseUrl) : undefined;
  return url === undefined ? 'the service' : `${url.protocol}//${url.host}`;
}

/** fetch wraps the system's error, which may hold one for each address that was tried. */
function isConnectionFailure(thrown: unknown): boolean {
  if (!(thrown instanceof Error)) return false;
  if ('code' in thrown && NOT_CONNECTED.test(String(thrown.code))) return true;
  return isConnectionFailure(thrown.cause);
}
