/**
 * Stops the reading of a socket in this process, so that another one reads on exactly where it stopped. Node has a method for
 * that only where sockets are accepted (`pauseOnConnect`): those of a child process are read from the start, and `pause` reads
 * on into a buffer.
 */
import { Socket } from 'node:net';
import type { Readable } from 'node:stream';

interface Handle {
  readStop(): number;
}

/** Whether the source can be read by another process. */
export function isPassable(source: Readable): source is Socket {
  return source instanceof Socket && handleOf(source) !== undefined && !source.destroyed;
}

/** Removes the readers of a socket; returns the bytes that were read of it and not delivered. */
export function stopReading(socket: Socket): Buffer | undefined {
  // Of a socket that a server accepted, Node would note for as long as the reader lives that the reader has it, by server.
  (socket as { server?: unknown }).server = undefined;
  socket.removeAllListeners('data');
  socket.pause();
  const unread = socket.readableLength > 0 ? (socket.read() as Buffer | null) : null;
  // Last, because `read` may have begun to read again.
  handleOf(socket)?.readStop();
  return unread ?? undefined;
}

function handleOf(socket: Socket): Handle | undefined {
  const handle = (socket as unknown as { readonly _handle?: Partial<Handle> | null })._handle;
  return typeof handle?.readStop === 'function' ? (handle as Handle) : undefined;
}
