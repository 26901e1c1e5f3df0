/** Meters what is read of a connection to a worker's server, whoever parses it, as time of the worker's account. */
import type { Socket } from 'node:net';

import type { ReadingShare } from '../reading-shares.ts';

/**
 * Charges the handling of each read to a share, and pauses the connection while the share is used up. Node's HTTP client pauses and
 * resumes it as well: it is read while neither has paused it.
 */
export function meterReads(socket: Socket, share: ReadingShare): void {
  const emit = socket.emit.bind(socket) as (event: string, ...values: unknown[]) => boolean;
  const pause = socket.pause.bind(socket);
  const resume = socket.resume.bind(socket);
  let isPaused = false;
  let isWanted = true;
  const source = {
    pause: (): void => {
      isPaused = true;
      pause();
    },
    resume: (): void => {
      isPaused = false;
      if (isWanted) resume();
    },
  };
  const metered = (event: string, ...values: unknown[]): boolean => {
    if (event !== 'data') return emit(event, ...values);
    let isHeard = false;
    share.handle(() => {
      isHeard = emit(event, ...values);
    });
    return isHeard;
  };
  Object.assign(socket, {
    emit: metered,
    pause: (): Socket => {
      isWanted = false;
      return pause();
    },
    resume: (): Socket => {
      isWanted = true;
      return isPaused ? socket : resume();
    },
  });
  share.add(source);
  socket.once('close', () => share.delete(source));
}
