/** Waits until each endpoint of a preview has its container, and reports what delays one. */
import { setTimeout as pause } from 'node:timers/promises';

import type { EndpointRow } from '../api/endpoint-row.ts';
import type { GatewayClient } from '../../client/gateway-client.ts';
import { listWorkers } from '../api/workers.ts';
import type { Terminal } from '../../terminal/terminal.ts';

const LOOK_EVERY_MS = 300;
const SERVING = new Set(['IDLE', 'RUNNING']);

/** @throws the signal's reason when the preview ends first. */
export async function containersRunning(
  client: GatewayClient,
  rows: readonly EndpointRow[],
  terminal: Terminal,
  signal: AbortSignal,
): Promise<void> {
  const shown = new Set<string>();
  terminal.step(`starting ${rows.length === 1 ? 'its container' : `${rows.length} containers`}`);
  for (;;) {
    const workers = await listWorkers(client, { endpoint: undefined, environment: undefined });
    for (const { endpoint, reason, detail } of workers) {
      const text = `${endpoint}: ${[reason, detail].filter((part) => part !== '').join(', ')}`;
      if (detail === '' || shown.has(text)) continue;
      shown.add(text);
      terminal.warn(text);
    }
    const serving = new Set(workers.filter(({ state }) => SERVING.has(state)).map(({ endpoint }) => endpoint));
    if (rows.every(({ name }) => serving.has(name))) break;
    await pause(LOOK_EVERY_MS, undefined, { signal });
  }
  terminal.done(rows.length === 1 ? 'its container is running' : `${rows.length} containers are running`);
}
