/** Finds containers without a living agent by their labels and removes them. */
import { randomUUID } from 'node:crypto';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { readStat } from '../process-stat.ts';
import { LABELS } from './layout.ts';
import { engineStatus, type ContainerEngine } from './engine.ts';

const LIST_MS = 30_000;

/** Returns the random name under which an agent's containers are found after its end, kept in its data folder. */
export async function containerOwner(file: string): Promise<string> {
  const known = await readFile(file, 'utf8').catch(() => '');
  if (/^[0-9a-f-]{36}$/.test(known.trim())) return known.trim();
  const made = randomUUID();
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, `${made}\n`, { mode: 0o600 });
  return made;
}

/** Returns a name of this run of the agent's process, unique within this boot. */
export function incarnationName(): string {
  return `${process.pid}:${readStat(process.pid)?.start ?? ''}`;
}

/**
 * Removes the owner's containers whose agent is gone, and this agent's own whose start `isLive` does not know. Returns
 * their number; rejects when the engine does.
 */
export async function removeLeftovers(engine: ContainerEngine, owner: string, isLive: (start: string) => boolean): Promise<number> {
  const client = await engine.client();
  const filters = { label: [`${LABELS.agent}=${owner}`] };
  const found = await client.listContainers({ all: true, filters, abortSignal: AbortSignal.timeout(LIST_MS) });
  const mine = incarnationName();
  const doomed = found.filter(({ Labels }) => {
    const of = Labels[LABELS.incarnation] ?? '';
    return of === mine ? !isLive(Labels[LABELS.start] ?? '') : !isRunning(of);
  });
  await Promise.all(
    doomed.map(async ({ Id }) => {
      try {
        await client.getContainer(Id).remove({ force: true, v: true, abortSignal: AbortSignal.timeout(LIST_MS) });
      } catch (error) {
        // 404: gone; 409: already being removed.
        if (![404, 409].includes(engineStatus(error) ?? 0)) throw error;
      }
    }),
  );
  return doomed.length;
}

/** Removes the subfolders, named by start, of containers unknown to `isLive`. */
export async function removeFolders(folder: string, isLive: (start: string) => boolean): Promise<void> {
  const starts = await readdir(folder).catch(() => []);
  await Promise.all(starts.filter((start) => !isLive(start)).map((start) => rm(join(folder, start), { recursive: true, force: true })));
}

/** Containers of another agent on the same data folder must be kept. */
function isRunning(incarnation: string): boolean {
  const [pid, started] = incarnation.split(':');
  return started !== undefined && started !== '' && readStat(Number(pid))?.start === started;
}
