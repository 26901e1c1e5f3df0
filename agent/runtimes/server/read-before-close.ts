/**
 * A server may respond before it has read the body of a request, and close: 413 from the headers alone, for example. The
 * kernel then resets the connection, and the next write fails. Node would destroy the socket at that moment, with the
 * response unread in it.
 */
import type { Socket } from 'node:net';

type Done = (error?: Error | null) => void;

const RESET = new Set(['ECONNRESET', 'EPIPE']);
const failures = new WeakMap<Socket, NodeJS.ErrnoException>();

/** Lets a socket whose write fails read what has arrived: it is destroyed at its end. Such a write never completes. */
export function readBeforeClose(socket: Socket): void {
  const write = socket._write.bind(socket);
  const writev = socket._writev?.bind(socket);
  const unlessReset =
    (done: Done): Done =>
    (error) => {
      if (!isReset(error) || socket.readableEnded || socket.destroyed) {
        done(error);
        return;
      }
      failures.set(socket, error);
      // After the reset the kernel reports the end as soon as everything is read.
      socket.once('end', () => setImmediate(() => socket.destroy(error)));
    };
  socket._write = (chunk, encoding, done) => write(chunk, encoding, unlessReset(done));
  if (writev !== undefined) socket._writev = (chunks, done) => writev(chunks, unlessReset(done));
}

/** Returns why a write to the socket failed; undefined when none did. */
export function failedWriteOf(socket: Socket | null): NodeJS.ErrnoException | undefined {
  return socket === null ? undefined : failures.get(socket);
}

function isReset(error: NodeJS.ErrnoException | null | undefined): error is NodeJS.ErrnoException {
  return RESET.has(error?.code ?? '');
}
