/** /etc/hosts of a sandbox: that of this host, and the sandbox's own name, which programs resolve to find their address. */
import { readFile } from 'node:fs/promises';

/** Host name of every worker. */
export const WORKER_HOST = 'worker';

const LOOPBACK = '127.0.0.1\tlocalhost\n::1\tlocalhost\n';

/** The sandbox's own name comes first, so that a host of the same name does not hide it. */
export async function hostsFile(): Promise<string> {
  const ofHost = await readFile('/etc/hosts', 'utf8').catch(() => LOOPBACK); // a host may have none
  return `127.0.0.1\t${WORKER_HOST}\n${ofHost}`;
}
