/** Private engines whose test process was killed by force: ended and taken away by the next run. */
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { readFile, rm } from 'node:fs/promises';
import { promisify } from 'node:util';

import { isRunning } from '../../conformance/runtime/running.ts';
import { foldersOfTheDead } from '../own-folder.ts';

const run = promisify(execFile);
const POLL_MS = 25;

/** Takes away what engines of dead processes left behind: processes, mounts, folders. */
export async function sweepStaleEngines(prefix: string): Promise<void> {
  for (const folder of await foldersOfTheDead(prefix)) {
    // Without putting anything in order: nothing in it is wanted any more. The daemon starts parts of its own anew, so it goes first.
    await killAll(folder, (command) => command.startsWith('dockerd'));
    await killAll(folder, () => true);
    await unmountIn(folder);
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** What the daemon leaves mounted: the namespace of the host's network, for instance. */
export async function unmountIn(folder: string): Promise<void> {
  const mounts = (await readFile('/proc/self/mounts', 'utf8')).split('\n').map((line) => line.split(' ')[1] ?? '');
  for (const mount of mounts.filter((path) => path.startsWith(`${folder}/`)).reverse()) await run('umount', ['-l', mount]);
}

/** Kills the fitting processes that name something in the folder in their command, with their children: a container's have none of our names. */
async function killAll(folder: string, fits: (command: string) => boolean): Promise<void> {
  const processes = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((name) => ({ pid: Number(name), parent: parentOf(name), command: commandOf(name) }));
  const named = processes.filter(({ command }) => command.includes(`${folder}/`) && fits(command)).map(({ pid }) => pid);
  const children = processes.filter(({ parent }) => named.includes(parent)).map(({ pid }) => pid);
  const doomed = [...new Set([...named, ...children])];
  for (const pid of doomed) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // It has ended meanwhile.
    }
  }
  for (const pid of doomed) while (await isRunning(pid)) await new Promise((resolve) => setTimeout(resolve, POLL_MS));
}

/** 0 when the process is gone. */
function parentOf(pid: string): number {
  const stat = read(pid, 'stat');
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1] ?? 0);
}

function commandOf(pid: string): string {
  return read(pid, 'cmdline').replaceAll('\0', ' ');
}

function read(pid: string, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return '';
  }
}
