/**
 * Reads and drops the rest of a request's body after its response, so that the caller receives the response: most callers
 * read only when they have sent everything, and closing a connection with unread bytes resets it.
 */
import type { IncomingMessage } from 'node:http';

export interface DrainLimits {
  readonly bytes: number;
  readonly ms: number;
}

/** Beyond the limits the connection goes. */
export function drain(request: IncomingMessage, limits: DrainLimits): void {
  if (request.complete || request.destroyed) return;
  const { socket } = request;
  let left = limits.bytes;
  const timer = setTimeout(() => request.destroy(), limits.ms);
  request.on('data', (chunk: Buffer) => {
    left -= chunk.length;
    if (left < 0) request.destroy();
  });
  const close = socket.destroySoon;
  let isClosing = false;
  // Called once the response is sent, where the caller or the gateway wants the connection to be closed.
  socket.destroySoon = () => {
    isClosing = true;
    socket.end();
  };
  const over = (): void => {
    clearTimeout(timer);
    socket.destroySoon = close;
    if (isClosing) socket.destroySoon();
  };
  request.once('end', over);
  request.once('close', over);
  request.resume();
}
