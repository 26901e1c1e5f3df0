/** Incidents of endpoints whose workers run: what fails, what waits too long, which GPUs nobody uses. */
import { LOWER_WORKERS_MIN, RAISE_WORKERS_MAX, RETRY_ALL_FAILED, ROLL_BACK } from '../../lib/incident-actions.ts';
import { requestLoad } from '../core/scaling/scaling-requests.ts';
import type { Now } from '../core/now.ts';
import type { State } from '../core/state.ts';
import type { EndpointRecord } from '../core/state/endpoints.ts';
import type { JobRecord, Lane } from '../core/state/jobs.ts';
import type { Ends, Figures } from './figures.ts';
import { ofEndpoint, type Action, type Incident } from './incident.ts';
import { counted, endpointArguments } from './titles.ts';

/** Fewer ends than this say nothing about a share. */
const MIN_ENDED = 5;
/** Shares of failures from which they are reported, and from which most of what is asked of the endpoint fails. */
const FAILING_SHARE = 0.2;
const MOSTLY_FAILING_SHARE = 0.5;
/** Routes that a message names. */
const MAX_NAMED = 3;

/** The target of an endpoint that sets none: several times its usual delay, and at least this, ms. */
const USUAL_FACTOR = 3;
const MIN_TARGET_MS = 60_000;
/** The target of an endpoint without a history, ms. */
const FIRST_TARGET_MS = 300_000;

/** Time for which a worker does not use its GPUs, ms. */
const GPU_IDLE_MS = 1_800_000;

export function failureIncident(endpoint: EndpointRecord, figures: Figures, logs: Action): Incident | undefined {
  const recent = figures.recent(endpoint.config.id);
  if (recent === undefined) return undefined;
  const routes = [...recent.routes].filter(([, ends]) => fails(ends)).toSorted(([, a], [, b]) => b.failedEnds - a.failedEnds);
  const jobs = fails(recent.jobs) ? [`${recent.jobs.failedEnds} of ${counted(recent.jobs.ended, 'job')} failed`] : [];
  const named = routes
    .slice(0, MAX_NAMED)
    .map(([name, { ended, failedEnds }]) => `${failedEnds} of ${counted(ended, 'request')}${ofRoute(name)} ended with a status from 500`);
  const rest = routes.length > MAX_NAMED ? [`so did others of ${counted(routes.length - MAX_NAMED, 'route')} more`] : [];
  const texts = [...jobs, ...named, ...rest];
  if (texts.length === 0) return undefined;
  const worst = Math.max(...[recent.jobs, ...routes.map(([, ends]) => ends)].map(share));
  const retry = { label: RETRY_ALL_FAILED, command: `capstan jobs retry ${endpointArguments(endpoint)} --failed` };
  return ofEndpoint(endpoint, `: ${texts.join('; ')}, in the last 5 minutes`, {
    kind: 'FAILURE_RATE',
    severity: worst >= MOSTLY_FAILING_SHARE ? 'CRITICAL' : 'WARNING',
    sinceMs: recent.failingSince,
    actions: [logs, rollBack(endpoint), ...(jobs.length === 0 ? [] : [retry])],
  });
}

function fails(ends: Ends): boolean {
  return ends.ended >= MIN_ENDED && share(ends) >= FAILING_SHARE;
}

function share({ ended, failedEnds }: Ends): number {
  return ended === 0 ? 0 : failedEnds / ended;
}

function ofRoute(name: string): string {
  return name === '' ? '' : name === '*' ? ' of other routes' : ` of ${name}`;
}

export function rollBack(endpoint: EndpointRecord): Action {
  return { label: ROLL_BACK, command: `capstan rollback ${endpointArguments(endpoint)}` };
}

/** Jobs of low priority have no target: they wait for workers that others leave. */
export function delayIncident(endpoint: EndpointRecord, now: Now, figures: Figures, logs: Action): Incident | undefined {
  const oldest = oldestQueued(endpoint.lanes[0]);
  const held = requestLoad(endpoint, now);
  const waitedMs = Math.max(oldest === undefined ? 0 : now.wall - oldest.queuedAt, held.waiting === 0 ? 0 : held.oldestWaitMs);
  const { delayTargetS, workersMax } = endpoint.config;
  // The history is read only for what has waited for a while.
  if (waitedMs <= (delayTargetS > 0 ? delayTargetS * 1_000 : MIN_TARGET_MS)) return undefined;
  const usualMs = delayTargetS > 0 ? null : figures.usualDelayMs(endpoint.config.id);
  if (usualMs === undefined) return undefined;
  const derivedMs = usualMs === null ? FIRST_TARGET_MS : Math.max(MIN_TARGET_MS, usualMs * USUAL_FACTOR);
  const targetMs = delayTargetS > 0 ? delayTargetS * 1_000 : derivedMs;
  if (waitedMs <= targetMs) return undefined;
  const origin = delayTargetS > 0 ? 'delayTarget' : usualMs === null ? 'the default' : 'three times its usual delay, at least 60 s';
  const text = `: the oldest ${oldest === undefined ? 'request' : 'job'} has waited for ${seconds(waitedMs)}; the target is ${seconds(targetMs)} (${origin})`;
  const raised = Math.max(1, endpoint.workers.size) * 2;
  const raise = { label: RAISE_WORKERS_MAX, command: `capstan endpoints set ${endpointArguments(endpoint)} workersMax=${raised}` };
  return ofEndpoint(endpoint, text, {
    kind: 'QUEUE_DELAY',
    severity: 'WARNING',
    sinceMs: now.wall - waitedMs + targetMs,
    actions: [...(endpoint.workers.size >= workersMax ? [raise] : []), logs],
    waiting: { jobs: endpoint.lanes[0].count, requests: held.waiting },
  });
}

/** A job that returned to the queue waits since then: the time for which it ran is no delay. */
function oldestQueued({ window, head }: Lane): JobRecord | undefined {
  for (let at = head; at < window.length; at++) if (window[at]?.phase === 'QUEUED') return window[at];
  return undefined;
}

function seconds(ms: number): string {
  return `${Math.round(ms / 1_000)} s`;
}

/** Workers whose GPUs have had nothing to do for long, while others may wait for them. */
export function idleIncident(
  state: State,
  endpoint: EndpointRecord,
  now: Now,
  { figures, logs }: { figures: Figures; logs: Action },
): Incident | undefined {
  const idle = [...endpoint.workers].flatMap((id) => {
    const worker = state.workers.get(id);
    const since = figures.idleSince(id);
    return worker === undefined || since === undefined || now.wall - since < GPU_IDLE_MS ? [] : [{ worker, since }];
  });
  if (idle.length === 0) return undefined;
  const gpus = idle.reduce((sum, { worker }) => sum + worker.devices.length, 0);
  const nodes = [...new Set(idle.map(({ worker }) => state.nodes.get(worker.node)?.config.name ?? worker.node))];
  const text = `: ${counted(gpus, 'GPU')} on ${nodes.slice(0, MAX_NAMED).join(', ')}${nodes.length > MAX_NAMED ? ', …' : ''} ${gpus === 1 ? 'is' : 'are'} allocated and idle`;
  const lower = { label: LOWER_WORKERS_MIN, command: `capstan endpoints set ${endpointArguments(endpoint)} workersMin=0` };
  return ofEndpoint(endpoint, text, {
    kind: 'GPU_IDLE',
    severity: 'WARNING',
    sinceMs: Math.min(...idle.map(({ since }) => since)),
    actions: [...(endpoint.config.workersMin > 0 ? [lower] : []), logs],
  });
}
