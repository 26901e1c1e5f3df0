/** Unary calls to the scheduler, with a deadline. */
import { setTimeout as pause } from 'node:timers/promises';

import type { CallOptions, ClientUnaryCall, Metadata, ServiceError } from '@grpc/grpc-js';

import { backoffMs } from '../../lib/backoff.ts';
import { fromServiceError, isNamed } from '../../lib/grpc-errors.ts';
import { schedulerRefusal } from '../grpc/refusals.ts';

export type UnaryMethod<Request, Response> = (
  request: Request,
  metadata: Metadata,
  options: Partial<CallOptions>,
  callback: (error: ServiceError | null, response: Response) => void,
) => ClientUnaryCall;

/**
 * Makes a call that may be made twice, and makes it again when its response was lost, or the scheduler can serve shortly. Rejects with a CapstanError.
 * `timeoutMs` includes the wait for the connection.
 */
export function callUnary<Request, Response>(
  method: UnaryMethod<Request, Response>,
  request: Request,
  metadata: Metadata,
  timeoutMs: number,
): Promise<Response> {
  return untilAnswered(timeoutMs, (leftMs) => callBare(method, request, metadata, leftMs));
}

/** Makes a call whose effect must not be doubled: when its response is lost, it fails. Otherwise as `callUnary`. */
export async function callOnce<Request, Response>(
  method: UnaryMethod<Request, Response>,
  request: Request,
  metadata: Metadata,
  timeoutMs: number,
): Promise<Response> {
  try {
    return await callBare(method, request, metadata, timeoutMs);
  } catch (thrown) {
    throw schedulerRefusal(thrown);
  }
}

/**
 * Repeats a call while its responses are lost, with backoff, until the time is over. `isRepeated`: an earlier one may
 * have been carried out. Rejects with a CapstanError.
 */
export async function untilAnswered<T>(timeoutMs: number, call: (leftMs: number, isRepeated: boolean) => Promise<T>): Promise<T> {
  const end = performance.now() + timeoutMs;
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await call(Math.max(1, end - performance.now()), attempt > 0);
    } catch (thrown) {
      const waitMs = backoffMs(attempt);
      if (!wasCutOff(thrown) || performance.now() + waitMs > end) throw schedulerRefusal(thrown);
      await pause(waitMs);
    }
  }
}

/**
 * True when the connection ended before the response: the scheduler refused nothing. Also when it says that it can serve
 * shortly: the call met it while it took its queue over.
 */
function wasCutOff(thrown: unknown): boolean {
  const { code, retryAfterMs } = fromServiceError(thrown);
  return code === 'UNAVAILABLE' && (!isNamed(thrown) || retryAfterMs !== undefined);
}

/** Rejects with the library's error. */
export function callBare<Request, Response>(
  method: UnaryMethod<Request, Response>,
  request: Request,
  metadata: Metadata,
  timeoutMs: number,
): Promise<Response> {
  return new Promise((resolve, reject) => {
    method(request, metadata, { deadline: Date.now() + timeoutMs }, (error, response) => {
      if (error === null) resolve(response);
      else reject(error);
    });
  });
}
