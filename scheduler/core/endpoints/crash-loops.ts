/**
 * Failed starts of a release. The agent restarts a failing worker with growing pauses; this module considers all
 * workers of the release:
 *
 *   - A node where its starts failed twice in a row is avoided for a while, longer each time, and the worker is tried
 *     on another node that can take it.
 *   - After three failed starts in a row, on any nodes, the release is in a crash loop: one worker keeps trying, no
 *     others are requested, and a new request waits for a pause that doubles with each failure.
 *   - One successful start ends the crash loop, and so does a new release.
 */
import { WorkerState } from '../../../proto/gen/capstan/v1/common.ts';
import type { WorkerStatus } from '../../../proto/gen/capstan/v1/nodes.ts';

import type { StepContext } from '../context.ts';
import { noteDecision } from './decisions.ts';
import type { EndpointRecord } from '../state/endpoints.ts';
import type { WorkerRecord } from '../state/fleet.ts';
import type { Now } from '../now.ts';

/** Consecutive failed starts that make a crash loop. */
const CRASH_LOOP_FAILURES = 3;
/** Consecutive failed starts on one node after which another node is tried. */
export const NODE_FAILURES = 2;
/** Limit for the failure count: agents report it, and operators receive it as a uint32. */
const MAX_FAILURES = 1_000_000;
const PAUSE_FIRST_MS = 1_000;
const PAUSE_LAST_MS = 60_000;
const AVOID_FIRST_MS = 30_000;
const AVOID_LAST_MS = 600_000;

/** Whether starts of the endpoint's release fail repeatedly. */
export function inCrashLoop(endpoint: EndpointRecord): boolean {
  return endpoint.starts.failures >= CRASH_LOOP_FAILURES;
}

/** Returns the pause after consecutive failed starts, ms. */
export function retryPauseMs(failures: number): number {
  return Math.min(PAUSE_LAST_MS, PAUSE_FIRST_MS * 2 ** Math.min(Math.max(0, failures - 1), 16));
}

/** Returns the nodes to avoid now. */
export function avoidedNodes(endpoint: EndpointRecord, now: Now): ReadonlySet<string> {
  const avoided = new Set<string>();
  for (const [node, { avoidUntil }] of endpoint.starts.nodes) if (avoidUntil > now.mono) avoided.add(node);
  return avoided;
}

/** Handles an agent's report of a worker's starts; `before` is its previous report. */
export function noteStart(ctx: StepContext, worker: WorkerRecord, status: WorkerStatus): void {
  // Of one report, no more than begin a crash loop: a hostile node could keep an endpoint waiting for minutes by one number.
  const failed = Math.min(CRASH_LOOP_FAILURES, Math.max(0, status.failures - worker.failuresSeen));
  const ready = status.state === WorkerState.IDLE || status.state === WorkerState.RUNNING;
  worker.failuresSeen = status.failures;
  const endpoint = ctx.state.endpoints.get(worker.endpoint);
  const started = ready && !worker.ready;
  worker.ready = ready || (worker.ready && status.state === WorkerState.DRAINING);
  if (endpoint === undefined) return;
  if (failed > 0 && !ready && worker.release === endpoint.config.release) noteFailures(ctx, endpoint, worker, { failed, status });
  if (!started) return;
  worker.idleSince = ctx.now.mono;
  worker.readySince = ctx.now.mono;
  if (worker.release === endpoint.config.release) noteGoodStart(ctx, endpoint, worker);
  // A start requested by a previous scheduler was reported to that scheduler.
  const { placedMs, runtime } = worker;
  if (placedMs === null) return;
  worker.placedMs = null;
  const { artifactMs, startedMs, loadedMs } = status;
  const phases = { runtime, placedMs, artifactMs, startedMs, loadedMs };
  worker.start = { ...phases, readyAt: ctx.now.wall };
  ctx.emit({ kind: 'worker-started', endpoint: worker.endpoint, ...phases });
}

function noteFailures(
  ctx: StepContext,
  endpoint: EndpointRecord,
  worker: WorkerRecord,
  { failed, status }: { readonly failed: number; readonly status: WorkerStatus },
): void {
  const { starts } = endpoint;
  const looped = inCrashLoop(endpoint);
  starts.failures = Math.min(MAX_FAILURES, starts.failures + failed);
  // From the third failure on agents report CRASH_LOOP, with the error as the detail.
  starts.lastError = status.reason === 'CRASH_LOOP' ? status.detail : `${status.reason}: ${status.detail}`;
  starts.retryAt = ctx.now.mono + retryPauseMs(starts.failures);
  const here = starts.nodes.get(worker.node) ?? { failures: 0, avoidUntil: 0 };
  here.failures += failed;
  if (here.failures >= NODE_FAILURES)
    here.avoidUntil = ctx.now.mono + Math.min(AVOID_LAST_MS, AVOID_FIRST_MS * 2 ** Math.min(here.failures - NODE_FAILURES, 16));
  starts.nodes.set(worker.node, here);
  ctx.state.dirtyEndpoints.add(endpoint.config.id);
  if (looped || !inCrashLoop(endpoint)) return;
  const reason = `${starts.failures} consecutive starts failed; last error: ${starts.lastError}`;
  noteDecision(endpoint, ctx.now, { kind: 'CRASH_LOOP', worker: worker.id, node: worker.node, reason });
  const facts = { endpoint: endpoint.config.id, worker: worker.id, node: worker.node, reason };
  ctx.emit({ kind: 'log', level: 'warn', message: 'workers of the endpoint keep failing to start', facts });
}

function noteGoodStart(ctx: StepContext, endpoint: EndpointRecord, worker: WorkerRecord): void {
  const { starts } = endpoint;
  starts.nodes.delete(worker.node);
  if (starts.failures === 0) return;
  if (inCrashLoop(endpoint)) {
    noteDecision(endpoint, ctx.now, { kind: 'RECOVERED', worker: worker.id, node: worker.node, reason: 'a worker started' });
    const facts = { endpoint: endpoint.config.id, worker: worker.id, node: worker.node };
    ctx.emit({ kind: 'log', level: 'info', message: 'workers of the endpoint start successfully again', facts });
  }
  starts.failures = 0;
  starts.lastError = '';
  starts.retryAt = 0;
}
