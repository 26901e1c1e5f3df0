/** Endpoints as the control plane shows them, and their look-up by name or id. */
import { DEFAULT_FIELDS, fieldsKeptIn, messageFields } from '../../lib/endpoint-settings.ts';
import { CapstanError } from '../../lib/errors.ts';
import { EndpointKind } from '../../proto/gen/capstan/v1/common.ts';
import type { EndpointInfo, EndpointSpec } from '../../proto/gen/capstan/v1/control.ts';
import { type State, liveEndpoints } from '../core/state.ts';
import type { EndpointInput, EndpointRecord } from '../core/state/endpoints.ts';
import type { Now } from '../core/now.ts';
import { requestLoad } from '../core/scaling/scaling-requests.ts';
import { queueReason } from '../core/jobs/reasons.ts';

/** Returns the endpoint with this id, or with this name in the environment. @throws CapstanError NOT_FOUND. */
export function endpointNamed(state: State, account: string, environment: string, wanted: string): EndpointRecord {
  const live = liveEndpoints(state, account);
  const found =
    live.find(({ config }) => config.id === wanted) ??
    live.find(({ config }) => config.name === wanted && config.environment === environment);
  if (found !== undefined) return found;
  throw new CapstanError('NOT_FOUND', `endpoint ${JSON.stringify(wanted)} does not exist in environment ${environment}`, {
    field: 'endpoint',
  });
}

/** Returns settings and state. Environment values are secret and left out. */
export function endpointInfo(state: State, now: Now, endpoint: EndpointRecord, created: boolean): EndpointInfo {
  const { config, lanes, counts } = endpoint;
  const waiting = lanes[0].count + lanes[1].count;
  const why = waiting + requestLoad(endpoint, now).waiting === 0 ? { reason: '', detail: '' } : queueReason(state, endpoint, now);
  return {
    id: config.id,
    environment: config.environment,
    spec: shownSpec(state, specOf(state, endpoint)),
    releaseId: config.release,
    buildDigest: state.releases.get(config.release)?.buildDigest ?? '',
    created,
    workers: endpoint.workers.size,
    jobsInQueue: waiting,
    jobsInProgress: counts.inProgress,
    queueReason: why.reason,
    queueDetail: why.detail,
    defaultMaxAttempts: state.settings.maxAttempts,
  };
}

/** Returns a spec as it is shown: with the value that holds where the endpoint leaves it to the service. */
export function shownSpec({ settings }: State, spec: EndpointSpec): EndpointSpec {
  return { ...spec, maxAttempts: spec.maxAttempts || settings.maxAttempts };
}

/** Returns the deployment spec that a deployment left an endpoint with, without the values of its environment. */
export function specOfInput({ name, kind, functions, routes, limits, ...fields }: EndpointInput): EndpointSpec {
  return {
    name,
    kind: kind === 'QUEUE' ? EndpointKind.QUEUE : EndpointKind.LOAD_BALANCED,
    functions: [...functions],
    env: {},
    routes: { ...routes },
    rateLimits: { ...limits },
    ...messageFields({ ...fieldsKeptIn('release', fields), ...fieldsKeptIn('endpoint', fields) }),
  };
}

/** Returns the deployment spec of the endpoint's present settings, without the values of its environment. */
export function specOf(state: State, { config }: EndpointRecord): EndpointSpec {
  const release = state.releases.get(config.release);
  const kept = release ?? fieldsKeptIn('release', DEFAULT_FIELDS);
  return {
    name: config.name,
    kind: config.kind === 'QUEUE' ? EndpointKind.QUEUE : EndpointKind.LOAD_BALANCED,
    functions: [...(release?.functions ?? [])],
    env: {},
    routes: { ...config.routes },
    rateLimits: { ...config.limits },
    ...messageFields({ ...fieldsKeptIn('release', kept), ...fieldsKeptIn('endpoint', config) }),
  };
}
