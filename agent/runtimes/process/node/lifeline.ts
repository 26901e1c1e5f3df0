/**
 * A separate thread, because a handler may block the main thread for any time. It waits for the agent's end, which the
 * process must not outlive, and returns tasks that the agent takes back and the main thread has not entered.
 */
import { Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { workerData } from 'node:worker_threads';

import { ENTRY_FD, LIFELINE_FD } from '../../host-protocol.ts';
import { claim } from './claims.ts';
import { writeEntry } from './entries.ts';

const claims = workerData as Int32Array;
const killGroup = (): void => void process.kill(-process.pid, 'SIGKILL');

const lifeline = new Socket({ fd: LIFELINE_FD, readable: true, writable: false });
lifeline.on('close', killGroup);
lifeline.on('error', killGroup);
lifeline.resume();

// The main thread writes to it, too: this thread never closes it.
const recalls = new Socket({ fd: ENTRY_FD, readable: true, writable: false, allowHalfOpen: true });
recalls.on('error', killGroup);
createInterface({ input: recalls }).on('line', (line) => {
  const [no = '', key = ''] = line.split(' ');
  if (claim(claims, Number(no))) writeEntry(`-${key}`);
});
