/** Reads and drops the rest of a request's body after an error, so that the caller receives the response. */
import type { IncomingMessage } from 'node:http';

export interface DrainLimits {
  readonly bytes: number;
  readonly ms: number;
}

/** Beyond the limits the connection goes. */
export function drain(request: IncomingMessage, limits: DrainLimits): void {
  if (request.complete || request.destroyed) return;
  let left = limits.bytes;
  const timer = setTimeout(() => request.destroy(), limits.ms);
  request.on('data', (chunk: Buffer) => {
    left -= chunk.length;
    if (left < 0) request.destroy();
  });
  for (const over of ['end', 'close']) request.once(over, () => clearTimeout(timer));
  request.resume();
}
