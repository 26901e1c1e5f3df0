/**
 * A thread of its own that waits for the agent's end: the main thread may be busy with a handler
 * for as long as that likes, and must not outlive the agent.
 */
import { Socket } from 'node:net';

import { LIFELINE_FD } from '../../hosted/protocol.ts';

const killGroup = (): void => void process.kill(-process.pid, 'SIGKILL');

const lifeline = new Socket({ fd: LIFELINE_FD, readable: true, writable: false });
lifeline.on('close', killGroup);
lifeline.on('error', killGroup);
lifeline.resume();
