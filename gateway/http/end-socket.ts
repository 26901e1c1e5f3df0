/** Ends connections that the HTTP server does not track (any more). */
import type { Duplex } from 'node:stream';

/** Time that a peer has to close its side after the last byte was sent, ms. */
const CLOSE_MS = 5_000;
/** Time for sending what was written, ms. */
const FLUSH_MS = 30_000;

/** Sends the last bytes and ends the connection, also when the peer does not close its side. */
export function endSocket(socket: Duplex, bytes: string | Uint8Array): void {
  if (socket.destroyed) return;
  // The peer may reset the connection while it is answered.
  socket.on('error', () => socket.destroy());
  let timer = setTimeout(() => socket.destroy(), FLUSH_MS);
  socket.once('close', () => clearTimeout(timer));
  socket.end(bytes, () => {
    clearTimeout(timer);
    if (!socket.destroyed) timer = setTimeout(() => socket.destroy(), CLOSE_MS);
  });
}
