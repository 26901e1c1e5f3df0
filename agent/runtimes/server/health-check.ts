/**
 * Asks a worker with its own server whether it serves: GET /ping, over a connection of its own. The server need not know
 * that path:
 *
 * | What came back | is |
 * |---|---|
 * | 200 and any other success but 204 | ready by `ping` |
 * | 204, 5xx | the server knows the path and is not ready |
 * | any other status (404, 401, 302 …) | ready by `http`: it answers requests, and has no such path |
 * | a connection, and no answer in HTTP or none in time | ready by `connection`, if that goes on for a while |
 * | no connection | not ready |
 */
import { get } from 'node:http';

import type { Reach } from './site.ts';

/** Time-out of one check, ms. */
const ANSWER_MS = 5_000;

export type CheckResult =
  | { readonly kind: 'status'; readonly status: number }
  /** Something listens; `silent`: it sent nothing in time, which a busy server also does. */
  | { readonly kind: 'connected'; readonly silent: boolean; readonly why: string }
  | { readonly kind: 'unreachable'; readonly why: string };

/** How a server showed that it is ready. */
export type ReadyBy = 'ping' | 'http' | 'connection';

/** Never rejects. */
export function checkServer({ host, healthPort: port }: Reach): Promise<CheckResult> {
  return new Promise((resolve) => {
    let isConnected = false;
    let isLate = false;
    const asked = get({ host, port, path: '/ping', agent: false, headers: { 'user-agent': 'capstan' } }, (response) => {
      response.resume();
      resolve({ kind: 'status', status: response.statusCode ?? 0 });
    });
    const timer = setTimeout(() => {
      isLate = true;
      asked.destroy(new Error(`no answer within ${ANSWER_MS / 1000} s`));
    }, ANSWER_MS);
    asked.once('socket', (socket) => socket.once('connect', () => (isConnected = true)));
    asked.once('close', () => clearTimeout(timer));
    asked.on('error', ({ message }) =>
      resolve(isConnected ? { kind: 'connected', silent: isLate, why: message } : { kind: 'unreachable', why: message }),
    );
  });
}

/** Returns how a result shows that the server is ready; null when it does not, or not yet. */
export function readyBy(result: CheckResult): ReadyBy | null {
  if (result.kind !== 'status') return null;
  const { status } = result;
  if (status === 204 || status >= 500) return null;
  return status >= 200 && status < 300 ? 'ping' : 'http';
}

/** Whether a server that was ready in this way still lives. */
export function isHealthy(result: CheckResult, by: ReadyBy): boolean {
  switch (by) {
    case 'ping':
      return result.kind === 'status' && (result.status === 200 || result.status === 204);
    case 'http':
      return result.kind === 'status';
    case 'connection':
      return result.kind !== 'unreachable';
  }
}

/** What was tried and what came back, for people. */
export function describeCheck(result: CheckResult, { healthPort }: Reach): string {
  const tried = `GET /ping on port ${healthPort}`;
  switch (result.kind) {
    case 'status':
      return `${tried}: status ${result.status}`;
    case 'connected':
      return `${tried}: connected, but ${result.silent ? result.why : `the answer is not HTTP (${result.why})`}`;
    case 'unreachable':
      return `${tried}: ${result.why}`;
  }
}
