/**
 * Where the agent and its attackers are: this host, or a network namespace of the test with a container engine, whose bridges touch
 * nothing of this host.
 *
 * ```
 * this host: test, scheduler ── socket in a folder ── namespace: agent, dockerd ── bridges `plain`, `filtered` ── containers
 * ```
 */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import type { ExecutionContext } from 'ava';

import type { AgentConfigInput } from '../../agent/config.ts';
import { findProgram } from '../../agent/sandbox/host/requirements.ts';
import { LineSplitter } from '../../agent/runtimes/lines.ts';
import type { IsolationLevel } from '../../lib/isolation.ts';
import { startEngine } from '../support/container/private-engine.ts';
import { freePort } from '../support/free-port.ts';
import type { Ports } from './listeners.ts';

const run = promisify(execFile);
const LISTENERS = fileURLToPath(new URL('listeners.ts', import.meta.url));
export const IMAGE = 'capstan/base-python';
/** Name of gVisor among the engine's runtimes. */
const GVISOR = 'gvisor';
const PLAIN = { name: 'plain', device: 'capstan-plain', subnet: '10.213.7.0/24', gateway: '10.213.7.1' };
const FILTERED = { name: 'filtered', device: 'capstan-filter', subnet: '10.213.8.0/24', gateway: '10.213.8.1' };

export interface Place {
  /** The words with which a command line runs there. */
  readonly enter: readonly string[];
  readonly config: Partial<AgentConfigInput>;
  readonly workerApiPort: number;
  /** Ports and an abstract socket that listen there. */
  readonly listening: Ports & { readonly hostAddress: string };
  /** Workers are containers. */
  readonly isEngine: boolean;
  /** The engine's containers show their processes to the host. */
  readonly showsProcesses: boolean;
  /** The scheduler's address as the agent there dials it. */
  dial(address: string, folder: string): Promise<string>;
}

export async function placeOf(t: ExecutionContext, level: IsolationLevel, abstractSocket: string): Promise<Place> {
  if (level === 'container' || level === 'gvisor') return enginePlace(t, level, abstractSocket);
  const hostAddress = '127.0.0.2';
  return {
    enter: [],
    config: { isolation: level, containerSocket: 'none' },
    workerApiPort: await freePort(),
    listening: { ...(await listenIn(t, [], abstractSocket, hostAddress)), hostAddress },
    isEngine: false,
    showsProcesses: true,
    dial: (address) => Promise.resolve(address),
  };
}

async function enginePlace(t: ExecutionContext, level: 'container' | 'gvisor', abstractSocket: string): Promise<Place> {
  const enter = await namespaceOf(t);
  const isGvisor = level === 'gvisor';
  // Older versions of gVisor make no network of their own on newer kernels.
  const gvisor = { path: 'runsc', runtimeArgs: ['--host-uds=open', '--network=none'] };
  const engine = await startEngine(
    [IMAGE, 'capstan/base-node', 'capstan-test/image:1'],
    isGvisor ? { runtimes: { [GVISOR]: { ...gvisor, path: programOf('runsc') } } } : {},
    { enter },
  );
  t.teardown(() => engine.stop());
  for (const { name, device, subnet, gateway } of [PLAIN, FILTERED]) {
    const options = ['--subnet', subnet, '--gateway', gateway, '--opt', `com.docker.network.bridge.name=${device}`];
    await engine.docker('network', 'create', ...options, name);
  }
  const workerApiPort = await freePort();
  await filter(enter, workerApiPort);
  const hostAddress = PLAIN.gateway;
  return {
    enter,
    config: {
      isolation: 'none',
      containerSocket: engine.socket,
      containerNetwork: PLAIN.name,
      containerOutboundNetwork: FILTERED.name,
      containerSpares: 0,
      // gVisor's own threads count, and it ends when it gets no more.
      ...(isGvisor ? { containerRuntime: GVISOR, containerPids: 4_096 } : {}),
    },
    workerApiPort,
    listening: { ...(await listenIn(t, enter, abstractSocket, hostAddress)), hostAddress },
    isEngine: true,
    showsProcesses: !isGvisor,
    dial: (address, folder) => relay(t, address, join(folder, 'scheduler.sock')),
  };
}

/** Makes a network namespace with nothing but a loopback address; returns the words that enter it. */
async function namespaceOf(t: ExecutionContext): Promise<string[]> {
  const holder = spawn('unshare', ['--net', '/bin/sh', '-c', 'ip link set lo up && echo ready && exec cat >/dev/null'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  t.teardown(async () => {
    const gone = once(holder, 'exit');
    holder.stdin.end();
    await gone;
  });
  await firstLine(holder.stdout);
  return ['nsenter', `--net=/proc/${String(holder.pid)}/ns/net`, '--'];
}

/** What an operator of a host does for CAPSTAN_CONTAINER_OUTBOUND_NETWORK: neither this host nor private networks, but the agent's worker API. */
async function filter(enter: readonly string[], workerApiPort: number): Promise<void> {
  const refuse = 'reject with icmpx type admin-prohibited';
  const rules = [
    'table inet capstan-test {',
    'chain input { type filter hook input priority 0; policy accept;',
    `iifname "${FILTERED.device}" ip daddr ${FILTERED.gateway} tcp dport ${workerApiPort} accept`,
    `iifname "${FILTERED.device}" ${refuse}`,
    '}',
    'chain forward { type filter hook forward priority 0; policy accept;',
    `iifname "${FILTERED.device}" ip daddr { 10.0.0.0/8, 100.64.0.0/10, 169.254.0.0/16, 172.16.0.0/12, 192.168.0.0/16 } ${refuse}`,
    '}',
    '}',
  ].join('\n');
  // Not by its name: a package of npm has a program of that name, too.
  const [command, ...args] = [...enter, programOf('nft'), rules];
  await run(command, args);
}

async function listenIn(t: ExecutionContext, enter: readonly string[], abstractSocket: string, address: string): Promise<Ports> {
  const [command, ...args] = [...enter, process.execPath, LISTENERS, abstractSocket, address];
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  t.teardown(async () => {
    const gone = once(child, 'exit');
    child.stdin.end();
    await gone;
  });
  return JSON.parse(await firstLine(child.stdout)) as Ports;
}

/** Carries connections of a socket in a folder, which every network namespace reaches, to an address of this host. */
async function relay(t: ExecutionContext, address: string, path: string): Promise<string> {
  const [host = '', port = ''] = address.split(':');
  const server = createServer((near) => {
    const far = connect(Number(port), host);
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      one.on('error', () => other.destroy());
      one.once('close', () => other.destroy());
      one.pipe(other);
    }
  });
  server.listen(path);
  await once(server, 'listening');
  t.teardown(() => server.close());
  return `unix:${path}`;
}

function firstLine(stream: NodeJS.ReadableStream): Promise<string> {
  return new Promise((resolve, reject) => {
    const lines = new LineSplitter(resolve);
    stream.on('data', (data: Buffer) => lines.push(data));
    stream.once('end', () => reject(new Error('it ended without a line')));
  });
}

function programOf(name: string): string {
  const path = findProgram(name);
  if (path === undefined) throw new Error(`${name} is not installed`);
  return path;
}
