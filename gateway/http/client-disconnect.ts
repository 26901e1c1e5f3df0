/** Noticing that a request is over, or that its caller went away. */
import type { FastifyReply } from 'fastify';

/**
 * Calls `over` once, when the answer was sent or the connection closed. The connection is watched
 * itself, because an answer queued behind another one (pipelining) never hears of its end.
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
    // The connection's end closes the answer within the same event: listeners taken off by then are called all the same.
    if (ended) return;
    ended = true;
    raw.off('close', end);
    socket.off('close', end);
    over();
  };
  raw.once('close', end);
  socket.once('close', end);
}
