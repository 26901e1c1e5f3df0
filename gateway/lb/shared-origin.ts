/**
 * Isolates endpoints from the gateway's own origin and from each other.
 *
 * In the path form, `/lb/<endpoint id>/…`, a browser sees one origin for the API, its pages and the endpoints of all
 * accounts. A response in this form must not affect that origin: its document runs in a sandbox with an opaque origin,
 * and headers that apply to the whole origin are removed. Cookies of that origin do not belong to an endpoint and are
 * not forwarded. Pure.
 */
import type { Header } from '../../proto/gen/capstan/v1/invoke.ts';

/**
 * Without `allow-same-origin` the document's origin is opaque: it cannot read the API's origin or register a service
 * worker. A second policy can only restrict it further.
 */
const SANDBOX = 'sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads';

/** Response headers that affect the origin or the host, not only the document. */
const ORIGIN_WIDE: ReadonlySet<string> = new Set([
  'set-cookie',
  'set-cookie2',
  'service-worker-allowed',
  'clear-site-data',
  'strict-transport-security',
  'public-key-pins',
  'public-key-pins-report-only',
  'expect-ct',
  'alt-svc',
  'nel',
  'report-to',
  'reporting-endpoints',
  'accept-ch',
  'critical-ch',
  'origin-agent-cluster',
  'set-login',
  'sec-session-registration',
  'secure-session-registration',
  'sec-session-challenge',
  'secure-session-challenge',
  'use-as-dictionary',
  'attribution-reporting-register-source',
  'attribution-reporting-register-trigger',
]);

/** Cookies and request headers with these names belong to the service. */
const OUR_HEADER = /^(capstan-|x-capstan-key$)/;
const OUR_COOKIE = /^(__host-|__secure-)?capstan[-_]/i;

/** Returns the headers of a response in the path form. `flat`: names and values alternate. */
export function sharedOriginHeaders(flat: readonly string[]): string[] {
  const kept: string[] = [];
  for (let i = 0; i + 1 < flat.length; i += 2) {
    const name = flat[i] ?? '';
    if (!ORIGIN_WIDE.has(name.toLowerCase())) kept.push(name, flat[i + 1] ?? '');
  }
  kept.push('content-security-policy', SANDBOX);
  return kept;
}

/** Returns the headers of a response on the endpoint's own host: its cookies are limited to that host. */
export function ownHostHeaders(flat: readonly string[]): string[] {
  const kept = [...flat];
  for (let i = 0; i + 1 < kept.length; i += 2) {
    if (kept[i]?.toLowerCase() === 'set-cookie') kept[i + 1] = (kept[i + 1] ?? '').replaceAll(/;\s*domain\s*(=[^;]*)?(?=;|$)/gi, '');
  }
  return kept;
}

/** Returns the headers of a request without cookies and headers that do not belong to the endpoint. */
export function tenantHeaders(headers: readonly Header[], pathForm: boolean): Header[] {
  return headers.flatMap((header) => {
    if (OUR_HEADER.test(header.name)) return [];
    if (header.name !== 'cookie') return [header];
    const value = pathForm ? '' : withoutOurs(header.value);
    return value === '' ? [] : [{ name: header.name, value }];
  });
}

function withoutOurs(cookies: string): string {
  return cookies
    .split(';')
    .map((each) => each.trim())
    .filter((each) => each !== '' && !OUR_COOKIE.test(each))
    .join('; ');
}
