/** Calls that change or list jobs: one unary call each, with a deadline. */
import type { CallOptions, ClientUnaryCall, Metadata, ServiceError } from '@grpc/grpc-js';

import { schedulerRefusal } from '../grpc/refusals.ts';

export type UnaryMethod<Request, Response> = (
  request: Request,
  metadata: Metadata,
  options: Partial<CallOptions>,
  callback: (error: ServiceError | null, response: Response) => void,
) => ClientUnaryCall;

/** Makes the call. Rejects with a CapstanError. `timeoutMs` includes the wait for the connection. */
export function callUnary<Request, Response>(
  method: UnaryMethod<Request, Response>,
  request: Request,
  metadata: Metadata,
  timeoutMs: number,
): Promise<Response> {
  return new Promise((resolve, reject) => {
    method(request, metadata, { deadline: Date.now() + timeoutMs }, (error, response) => {
      if (error === null) resolve(response);
      else reject(schedulerRefusal(error));
    });
  });
}
