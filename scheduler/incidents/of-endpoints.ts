/** Incidents of endpoints: their workers fail to start, or nothing runs what waits. */
import { OPEN_LOGS, RESEND_ALL_FAILED, RESUME, SHOW_WHY } from '../../lib/incident-actions.ts';
import { missingSecrets } from '../core/endpoints/secret-use.ts';
import { queueReason } from '../core/jobs/reasons.ts';
import type { Now } from '../core/now.ts';
import { inCrashLoop } from '../core/endpoints/crash-loops.ts';
import { requestLoad } from '../core/scaling/scaling-requests.ts';
import type { State } from '../core/state.ts';
import type { EndpointRecord } from '../core/state/endpoints.ts';
import type { Rejection } from '../core/state/rejections.ts';
import type { DeliveryHead } from '../core/ports/store.ts';
import { nodeKey, ofEndpoint, type Action, type Incident, type IncidentKind } from './incident.ts';
import type { Figures } from './figures.ts';
import { delayIncident, failureIncident, idleIncident, rollBack } from './of-loads.ts';
import { counted, endpointArguments, waitText, type Waiting } from './titles.ts';

/** Which fault of a node stands behind the reason why it takes no worker. */
const FAULTS: Partial<Record<Rejection, IncidentKind>> = {
  NODE_DISCONNECTED: 'NODE_DISCONNECTED',
  DEVICE_PROBLEM: 'DEVICE_UNHEALTHY',
  DISK: 'DISK_LOW',
};

export function endpointIncidents(state: State, endpoint: EndpointRecord, now: Now, figures: Figures): Incident[] {
  const starts = startIncident(endpoint);
  if (starts?.kind === 'CRASH_LOOP') return [starts];
  const causes = causesOf(state, endpoint);
  const ownLogs = logs(endpoint);
  const late = (): Incident | undefined => delayIncident(endpoint, now, figures, ownLogs);
  const found = [
    starts,
    // What waits for a place, or on purpose, waits long: that is one incident.
    waitIncident(state, endpoint, now) ?? late(),
    failureIncident(endpoint, figures, ownLogs),
    idleIncident(state, endpoint, now, { figures, logs: ownLogs }),
  ];
  return found.filter((incident) => incident !== undefined).map((incident) => ({ ...incident, causes }));
}

function startIncident(endpoint: EndpointRecord): Incident | undefined {
  const { failures, lastError } = endpoint.starts;
  const actions = [logs(endpoint), rollBack(endpoint)];
  if (inCrashLoop(endpoint)) {
    const sinceMs = endpoint.decisions.findLast(({ kind }) => kind === 'CRASH_LOOP')?.at;
    const text = `: ${failures} consecutive starts failed; last error: ${lastError}`;
    return ofEndpoint(endpoint, text, { kind: 'CRASH_LOOP', severity: 'CRITICAL', sinceMs, actions });
  }
  if (failures === 0) return undefined;
  const text = `: its present release failed to start; last error: ${lastError}`;
  return ofEndpoint(endpoint, text, { kind: 'RELEASE_CRASHES', severity: 'WARNING', sinceMs: undefined, actions });
}

function waitIncident(state: State, endpoint: EndpointRecord, now: Now): Incident | undefined {
  const waiting: Waiting = { jobs: endpoint.lanes[0].count + endpoint.lanes[1].count, requests: requestLoad(endpoint, now).waiting };
  if (waiting.jobs + waiting.requests === 0) return undefined;
  const { reason, detail } = queueReason(state, endpoint, now);
  const sinceMs = oldestWait(endpoint);
  if (reason === 'PAUSED') {
    const actions = [{ label: RESUME, command: `capstan endpoints set ${endpointArguments(endpoint)} workersMax=1` }];
    return ofEndpoint(endpoint, `: it is paused (workersMax is 0), and ${waitText(waiting)}`, {
      ...{ kind: 'PAUSED', severity: 'WARNING', sinceMs, actions, waiting },
    });
  }
  if (reason === 'SECRET_MISSING') {
    const actions = [{ label: 'Create it', command: `capstan secret set ${missingSecrets(state, endpoint)[0] ?? ''}` }];
    return ofEndpoint(endpoint, `: ${waitText(waiting)}: ${detail}`, {
      ...{ kind: 'NO_CAPACITY', severity: 'CRITICAL', sinceMs, actions, waiting },
    });
  }
  if (reason !== 'NO_CAPACITY') return undefined;
  const actions = [{ label: SHOW_WHY, command: `capstan endpoints get ${endpointArguments(endpoint)}` }, logs(endpoint)];
  return ofEndpoint(endpoint, `: ${waitText(waiting)}: ${detail}`, {
    ...{ kind: 'NO_CAPACITY', severity: 'CRITICAL', sinceMs, actions, waiting },
  });
}

/** Keys of the faults of nodes that may keep workers from the endpoint. */
function causesOf(state: State, { rejections, workers }: EndpointRecord): string[] {
  const faults = rejections.flatMap(({ reason, examples }) => {
    const kind = FAULTS[reason];
    return kind === undefined ? [] : examples.map(({ node }) => nodeKey(kind, node));
  });
  const lost = [...workers].flatMap((id) => {
    const node = state.nodes.get(state.workers.get(id)?.node ?? '');
    return node === undefined || node.session !== null ? [] : [nodeKey('NODE_DISCONNECTED', node.config.id)];
  });
  return [...lost, ...faults];
}

function oldestWait({ lanes }: EndpointRecord): number | undefined {
  const oldest = lanes.flatMap(
    ({ window, head }) => window.find((job, index) => index >= head && job.phase === 'QUEUED')?.submittedAt ?? [],
  );
  return oldest.length === 0 ? undefined : Math.min(...oldest);
}

function logs(endpoint: EndpointRecord): Action {
  return { label: OPEN_LOGS, command: `capstan logs ${endpointArguments(endpoint)}` };
}

/** Deliveries of webhooks that failed, by endpoint. */
export function webhookIncidents(state: State, deliveries: readonly DeliveryHead[]): Incident[] {
  const failing = Map.groupBy(
    deliveries.filter((delivery) => delivery.state === 'FAILED' || delivery.tries > 0),
    (delivery) => delivery.endpoint,
  );
  return [...failing].flatMap(([id, failed]) => {
    const endpoint = state.endpoints.get(id);
    if (endpoint === undefined) return [];
    const givenUp = failed.filter((delivery) => delivery.state === 'FAILED').length;
    const text = `: ${counted(failed.length, 'webhook')} failed: ${failed.length - givenUp} to be retried, ${givenUp} given up`;
    const actions = [{ label: RESEND_ALL_FAILED, command: 'capstan webhooks redeliver --failed' }];
    return ofEndpoint(endpoint, text, { kind: 'WEBHOOKS_FAILING', severity: 'WARNING', sinceMs: undefined, actions });
  });
}
