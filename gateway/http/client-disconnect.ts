/** Detects the end of a request and the disconnection of its caller. */
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

import type { FastifyReply } from 'fastify';

const OVER = Symbol('called when the response is over');
const OPEN = Symbol('responses of the connection that are not over');

/** One listener for each response and one for each connection serve all callbacks: listeners are the dearest part of them. */
interface WatchedResponse extends ServerResponse {
  [OVER]?: (() => void)[] | undefined;
}

interface WatchedSocket extends Socket {
  [OPEN]?: Set<WatchedResponse>;
}

/**
 * Calls `over` once, when the response was sent or the connection closed. The connection itself is watched, because a
 * response queued behind another one (pipelining) gets no event when the connection ends.
 */
export function onResponseClosed(reply: FastifyReply, over: () => void): void {
  const raw: WatchedResponse = reply.raw;
  const socket: WatchedSocket = reply.request.raw.socket;
  if (raw.destroyed || socket.destroyed) {
    over();
    return;
  }
  const waiting = raw[OVER];
  if (waiting !== undefined) {
    waiting.push(over);
    return;
  }
  raw[OVER] = [over];
  openOn(socket).add(raw);
  raw.on('close', responseClosed);
}

function openOn(socket: WatchedSocket): Set<WatchedResponse> {
  let open = socket[OPEN];
  if (open === undefined) {
    open = new Set();
    socket[OPEN] = open;
    socket.on('close', connectionClosed);
  }
  return open;
}

function responseClosed(this: WatchedResponse): void {
  // The response has left its socket; its request has not.
  const socket: WatchedSocket = this.req.socket;
  socket[OPEN]?.delete(this);
  end(this);
}

function connectionClosed(this: WatchedSocket): void {
  for (const response of this[OPEN] ?? []) end(response);
  this[OPEN]?.clear();
}

/** The end of the connection closes the response within the same event: only the first of both counts. */
function end(response: WatchedResponse): void {
  const waiting = response[OVER];
  if (waiting === undefined) return;
  response[OVER] = undefined;
  for (const over of waiting) over();
}
