/**
 * Which part of an endpoint's documentation a request is for, and whose it is.
 *
 * | Endpoint | `/docs` | `/openapi.json` |
 * |---|---|---|
 * | functions | this service's, unless the endpoint has a route there | the same |
 * | a server of its own | the server's; this service's page only where that responds with 404 | the server's |
 *
 * Pure.
 */
import type { IncomingMessage } from 'node:http';

import type { EndpointEntry } from '../../../proto/gen/capstan/v1/control.ts';
import type { LbAddress } from '../../http/lb-address.ts';
import { SCRIPT_PATH } from './page.ts';

export const DOCS_PATH = '/docs';
export const DOCUMENT_PATH = '/openapi.json';
/** Avoids parsing the path of other requests. */
const MAYBE_DOCS = /^\/(docs|openapi)/;

export interface DocsRequest {
  readonly part: 'page' | 'script' | 'document';
  /** The endpoint is asked first. */
  readonly isFallback: boolean;
}

/** `endpoint`: undefined when it is not known yet. `hasRoute`: whether it has a function at the path. */
export function docsRequested(
  { method }: Pick<IncomingMessage, 'method'>,
  { target, pathForm }: LbAddress,
  endpoint: EndpointEntry | undefined,
  hasRoute: (endpoint: EndpointEntry, path: string) => boolean,
): DocsRequest | null {
  if (!MAYBE_DOCS.test(target) || (method !== 'GET' && method !== 'HEAD')) return null;
  const [given = ''] = target.split('?');
  const path = given === `${DOCS_PATH}/` ? DOCS_PATH : given;
  const part = path === DOCS_PATH ? 'page' : path === SCRIPT_PATH ? 'script' : path === DOCUMENT_PATH ? 'document' : null;
  // By path, the page loads its script from the gateway's own path.
  if (part === null || (part === 'script' && pathForm)) return null;
  if (endpoint !== undefined && endpoint.routes.length > 0) {
    return hasRoute(endpoint, path) || hasRoute(endpoint, given) ? null : { part, isFallback: false };
  }
  return part === 'document' ? null : { part, isFallback: true };
}

/** Whether a browser opens the page, which can send no key with that. */
export function opensPage({ headers }: IncomingMessage): boolean {
  return headers.authorization === undefined && headers.accept?.includes('text/html') === true;
}
