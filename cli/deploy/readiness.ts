/**
 * Waits until the new releases of a deployment serve. A worker of each is started, also where `workersMin` is 0: that a release can
 * start is known only when it has. Such a worker ends by its idle timeout.
 */
import { setTimeout as pause } from 'node:timers/promises';

import { CapstanError } from '../../lib/errors.ts';
import type { WorkerStart } from '../api/worker-start.ts';
import type { Terminal } from '../../terminal/terminal.ts';

const POLL_MS = 500;

export interface Waited {
  readonly id: string;
  readonly name: string;
  /** The release that was deployed. */
  readonly releaseId: string;
}

export type Readiness =
  /** A worker serves, or the endpoint is paused. */
  | { readonly kind: 'ready'; readonly endpoint: Waited }
  /** No connected node can run it. */
  | { readonly kind: 'no-node'; readonly endpoint: Waited; readonly reason: string }
  | { readonly kind: 'failed'; readonly endpoint: Waited; readonly failures: number; readonly error: string }
  | { readonly kind: 'late'; readonly endpoint: Waited; readonly reason: string }
  /** Another deployment replaced the release, or deleted the endpoint. */
  | { readonly kind: 'replaced'; readonly endpoint: Waited };

export interface ReadinessOptions {
  readonly start: (endpointId: string) => Promise<WorkerStart>;
  readonly terminal: Pick<Terminal, 'step' | 'done' | 'warn'>;
  /** How long a release may take, ms. */
  readonly timeoutMs: number;
  readonly pollMs?: number;
}

const PHASES: Readonly<Record<string, string>> = {
  PLACING: 'waiting for a place',
  PREPARING: 'preparing',
  STARTING: 'starting',
};

/** Says each phase once, and how each endpoint came out. @throws CapstanError when the service cannot say. */
export async function waitUntilReady(endpoints: readonly Waited[], options: ReadinessOptions): Promise<readonly Readiness[]> {
  // The first error ends the waiting for all.
  const ending = new AbortController();
  const { signal } = ending;
  return Promise.all(endpoints.map((endpoint) => waitFor(endpoint, { ...options, signal }))).finally(() => ending.abort());
}

async function waitFor(
  endpoint: Waited,
  { start, terminal, timeoutMs, pollMs = POLL_MS, signal }: ReadinessOptions & { readonly signal: AbortSignal },
): Promise<Readiness> {
  const begun = performance.now();
  let said = '';
  let failuresSaid = 0;
  let before: number | undefined;
  for (;;) {
    const found = await startOf(start, endpoint.id);
    signal.throwIfAborted();
    if (found === null || found.release !== endpoint.releaseId) return { kind: 'replaced', endpoint };
    // Failures of an earlier deployment of the same release.
    before ??= found.failures;
    const where = found.node === null ? '' : ` on ${found.node}`;
    const error = found.lastError ?? '';
    switch (found.phase) {
      case 'PAUSED':
        terminal.step(`${endpoint.name}: paused (workersMax is 0)`);
        return { kind: 'ready', endpoint };
      case 'READY':
        terminal.done(`${endpoint.name}: ready${where} after ${((performance.now() - begun) / 1000).toFixed(1)} s`);
        return { kind: 'ready', endpoint };
      case 'NO_NODE':
        return { kind: 'no-node', endpoint, reason: found.detail ?? '' };
      case 'CRASH_LOOP':
        if (found.failures > before || before === 0) return { kind: 'failed', endpoint, failures: found.failures, error };
        break;
      case 'PLACING':
      case 'PREPARING':
      case 'STARTING':
        break;
    }
    if (found.failures > failuresSaid && found.failures > before) terminal.warn(`${endpoint.name}: a start failed${where}: ${error}`);
    failuresSaid = found.failures;
    const detail = found.detail === null || found.phase === 'CRASH_LOOP' || found.failures > 0 ? '' : ` (${found.detail})`;
    const text = `${endpoint.name}: ${PHASES[found.phase] ?? 'starting'}${where}${detail}`;
    if (text !== said) terminal.step(text);
    said = text;
    if (performance.now() - begun > timeoutMs) return { kind: 'late', endpoint, reason: text.slice(endpoint.name.length + 2) };
    await pause(pollMs, undefined, { signal });
  }
}

/** Null when the endpoint is gone. */
async function startOf(start: ReadinessOptions['start'], id: string): Promise<WorkerStart | null> {
  try {
    return await start(id);
  } catch (error) {
    if (error instanceof CapstanError && error.code === 'NOT_FOUND') return null;
    throw error;
  }
}
