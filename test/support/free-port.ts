/**
 * A port of this host that is free now, for programs that must be told theirs. It is below the ports that the kernel gives to
 * outgoing connections and to whoever listens on port 0: those could take it before the program listens.
 */
import { once } from 'node:events';
import { createServer } from 'node:net';

import { isErrno } from '../../lib/to-error.ts';

/** The ports above are the kernel's (ip_local_port_range), and those of test/agent/fake-scheduler.ts. */
const FIRST = 10_240;
const LAST = 19_999;
const TRIES = 100;
const given = new Set<number>();

export async function freePort(): Promise<number> {
  for (let tried = 0; tried < TRIES; tried += 1) {
    const port = FIRST + Math.floor(Math.random() * (LAST - FIRST + 1));
    if (given.has(port) || !(await isFree(port))) continue;
    given.add(port);
    return port;
  }
  throw new Error(`no free port among ${TRIES} from ${FIRST} to ${LAST}`);
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen(port, '127.0.0.1');
  try {
    await once(server, 'listening');
  } catch (error) {
    if (isErrno(error, 'EADDRINUSE', 'EACCES')) return false;
    throw error;
  }
  server.close();
  await once(server, 'close');
  return true;
}
