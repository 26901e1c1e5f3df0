/**
 * Podman's service of the Docker Engine API, the test's own: storage, state and network settings in a
 * temporary folder. It needs podman, runc and root.
 */
import { execFile, spawn } from 'node:child_process';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { ownFolder } from '../own-folder.ts';
import { until } from '../until.ts';
import { baseImageTar } from './base-image.ts';
import { lacking } from './private-engine.ts';
import { sweepStaleEngines, unmountIn } from './stale-engines.ts';

const run = promisify(execFile);
const PREFIX = 'capstan-podman';

/** Why no private Podman can be started here; absent when one can. */
export const noPodman: string | undefined = lacking(['podman', 'runc', 'python3', 'tar', 'ldd']);

export interface PrivatePodman {
  readonly socket: string;
  podman(...args: string[]): Promise<string>;
  stop(): Promise<void>;
}

/** Runs where cgroups have no systemd, and hard limits are low. */
const SETTINGS = `
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
`;

/** Starts the service and gives it, under these names, an image with Python and what the agent's Node needs. */
export async function startPodman(names: readonly string[]): Promise<PrivatePodman> {
  await sweepStaleEngines(PREFIX);
  const folder = await ownFolder(PREFIX);
  const socket = join(folder, 'podman.sock');
  const settings = join(folder, 'containers.conf');
  await writeFile(settings, SETTINGS);
  await mkdir(join(folder, 'networks'));
  const places = ['root', 'runroot', 'tmpdir'].map((name) => `--${name}=${join(folder, name)}`);
  const common = [...places, `--network-config-dir=${join(folder, 'networks')}`, '--storage-driver=overlay'];
  const env = { ...process.env, CONTAINERS_CONF: settings };
  const podman = async (...args: string[]): Promise<string> => (await run('podman', [...common, ...args], { env })).stdout.trim();
  const service = spawn('podman', [...common, 'system', 'service', '--time=0', `unix://${socket}`], {
    // Its monitors leave notes where they are started.
    cwd: folder,
    env,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let said = '';
  service.stderr.setEncoding('utf8').on('data', (text: string) => (said = (said + text).slice(-4_000)));
  const gone = new Promise((resolve) => service.once('exit', resolve));

  async function stop(): Promise<void> {
    await podman('rm', '--all', '--force', '--time=0').catch(() => '');
    service.kill('SIGTERM');
    await gone;
    await unmountIn(folder);
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  }

  try {
    const [first = '', ...others] = names;
    await podman('import', await baseImageTar(), first);
    for (const name of others) await podman('tag', first, name);
    await until('Podman serves', async () => {
      if (service.exitCode !== null) throw new Error(`podman ended with code ${service.exitCode}: ${said}`);
      return run('podman', ['--remote', '--url', `unix://${socket}`, 'version'], { env }).then(
        () => true,
        () => false,
      );
    });
  } catch (error) {
    await stop();
    throw error;
  }
  return { socket, podman, stop };
}
