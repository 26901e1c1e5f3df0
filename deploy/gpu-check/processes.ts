/**
 * Processes of the service that use a GPU, from /proc. What nvidia-smi lists is no base: in a container it lists none, or names them by
 * the host's ids, which are those of other processes here.
 */
import { readdir, readFile, readlink } from 'node:fs/promises';

/** Ids of the descendants of a process that have a GPU open or the driver's library mapped. */
export async function gpuProcesses(root: number): Promise<number[]> {
  const found: number[] = [];
  for (const pid of await descendants(root)) if (await usesGpu(pid)) found.push(pid);
  return found;
}

async function descendants(root: number): Promise<number[]> {
  const children = new Map<number, number[]>();
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const stat = await textOf(`/proc/${name}/stat`);
    // The name, in brackets, can contain anything.
    const parent = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
    if (parent > 0) children.set(parent, [...(children.get(parent) ?? []), Number(name)]);
  }
  const all: number[] = [];
  for (const next = [root]; next.length > 0;) {
    const own = children.get(next.pop() ?? 0) ?? [];
    all.push(...own);
    next.push(...own);
  }
  return all;
}

async function usesGpu(pid: number): Promise<boolean> {
  // The agent asks it every few seconds: it is no worker, and must not be killed as one.
  if ((await textOf(`/proc/${pid}/comm`)).trim() === 'nvidia-smi') return false;
  if ((await textOf(`/proc/${pid}/maps`)).includes('/libcuda.so')) return true;
  const descriptors = await readdir(`/proc/${pid}/fd`).catch(() => []);
  const targets = await Promise.all(descriptors.map((fd) => readlink(`/proc/${pid}/fd/${fd}`).catch(() => '')));
  return targets.some((target) => target.startsWith('/dev/nvidia'));
}

/** Empty for a process that has ended. */
function textOf(path: string): Promise<string> {
  return readFile(path, 'utf8').catch(() => '');
}
