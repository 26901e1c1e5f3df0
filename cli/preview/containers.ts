/** Waits until each endpoint of a preview has its container, and says what holds one up. */
import { setTimeout as pause } from 'node:timers/promises';

import type { EndpointRow } from '../api/endpoint-row.ts';
import { workerRow } from '../api/worker-row.ts';
import type { Settings } from '../config.ts';
import { withScheduler } from '../local.ts';
import type { Terminal } from '../terminal/terminal.ts';

const LOOK_EVERY_MS = 300;
const SERVING = new Set(['IDLE', 'RUNNING']);

/** @throws the signal's reason when the preview ends first. */
export async function containersRunning(
  settings: Settings,
  rows: readonly EndpointRow[],
  terminal: Terminal,
  signal: AbortSignal,
): Promise<void> {
  const names = new Map(rows.map(({ id, name }) => [id, name]));
  const told = new Set<string>();
  terminal.step(`starting ${rows.length === 1 ? 'its container' : `${rows.length} containers`}`);
  await withScheduler(settings, async (client) => {
    for (;;) {
      const workers = (await client.listWorkers('')).map((worker) => workerRow(worker, names));
      for (const { endpoint, reason, detail } of workers) {
        const text = `${endpoint}: ${[reason, detail].filter((part) => part !== '').join(', ')}`;
        if (detail === '' || told.has(text)) continue;
        told.add(text);
        terminal.warn(text);
      }
      const serving = new Set(workers.filter(({ state }) => SERVING.has(state)).map(({ endpoint }) => endpoint));
      if (rows.every(({ name }) => serving.has(name))) break;
      await pause(LOOK_EVERY_MS, undefined, { signal });
    }
  });
  terminal.done(rows.length === 1 ? 'its container runs' : `${rows.length} containers run`);
}
