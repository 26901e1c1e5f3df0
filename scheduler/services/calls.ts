/** Handlers of unary calls as async functions. One place converts their errors to a status. */
import type { handleUnaryCall, Metadata } from '@grpc/grpc-js';

import { CapstanError } from '../../lib/errors.ts';
import { toStatus } from '../../lib/grpc-errors.ts';
import type { EngineLog } from '../engine/engine-options.ts';

/** Wraps a handler. An error without a code is logged and becomes INTERNAL without its text. */
export function unary<Request, Reply>(
  log: EngineLog,
  name: string,
  handler: (request: Request, metadata: Metadata) => Promise<Reply> | Reply,
): handleUnaryCall<Request, Reply> {
  return (call, callback) => {
    void answer(log, name, () => handler(call.request, call.metadata)).then(
      (reply) => callback(null, reply),
      (error: unknown) => callback(toStatus(error)),
    );
  };
}

async function answer<Reply>(log: EngineLog, name: string, handler: () => Promise<Reply> | Reply): Promise<Reply> {
  try {
    return await handler();
  } catch (error) {
    if (!(error instanceof CapstanError)) log.error({ err: error, call: name }, 'call failed');
    throw error;
  }
}
