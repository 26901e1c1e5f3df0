/**
 * A separate thread that waits for the agent's end: a handler may block the main thread for any time, and the process
 * must not outlive the agent.
 */
import { Socket } from 'node:net';

import { LIFELINE_FD } from '../../hosted/protocol.ts';

const killGroup = (): void => void process.kill(-process.pid, 'SIGKILL');

const lifeline = new Socket({ fd: LIFELINE_FD, readable: true, writable: false });
lifeline.on('close', killGroup);
lifeline.on('error', killGroup);
lifeline.resume();
