/** Serves the documentation of an endpoint: the page, which needs no key, and the OpenAPI document, which does. */
import type { ServerResponse } from 'node:http';

import { PAGE_POLICY } from '../../http/docs.ts';
import { JSON_TYPE } from '../../http/problem.ts';
import type { LbAddress } from '../address.ts';
import { PAGE } from './page.ts';

export const DOCS_PATH = '/docs';
export const DOCUMENT_PATH = '/openapi.json';

export function sendPage(response: ServerResponse, headOnly: boolean): void {
  const headers = { 'content-security-policy': PAGE_POLICY, 'referrer-policy': 'no-referrer' };
  send(response, { type: 'text/html; charset=utf-8', text: PAGE, headers }, headOnly);
}

export function sendDocument(response: ServerResponse, document: object, headOnly: boolean): void {
  // It changes with each deployment.
  send(response, { type: JSON_TYPE, text: JSON.stringify(document), headers: { 'cache-control': 'no-store' } }, headOnly);
}

/** Prefix of the endpoint's own paths: empty on its host, `/lb/<id>` in the path form. */
export function serverOf(url: string, { endpointId, target }: LbAddress): string {
  const prefix = `/lb/${endpointId}`;
  return url === `${prefix}${target}` ? prefix : '';
}

interface Document {
  readonly type: string;
  readonly text: string;
  readonly headers: Readonly<Record<string, string>>;
}

function send(response: ServerResponse, { type, text, headers: more }: Document, headOnly: boolean): void {
  const headers = { 'content-type': type, 'content-length': Buffer.byteLength(text), 'x-content-type-options': 'nosniff', ...more };
  response.writeHead(200, headers).end(headOnly ? '' : text);
}
