/**
 * First process of a Node worker's container. It connects to the agent, starts the worker's host in a session of its
 * own, and reports how the host ended. When the agent is gone it exits, and the kernel then ends everything in the
 * container.
 */
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { constants } from 'node:os';
import { fileURLToPath } from 'node:url';

/** As in agent/runtimes/container/layout.ts. */
const SOCKET = '/capstan/channel/s';
const HOST = fileURLToPath(new URL('../../process/node/main.ts', import.meta.url));
const KILLED = 128 + constants.signals.SIGKILL;

const [channel, entry, lifeline] = await Promise.all([open('c'), open('e'), open('l')]);
const host = spawn(process.execPath, [...process.execArgv, HOST], {
  stdio: ['ignore', 'inherit', 'inherit', channel, entry, lifeline],
  detached: true,
});
// Copies in this process would hide the host's close of these descriptors from the agent.
channel.destroy();
entry.destroy();
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => passOn(signal));
host.once('error', (error) => {
  process.stderr.write(`${error.message}\n`);
  process.exit(1);
});
host.once('exit', (code, signal) => {
  const number = signal === null ? 0 : constants.signals[signal];
  const why = signal === 'SIGKILL' && ranOutOfMemory() ? ' oom' : '';
  const report = signal === null ? `exit ${code ?? 1}\n` : `signal ${number}${why}\n`;
  lifeline.end(report, () => process.exit(signal === null ? (code ?? 1) : 128 + number));
});
lifeline.once('close', () => process.exit(KILLED));
lifeline.on('error', () => process.exit(KILLED));
lifeline.resume();

/** This process must not read from the connection: incoming data is for the host. */
function open(role: string): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  const socket = connect(SOCKET);
  socket.pause();
  socket.once('error', reject);
  socket.once('connect', () => {
    socket.off('error', reject);
    socket.write(role, () => resolve(socket));
  });
  return promise;
}

/**
 * True after an out-of-memory kill: not every engine reports one of a process other than the container's first. The
 * files are those of cgroup v2 and v1.
 */
function ranOutOfMemory(): boolean {
  return ['/sys/fs/cgroup/memory.events', '/sys/fs/cgroup/memory/memory.oom_control'].some((path) => {
    try {
      return /^oom_kill [1-9]/m.test(readFileSync(path, 'utf8'));
    } catch {
      return false; // the file of the other version
    }
  });
}

function passOn(signal: NodeJS.Signals): void {
  if (host.pid === undefined || host.exitCode !== null || host.signalCode !== null) return;
  process.kill(-host.pid, signal);
}
