/** The ports of a stack on this host: free, held by a part of Capstan itself, or by another program. */
import { readFileSync, readdirSync, readlinkSync } from 'node:fs';
import { createServer } from 'node:net';

import { gatewayVersion } from '../../client/gateway-version.ts';
import { DEFAULT_GRPC_PORT, DEFAULT_HTTP_PORT, type Settings } from '../../terminal/config.ts';
import { fault, ok, type Finding } from './finding.ts';

export interface OwnPorts {
  readonly findings: readonly Finding[];
  /** A gateway, and a scheduler, that run here without `capstan up`. */
  readonly gateway: boolean;
  readonly scheduler: boolean;
}

/** The parts that may hold a port, by the word behind the tool's program in their command line. */
type Part = 'gateway' | 'scheduler';

export async function checkPorts(settings: Settings): Promise<OwnPorts> {
  const http = await checkPort('gateway', settings.httpPort ?? DEFAULT_HTTP_PORT, { name: 'HTTP port', flag: '--http-port' });
  const grpc = await checkPort('scheduler', settings.grpcPort ?? DEFAULT_GRPC_PORT, { name: 'scheduler port', flag: '--grpc-port' });
  return { findings: [http.finding, grpc.finding], gateway: http.isOwn, scheduler: grpc.isOwn };
}

interface PortNames {
  readonly name: string;
  readonly flag: string;
}

async function checkPort(part: Part, port: number, { name, flag }: PortNames): Promise<{ finding: Finding; isOwn: boolean }> {
  const code = await tryListen(port);
  if (code === null) return { finding: ok(name, `${port} is free`), isOwn: false };
  if (partListening(port) === part || (part === 'gateway' && (await isGateway(port))))
    return { finding: ok(name, `${port} is used by a ${part} of Capstan`), isOwn: true };
  const finding = fault(name, `${port} is not available (${code})`, `Stop the other program, or use another port with ${flag}.`);
  return { finding, isOwn: false };
}

async function isGateway(port: number): Promise<boolean> {
  for (const scheme of ['http', 'https']) {
    const version = await gatewayVersion(`${scheme}://127.0.0.1:${port}`).catch(() => null);
    if (version !== null) return true;
  }
  return false;
}

/** Returns the part of Capstan that listens on a port; undefined for another program, and where /proc does not show it. */
function partListening(port: number): string | undefined {
  const inodes = new Set(['tcp', 'tcp6'].flatMap((file) => listeningInodes(file, port)));
  if (inodes.size === 0) return undefined;
  for (const pid of listed('/proc').filter((name) => /^\d+$/.test(name))) {
    const holds = listed(`/proc/${pid}/fd`).some((fd) => inodes.has(linkOf(`/proc/${pid}/fd/${fd}`)));
    if (!holds) continue;
    const words = read(`/proc/${pid}/cmdline`).split('\0');
    const at = words.findIndex((word) => /(^|\/)(capstan(\.mjs)?|cli\/main\.ts)$/.test(word));
    if (at !== -1) return words[at + 1];
  }
  return undefined;
}

/** State 0A of the kernel's table is LISTEN. */
function listeningInodes(file: string, port: number): string[] {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  return read(`/proc/net/${file}`)
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .flatMap(([, local = '', , state, , , , , , inode = '']) => (state === '0A' && local.endsWith(suffix) ? [`socket:[${inode}]`] : []));
}

/** Empty where another user's process, or one that has ended, does not show it. */
function listed(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return '';
  }
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

/** Returns null when the port is available, else the system's error code. */
function tryListen(port: number): Promise<string | null> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    server.listen({ host: '127.0.0.1', port, exclusive: true }, () => server.close(() => resolve(null)));
  });
}
