/** Detects the end of a request and the disconnection of its caller. */
import type { FastifyReply } from 'fastify';

/**
 * Calls `over` once, when the response was sent or the connection closed. The connection itself is watched, because a
 * response queued behind another one (pipelining) gets no event when the connection ends.
 */
export function onResponseClosed(reply: FastifyReply, over: () => void): void {
  const { raw } = reply;
  const { socket } = reply.request.raw;
  if (raw.destroyed || socket.destroyed) {
    over();
    return;
  }
  let ended = false;
  const end = (): void => {
    // The end of the connection closes the response within the same event; listeners removed until then are called
    // nevertheless.
    if (ended) return;
    ended = true;
    raw.off('close', end);
    socket.off('close', end);
    over();
  };
  raw.once('close', end);
  socket.once('close', end);
}
