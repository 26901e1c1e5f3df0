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
import { connect, type Socket } from 'node:net';

import type { ReadingShare } from '../reading-shares.ts';
import { limitInformation } from './information.ts';
import { meterReads } from './metered-socket.ts';
import type { Reach } from './site.ts';

/** Time-out of one check, ms. */
const ANSWER_MS = 5_000;
/** The rest of a longer answer is not read, bytes. */
const MAX_ANSWER_BYTES = 64 * 1024;

export type CheckResult =
  | { readonly kind: 'status'; readonly status: number }
  /** Something listens; `silent`: it sent nothing in time, which a busy server also does. */
  | { readonly kind: 'connected'; readonly silent: boolean; readonly why: string }
  | { readonly kind: 'unreachable'; readonly why: string };

/** How a server showed that it is ready. */
export type ReadyBy = 'ping' | 'http' | 'connection';

/** `share`: what reading the answer counts for. Never rejects. */
export function checkServer({ host, healthPort: port }: Reach, share?: ReadingShare): Promise<CheckResult> {
  return new Promise((resolve) => {
    let isConnected = false;
    let isLate = false;
    const createConnection = (): Socket => {
      const socket = connect({ host, port });
      if (share !== undefined) meterReads(socket, share);
      return socket;
    };
    const probe = get({ host, port, path: '/ping', createConnection, headers: { 'user-agent': 'capstan' } }, (response) => {
      let bytes = 0;
      response.on('data', ({ length }: Buffer) => {
        bytes += length;
        if (bytes > MAX_ANSWER_BYTES) response.destroy();
      });
      resolve({ kind: 'status', status: response.statusCode ?? 0 });
    });
    limitInformation(probe);
    const timer = setTimeout(() => {
      isLate = true;
      probe.destroy(new Error(`no response within ${ANSWER_MS / 1000} s`));
    }, ANSWER_MS);
    probe.once('socket', (socket) => socket.once('connect', () => (isConnected = true)));
    probe.once('close', () => clearTimeout(timer));
    probe.on('error', ({ message }) =>
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

/**
 * Asks a server that was ready in this way whether it still lives. One without a health check must accept a connection
 * only: a request every few seconds would fill its log, and wait where it serves one at a time. Never rejects.
 */
export function checkAgain(reach: Reach, by: ReadyBy, share?: ReadingShare): Promise<CheckResult> {
  return by === 'ping' ? checkServer(reach, share) : checkConnection(reach);
}

function checkConnection({ host, healthPort: port }: Reach): Promise<CheckResult> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: ANSWER_MS });
    const end = (result: CheckResult): void => {
      resolve(result);
      socket.destroy();
    };
    socket.once('connect', () => end({ kind: 'connected', silent: true, why: 'no check was made' }));
    socket.once('timeout', () => end({ kind: 'unreachable', why: `no connection within ${ANSWER_MS / 1000} s` }));
    socket.on('error', ({ message }) => end({ kind: 'unreachable', why: message }));
  });
}

/** Whether the answer of `checkAgain` is a good one. */
export function isHealthy(result: CheckResult, by: ReadyBy): boolean {
  if (by !== 'ping') return result.kind !== 'unreachable';
  return result.kind === 'status' && (readyBy(result) === 'ping' || result.status === 204);
}

/** What was tried and what came back, for people. */
export function describeCheck(result: CheckResult, { healthPort }: Reach): string {
  const tried = `GET /ping on port ${healthPort}`;
  switch (result.kind) {
    case 'status':
      return `${tried}: status ${result.status}`;
    case 'connected':
      return `${tried}: connected, but ${result.silent ? result.why : `the response is not HTTP (${result.why})`}`;
    case 'unreachable':
      return `${tried}: ${result.why}`;
  }
}
