/** Sends the documentation of an endpoint: the page, which needs no key, and the OpenAPI document, which does. */
import type { ServerResponse } from 'node:http';

import { pagePolicy } from '../../http/docs.ts';
import { JSON_TYPE } from '../../http/problem.ts';
import type { LbAddress } from '../../http/lb-address.ts';
import { PAGE, PAGE_SCRIPT_HASH, SCRIPT_PATH } from './page.ts';

/** A host and port, with the endpoint's prefix in the path form: a source of a Content-Security-Policy. */
const SOURCE = /^[\w.-]+(:\d+)?(\/lb\/[\w-]+)?$/;

interface PageOptions {
  readonly status: number;
  /** Host and port that the caller used. */
  readonly authority: string;
  /** Prefix of the endpoint's own paths, as of `serverOf`. */
  readonly prefix: string;
  readonly headOnly: boolean;
}

/**
 * Sends the page. It shows documents of the application, and by path it has the origin of the API: whatever such a
 * document holds, only the page's own two scripts run, and they call no other endpoint and no API.
 */
export function sendPage(response: ServerResponse, { status, authority, prefix, headOnly }: PageOptions): void {
  const isSource = SOURCE.test(`${authority}${prefix}`);
  const scripts = `${isSource ? `${authority}${SCRIPT_PATH}` : "'self'"} '${PAGE_SCRIPT_HASH}'`;
  const connections = isSource && prefix !== '' ? `${authority}${prefix}/` : "'self'";
  const headers = { 'content-security-policy': pagePolicy(scripts, connections), 'referrer-policy': 'no-referrer' };
  const challenge = status === 401 ? { 'www-authenticate': 'Bearer', 'cache-control': 'no-store' } : {};
  send(response, { status, type: 'text/html; charset=utf-8', text: PAGE, headers: { ...headers, ...challenge } }, headOnly);
}

export function sendDocument(response: ServerResponse, document: object, headOnly: boolean): void {
  // It changes with each deployment.
  send(response, { status: 200, type: JSON_TYPE, text: JSON.stringify(document), headers: { 'cache-control': 'no-store' } }, headOnly);
}

/** Prefix of the endpoint's own paths: empty on its host, `/lb/<id>` in the path form. */
export function serverOf(url: string, { endpointId, target }: LbAddress): string {
  const prefix = `/lb/${endpointId}`;
  return url === `${prefix}${target}` ? prefix : '';
}

interface Document {
  readonly status: number;
  readonly type: string;
  readonly text: string;
  readonly headers: Readonly<Record<string, string>>;
}

function send(response: ServerResponse, { status, type, text, headers: more }: Document, headOnly: boolean): void {
  const headers = { 'content-type': type, 'content-length': Buffer.byteLength(text), 'x-content-type-options': 'nosniff', ...more };
  response.writeHead(status, headers).end(headOnly ? '' : text);
}
