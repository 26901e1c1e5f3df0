/** Charges the calls of workers to their accounts' shares of the agent's loop (runtimes/reading-shares.ts). */
import type { Socket } from 'node:net';

import type { ReadingShare } from '../runtimes/reading-shares.ts';

/** What a call takes of the loop, ms: its parts run in many turns, which are not measured. */
const CALL_MS = 0.2;

export class CallShares {
  readonly #known = new WeakSet<Socket>();

  /** Counts a call. No more calls of its connection are read while the share is used up. */
  charge(share: ReadingShare, socket: Socket): void {
    if (!this.#known.has(socket)) {
      this.#known.add(socket);
      share.add(socket);
      socket.once('close', () => share.delete(socket));
    }
    share.charge(CALL_MS);
  }
}
