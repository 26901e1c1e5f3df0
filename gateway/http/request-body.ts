/**
 * Receives request bodies into memory that all callers share (lib/shared-budget.ts), for every route that reads a whole
 * body.
 */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';

import type { FastifyReply, FastifyRequest } from 'fastify';

import { CapstanError } from '../../lib/errors.ts';
import { receiveBody, type BodyFault } from '../../lib/receive-body.ts';
import type { Party, Reservation, SharedBudget, BudgetShortage } from '../../lib/shared-budget.ts';
import type { UploadMonitor } from '../../lib/upload-monitor.ts';
import type { GatewayConfig } from '../config.ts';
import { onResponseClosed } from './client-disconnect.ts';
import { tooLarge } from './problem.ts';

type BodySizes = Pick<GatewayConfig, 'maxRunBytes' | 'maxRunsyncBytes'>;

/** The services that reading a body requires. */
interface BodyServices {
  readonly config: BodySizes;
  /** Memory of request bodies. */
  readonly memory: SharedBudget;
  /** Detects bodies that arrive too slowly. */
  readonly uploads: UploadMonitor;
}

declare module 'fastify' {
  interface FastifyRequest {
    /** The body as received. */
    rawBody: Buffer | null;
    /** Reserved memory of the body; null before the caller is known, and after the reservation is transferred. */
    reservation: Reservation | null;
  }
}

/** Retry delay for a caller whose body was rejected for lack of memory, ms. */
const RETRY_MS = 1000;
/** Maximum number of bodies of the largest kind in progress on one connection. */
const BODIES_OF_CONNECTION = 2;

const PARTIES = Symbol('parties of the last body');

/** A connection mostly serves one account. */
interface ChargedSocket extends Socket {
  [PARTIES]?: { readonly account: string; readonly parties: readonly Party[] };
}

/** The parties charged for a body: `account`, and the connection. */
export function partiesOf(account: string, request: IncomingMessage, config: BodySizes): readonly Party[] {
  const socket: ChargedSocket = request.socket;
  const known = socket[PARTIES];
  if (known?.account === account) return known.parties;
  const most = BODIES_OF_CONNECTION * Math.max(config.maxRunBytes, config.maxRunsyncBytes);
  const parties = [{ id: `account ${account}` }, { id: socket, most }];
  socket[PARTIES] = { account, parties };
  return parties;
}

/** The largest body that a route accepts: never more than the memory for bodies can hold beside others. */
export function bodyLimit(maxBytes: number, memory: SharedBudget): number {
  return Math.min(maxBytes, memory.largest);
}

/**
 * Opens the reservation for a request's body, which is released after the response. Must be called before the body is
 * read.
 */
export function expectBody(request: FastifyRequest, reply: FastifyReply, account: string, { memory, config }: BodyServices): void {
  if (!hasBody(request)) return;
  request.reservation = memory.open(...partiesOf(account, request.raw, config));
  onResponseClosed(reply, () => releaseBody(request));
}

/** Reads the body of a request for which `expectBody` was called. */
export function readBody(
  request: FastifyRequest,
  payload: IncomingMessage,
  { memory, uploads }: BodyServices,
  done: (error: CapstanError | null, body: Buffer) => void,
): void {
  const { reservation } = request;
  const length = request.headers['content-length'];
  // Without a reservation there is no body, or its caller disconnected before it was read.
  if (reservation === null) {
    done(hasBody(request) ? bodyError('broken', 0) : null, Buffer.alloc(0));
    return;
  }
  const maxBytes = bodyLimit(request.routeOptions.bodyLimit ?? memory.largest, memory);
  const declared = length === undefined ? undefined : Number(length);
  receiveBody(payload, { declared, maxBytes, reservation, monitor: uploads }, (fault, body) => {
    done(fault === null ? null : bodyError(fault, maxBytes), body);
  });
}

function hasBody({ headers }: FastifyRequest): boolean {
  const length = headers['content-length'];
  return (length !== undefined && length !== '0') || headers['transfer-encoding'] !== undefined;
}

/** Drops the body and releases its memory. */
export function releaseBody(request: FastifyRequest): void {
  request.body = undefined;
  request.rawBody = null;
  request.reservation?.release();
  request.reservation = null;
}

/** Transfers `bytes` of the body's reservation to a new holder, who releases them, and releases the rest. */
export function transferBody(request: FastifyRequest, bytes: number): Reservation | null {
  const { reservation } = request;
  request.reservation = null;
  request.body = undefined;
  request.rawBody = null;
  reservation?.resize(Math.min(bytes, reservation.bytes));
  return reservation;
}

/** Returns the error for a body that could not be received. */
export function bodyError(fault: BodyFault, maxBytes: number): CapstanError {
  switch (fault) {
    case 'too-large':
      return tooLarge(maxBytes);
    case 'too-slow':
      return new CapstanError('REQUEST_TIMEOUT', 'body: arrived too slowly', { field: 'body' });
    case 'broken':
      return new CapstanError('INVALID_ARGUMENT', 'body: ended before it was complete', { field: 'body' });
    case 'party-full':
      return shortageError('party');
    case 'memory-full':
      return shortageError('all');
  }
}

export function shortageError(shortage: BudgetShortage): CapstanError {
  return shortage === 'party'
    ? new CapstanError('RATE_LIMITED', 'the request bodies of this account already use its share of the gateway’s memory', {
        retryAfterMs: RETRY_MS,
      })
    : new CapstanError('UNAVAILABLE', 'request bodies already use all of the gateway’s memory for them', { retryAfterMs: RETRY_MS });
}
