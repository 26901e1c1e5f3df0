/** Whether running containers of this host can lose their GPUs to systemd (docs/gpu-hosts.md). */
import { existsSync } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { request } from 'node:http';
import { join } from 'node:path';

import { findContainerSocket } from '../../lib/container-socket.ts';

export interface ContainerGpuFacts {
  /** CAPSTAN_CONTAINER_GPUS. */
  readonly access: string;
  /** As the engine reports it; empty for Podman, which passes devices by CDI only. */
  readonly cgroupDriver: string;
  /** Device files without a link below /dev/char. */
  readonly unlinked: readonly string[];
}

/** What keeps the GPUs in containers, or why nothing does. */
export interface ContainerGpuVerdict {
  readonly isSafe: boolean;
  readonly text: string;
  readonly hint: string;
}

const TIMEOUT_MS = 5_000;
const HINT =
  'Use CDI (nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml, CAPSTAN_CONTAINER_GPUS=cdi), or the cgroup driver cgroupfs, or create the links: nvidia-ctk system create-dev-char-symlinks --create-all (docs/gpu-hosts.md).';

export function containerGpuVerdict({ access, cgroupDriver, unlinked }: ContainerGpuFacts): ContainerGpuVerdict {
  if (access === 'cdi' || cgroupDriver === '') return { isSafe: true, text: 'passed to containers by CDI', hint: '' };
  if (cgroupDriver !== 'systemd') return { isSafe: true, text: `the engine manages control groups itself (${cgroupDriver})`, hint: '' };
  if (unlinked.length === 0) return { isSafe: true, text: 'systemd knows the devices: each has a link below /dev/char', hint: '' };
  const text = `systemctl daemon-reload can take the GPUs from running containers: cgroup driver systemd, no CDI, no link below /dev/char for ${unlinked.join(', ')}`;
  return { isSafe: false, text, hint: HINT };
}

/** Undefined on a host without an engine or without device files of NVIDIA. */
export async function readContainerGpuFacts(socket: string, access: string, folder = '/dev'): Promise<ContainerGpuFacts | undefined> {
  const path = await findContainerSocket(socket);
  const files = (await readdir(folder)).filter((name) => /^nvidia(?:\d+|ctl|-uvm|-uvm-tools|-modeset)$/.test(name));
  if (path === undefined || files.length === 0) return undefined;
  const info = await engineInfo(path);
  if (info === undefined) return undefined;
  const unlinked: string[] = [];
  for (const name of files) {
    const { rdev } = await stat(join(folder, name));
    // As glibc's major and minor.
    const [major, minor] = [(rdev >> 8) & 0xfff, (rdev & 0xff) | ((rdev >> 12) & 0xfff00)];
    if (!existsSync(join(folder, 'char', `${major}:${minor}`))) unlinked.push(join(folder, name));
  }
  return { access, cgroupDriver: info.CgroupDriver ?? '', unlinked };
}

interface EngineInfo {
  readonly CgroupDriver?: string;
}

/** Undefined where the engine does not answer. */
function engineInfo(socketPath: string): Promise<EngineInfo | undefined> {
  const { promise, resolve } = Promise.withResolvers<EngineInfo | undefined>();
  const call = request({ socketPath, path: '/info', timeout: TIMEOUT_MS }, (response) => {
    let text = '';
    response.setEncoding('utf8');
    response.on('data', (part: string) => (text += part));
    response.on('end', () => resolve(parsed(text, String(response.headers.server ?? ''))));
    response.on('error', () => resolve(undefined));
  });
  call.on('timeout', () => call.destroy());
  call.on('error', () => resolve(undefined));
  call.end();
  return promise;
}

function parsed(text: string, server: string): EngineInfo | undefined {
  try {
    const info = JSON.parse(text) as EngineInfo;
    return /podman|libpod/i.test(server) ? {} : info;
  } catch {
    return undefined;
  }
}
