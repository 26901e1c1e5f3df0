/** Lines on the second channel (host-protocol.ts), which the two threads of a Node host share. */
import { writeSync } from 'node:fs';

import { isErrno } from '../../../../lib/to-error.ts';
import { ENTRY_FD } from '../../host-protocol.ts';

const PAUSE_MS = 1;

/** Writes one line with one system call; waits while the agent does not read: the lifeline's thread made the descriptor non-blocking. */
export function writeEntry(line: string): void {
  for (;;) {
    try {
      writeSync(ENTRY_FD, `${line}\n`);
      return;
    } catch (error) {
      if (!isErrno(error, 'EAGAIN')) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT)), 0, 0, PAUSE_MS);
    }
  }
}
