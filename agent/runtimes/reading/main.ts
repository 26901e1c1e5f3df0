/**
 * The reader of an account: a process that reads what the account's workers write, and sends records to the agent. What
 * they write can stall or end this process; then it stalls or ends them.
 */
import { Socket } from 'node:net';

import { AccountSources } from './account-sources.ts';
import { RECORDS_FD, type ToReader } from './reader-protocol.ts';

const sources = new AccountSources(new Socket({ fd: RECORDS_FD, readable: true, writable: true }), () => process.exit(1));

process.on('message', (message: ToReader, socket: unknown) => sources.receive(message, socket instanceof Socket ? socket : undefined));
// The agent is gone, or needs this process no longer.
process.on('disconnect', () => process.exit(0));
// Its start leaves 0.5 MB of garbage, which a process without work never collects.
setImmediate(() => globalThis.gc?.({ type: 'major', execution: 'sync', flavor: 'last-resort' }));
