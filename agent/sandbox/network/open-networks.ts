/** Opens the network `outbound`, or says what this host lacks for it. It is tried by really connecting from inside. */
import { spawn } from 'node:child_process';
import { createServer, type AddressInfo } from 'node:net';

import type { MissingIsolation } from '../../../lib/isolation.ts';
import { messageOf } from '../../../lib/to-error.ts';
import { withoutInherited } from '../host/descriptors.ts';
import { findProgram } from '../host/requirements.ts';
import type { NetworkTools } from './network-space.ts';
import { WorkerNetworks, type WorkerNetworksOptions } from './worker-networks.ts';

const WITHOUT = 'outbound';
const PACKAGES: readonly (readonly [keyof NetworkTools, string])[] = [
  ['pasta', 'passt'],
  ['nft', 'nftables'],
  ['nsenter', 'util-linux'],
  ['setpriv', 'util-linux'],
  ['unshare', 'util-linux'],
];
const TRY_MS = 10_000;
/** Ends with 0 when the first port is reached and the second is not. */
const TRIAL = `
const { connect } = require('node:net');
const reaches = (port) => new Promise((resolve) => {
  connect(port, '127.0.0.1').on('connect', () => resolve(true)).on('error', () => resolve(false));
});
(async () => {
  if (!(await reaches(Number(process.argv[1])))) process.exit(91);
  process.exit((await reaches(Number(process.argv[2]))) ? 92 : 0);
})();`;
const TRIAL_FAILS: Readonly<Record<number, string>> = {
  91: 'a port of this host that workers need is not reachable',
  92: 'other ports of this host are reachable',
};

export interface OpenedNetworks {
  /** Absent where it does not work; `missing` then says why. */
  readonly networks: WorkerNetworks | undefined;
  readonly missing: readonly MissingIsolation[];
}

export async function openNetworks(
  options: Omit<WorkerNetworksOptions, 'tools'>,
  find: (name: string) => string | undefined = findProgram,
): Promise<OpenedNetworks> {
  const found = PACKAGES.map(([program, name]) => ({ program, name, path: find(program) }));
  const missing = found.filter(({ path }) => path === undefined);
  if (missing.length > 0) {
    const remedy = `apt install ${[...new Set(missing.map(({ name }) => name))].join(' ')}`;
    return without(`${missing.map(({ program }) => program).join(' and ')} ${missing.length === 1 ? 'is' : 'are'} not installed`, remedy);
  }
  const tools = Object.fromEntries(found.map(({ program, path }) => [program, path ?? ''])) as unknown as NetworkTools;
  const networks = new WorkerNetworks({ ...options, tools });
  const problem = await trial(networks);
  if (problem === undefined) return { networks, missing: [] };
  await networks.close();
  return without(problem, /tun/.test(problem) ? 'chmod 0666 /dev/net/tun; in a container, start that with --device /dev/net/tun' : '');
}

function without(reason: string, remedy: string): OpenedNetworks {
  return { networks: undefined, missing: [{ without: WITHOUT, reason, remedy }] };
}

/** Returns what went wrong; undefined when it worked. */
async function trial(networks: WorkerNetworks): Promise<string | undefined> {
  const servers = [createServer((socket) => socket.end()), createServer((socket) => socket.end())];
  try {
    const [open = 0, shut = 0] = await Promise.all(servers.map(listening));
    const space = await networks.take({ reached: [open], published: [] });
    const code = await exitOf([...space.enter, process.execPath, '-e', TRIAL, String(open), String(shut)]);
    await networks.release(space);
    return code === 0 ? undefined : (TRIAL_FAILS[code ?? 0] ?? `the trial ended with ${code === null ? 'a signal' : `code ${code}`}`);
  } catch (error) {
    return messageOf(error);
  } finally {
    for (const server of servers) server.close();
  }
}

function listening(server: ReturnType<typeof createServer>): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port));
  });
}

function exitOf([command = '', ...args]: readonly string[]): Promise<number | null> {
  return new Promise((resolve, reject) => {
    const child = withoutInherited(['ignore', 'ignore', 'ignore'], (stdio) =>
      spawn(command, args, { stdio, env: {}, timeout: TRY_MS, killSignal: 'SIGKILL' }),
    );
    child.once('error', reject);
    child.once('exit', (code) => resolve(code));
  });
}
