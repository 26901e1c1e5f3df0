/**
 * Endpoints whose requests wait in vain: paused, without a secret, in a crash loop, or wanting what no connected node has. A node that is busy, or
 * was connected a moment ago, is worth waiting for.
 */
import { NO_NODE } from '../../../lib/job-errors.ts';
import { explainRejections, type Rejection } from '../state/rejections.ts';
import { fitOn, wanted } from './placement/feasible.ts';
import { explainMissing, missingSecrets } from '../endpoints/secret-use.ts';
import { inCrashLoop, retryPauseMs } from '../endpoints/crash-loops.ts';
import { isReady } from '../jobs/slots.ts';
import type { Now } from '../now.ts';
import type { State } from '../state.ts';
import type { EndpointRecord } from '../state/endpoints.ts';
import { noUsage } from '../state/fleet.ts';
import { listedWorker, nodeOfWorker } from '../references.ts';

export interface Unservable {
  /** For everyone, also callers of public endpoints. */
  readonly reason: string;
  /** For the owners of the endpoint: errors of its code, names of nodes. May be empty. */
  readonly detail: string;
  /** When trying again makes sense, ms. */
  readonly retryAfterMs: number;
}

/** How long a node may be away, drain or have a problem before nobody waits for it, ms: its leases end after the same time. */
const ABSENCE_MS = 15_000;
const NO_NODE_RETRY_MS = 10_000;
const PAUSED_RETRY_MS = 30_000;

/** What a node lacks as long as its inventory is what it is. */
const LASTING: ReadonlySet<Rejection> = new Set([
  'RUNTIME_MISSING',
  'PYTHON_TOO_OLD',
  'PYTHON_MISMATCH',
  'PACKAGE_MISSING',
  'ISOLATION_TOO_WEAK',
  'GPU_MISSING',
  'CUDA_TOO_OLD',
]);
/** What may pass by itself. */
const PASSING: ReadonlySet<Rejection> = new Set(['NODE_DISCONNECTED', 'NODE_DRAINING', 'DEVICE_PROBLEM']);
/** Lasting where the worker is larger than the node, passing where others use it. */
const OF_SIZE: ReadonlySet<Rejection> = new Set(['CPU', 'MEMORY']);

/** Returns the endpoints with requests that no worker will serve for now; others are nobody's concern at present. */
export function unservableEndpoints(state: State, now: Now): (Unservable & { readonly endpointId: string })[] {
  const isAway = isAnyAway(state, now, ABSENCE_MS);
  return [...state.endpoints.values()].flatMap((endpoint) => {
    const found =
      state.recovering || endpoint.requests.size === 0 ? null : reasonOf(state, endpoint, now, { absenceMs: ABSENCE_MS, isAway });
    return found === null ? [] : [{ ...found, endpointId: endpoint.config.id }];
  });
}

/** Returns why no worker of the endpoint will serve for now; null while one may. */
export function unservable(state: State, endpoint: EndpointRecord, now: Now, absenceMs = ABSENCE_MS): Unservable | null {
  return reasonOf(state, endpoint, now, { absenceMs, isAway: isAnyAway(state, now, absenceMs) });
}

/** Whether a node that was connected a moment ago may come back. */
function isAnyAway({ nodes }: State, now: Now, absenceMs: number): boolean {
  return [...nodes.values()].some(({ session, lastHeard }) => session === null && now.mono - lastHeard < absenceMs);
}

interface Absence {
  readonly absenceMs: number;
  readonly isAway: boolean;
}

function reasonOf(state: State, endpoint: EndpointRecord, now: Now, { absenceMs, isAway }: Absence): Unservable | null {
  const { config, starts, workers } = endpoint;
  if ([...workers].some((id) => mayServe(state, id))) return null;
  if (config.workersMax === 0) return { reason: 'it is paused (workersMax is 0)', detail: '', retryAfterMs: PAUSED_RETRY_MS };
  const missing = missingSecrets(state, endpoint);
  if (missing.length > 0)
    return { reason: 'a secret that it needs does not exist', detail: explainMissing(missing), retryAfterMs: PAUSED_RETRY_MS };
  if (inCrashLoop(endpoint)) {
    const detail = `${starts.failures} consecutive starts failed; last error: ${starts.lastError}`;
    return { reason: 'its workers do not start', detail, retryAfterMs: retryPauseMs(starts.failures) };
  }
  const isPlaced = [...workers].some((id) => !listedWorker(state, id).drain);
  if (endpoint.unplaced.count === 0 || isPlaced) return null;
  const isLong = now.mono - endpoint.unplaced.since >= absenceMs && !isAway;
  if (!endpoint.rejections.every(({ reason }) => LASTING.has(reason) || OF_SIZE.has(reason) || (isLong && PASSING.has(reason))))
    return null;
  if (endpoint.rejections.length === 0 && !isLong) return null;
  if (endpoint.rejections.some(({ reason }) => OF_SIZE.has(reason)) && fitsEmptyNode(state, endpoint)) return null;
  const detail = explainRejections(endpoint.rejections) || NO_NODE;
  return { reason: 'no node can run it', detail, retryAfterMs: NO_NODE_RETRY_MS };
}

/** A worker of the release before, or of this one, that serves. */
function mayServe(state: State, id: string): boolean {
  const worker = listedWorker(state, id);
  return isReady(worker) && nodeOfWorker(state, worker).session !== null;
}

/** By the rejections that it was found for: they are one array for equal needs, and others once a node has changed. */
const FITS = new WeakMap<EndpointRecord['rejections'], boolean>();

function fitsEmptyNode(state: State, { config, rejections }: EndpointRecord): boolean {
  const known = FITS.get(rejections);
  if (known !== undefined) return known;
  const release = state.releases.get(config.release);
  // A database that was restored in part lacks the release's row.
  if (release === undefined) return true;
  const want = wanted(state, config, release);
  const fits = [...state.nodes.values()].some((node) => !('reason' in fitOn(want, node, noUsage())));
  FITS.set(rejections, fits);
  return fits;
}
