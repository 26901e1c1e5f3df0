/**
 * A container engine of the test's own: a Docker daemon in a temporary folder, without networks, that
 * touches nothing of the machine's. It needs Docker's programs (Debian: docker.io), root and Linux.
 */
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { chmod, rm, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';

import { ownFolder } from '../own-folder.ts';
import { baseImageTar } from './base-image.ts';
import { sweepStaleEngines, unmountIn } from './stale-engines.ts';

const run = promisify(execFile);
const POLL_MS = 25;
const PREFIX = 'capstan-docker';

/** Why no private engine can be started here; absent when one can. */
export const noEngine: string | undefined = lacking(['dockerd', 'docker', 'python3', 'tar', 'ldd']);

/** Why no private engine with networks can be started here; absent when one can. */
export const noNetworkedEngine: string | undefined = noEngine ?? lacking(['unshare', 'nsenter', 'ip', 'iptables']);

export interface PrivateEngine {
  readonly socket: string;
  /** Runs a program in the engine's own network, where published ports are; returns its output. Only with `hasNetwork`. */
  inNetwork(program: string, args: readonly string[], env?: NodeJS.ProcessEnv): Promise<string>;
  /** Runs the engine's own command-line client; answers its output. */
  docker(...args: string[]): Promise<string>;
  /** Ends the daemon and starts it anew; containers live on, as with `live-restore` in daemon.json. */
  restart(): Promise<void>;
  /** Ends the engine with all its containers, and takes its folder away. */
  stop(): Promise<void>;
}

/**
 * Starts the engine and gives it, under these names, an image with Python and what the agent's Node needs. `settings`:
 * more of daemon.json. `hasNetwork`: the engine has networks for containers, in a network namespace of its own: nothing of
 * them is on the machine's network, and nothing outside is reached. `enter`: the words with which the daemon's command line begins.
 */
export async function startEngine(
  names: readonly string[],
  settings: Readonly<Record<string, unknown>> = {},
  { hasNetwork = false, enter = [] }: { readonly hasNetwork?: boolean; readonly enter?: readonly string[] } = {},
): Promise<PrivateEngine> {
  await sweepStaleEngines(PREFIX);
  const folder = await ownFolder(PREFIX);
  // A user namespace's root must reach the layers below it.
  await chmod(folder, 0o711);
  const socket = join(folder, 'docker.sock');
  let daemon: ChildProcess | undefined;

  const docker = async (...args: string[]): Promise<string> => (await run('docker', ['-H', `unix://${socket}`, ...args])).stdout.trim();

  async function start(): Promise<void> {
    const file = join(folder, 'daemon.json');
    await writeFile(file, JSON.stringify(settings));
    const args = [
      '--config-file',
      file,
      '--data-root',
      join(folder, 'data'),
      '--exec-root',
      join(folder, 'exec'),
      '--pidfile',
      join(folder, 'pid'),
    ];
    const command = [...enter, 'dockerd', ...args, '-H', `unix://${socket}`];
    // `exec` keeps the process: its id is that of the daemon.
    const inNamespace = ['unshare', '--net', 'sh', '-c', 'ip link set lo up && exec "$@"', 'sh', ...command];
    const [program = '', ...rest] = hasNetwork ? inNamespace : [...command, '--iptables=false', '--bridge=none', '--live-restore'];
    const started = spawn(program, rest, { stdio: ['ignore', 'ignore', 'pipe'] });
    daemon = started;
    let said = '';
    started.stderr.setEncoding('utf8').on('data', (text: string) => (said = (said + text).slice(-4_000)));
    for (;;) {
      if (started.exitCode !== null) throw new Error(`dockerd ended with code ${started.exitCode}: ${said}`);
      const answered = await docker('version').then(
        () => true,
        () => false,
      );
      if (answered) return;
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  }

  async function inNetwork(program: string, args: readonly string[], env = process.env): Promise<string> {
    return (await run('nsenter', [`--net=/proc/${daemon?.pid ?? 0}/ns/net`, program, ...args], { env })).stdout;
  }

  async function end(signal: NodeJS.Signals): Promise<void> {
    const ending = daemon;
    if (ending === undefined || ending.exitCode !== null || ending.signalCode !== null) return;
    const gone = new Promise((resolve) => ending.once('exit', resolve));
    ending.kill(signal);
    await gone;
  }

  async function restart(): Promise<void> {
    await end('SIGTERM');
    await start();
  }

  async function stop(): Promise<void> {
    const left = await docker('ps', '-aq').catch(() => '');
    if (left !== '') await docker('rm', '-f', ...left.split('\n'));
    await end('SIGTERM');
    await unmountIn(folder);
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  }

  const [image = '', ...others] = names;
  try {
    const [tar] = await Promise.all([baseImageTar(), start()]);
    await docker('import', tar, image);
    for (const name of others) await docker('tag', image, name);
  } catch (error) {
    await stop();
    throw error;
  }
  return { socket, docker, inNetwork, restart, stop };
}

/** Why an engine of these programs cannot be started here; absent when it can. */
export function lacking(programs: readonly string[]): string | undefined {
  if (process.platform !== 'linux') return 'needs Linux';
  if (process.getuid?.() !== 0) return 'needs root';
  for (const program of programs) if (!isOnPath(program)) return `needs ${program}`;
  return undefined;
}

function isOnPath(program: string): boolean {
  return (process.env['PATH'] ?? '').split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, program), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}
