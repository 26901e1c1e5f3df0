/**
 * Deletes endpoints. After the commit an endpoint accepts no calls and its name is free. Its queued jobs end CANCELLED,
 * its running jobs continue to their end (or are stopped), and its workers drain. When the last worker is gone the rows
 * are deleted. The mark is in the endpoint's row, so a restarted scheduler continues the removal.
 */
import { CapstanError } from '../../../lib/errors.ts';
import { invariant, present } from '../../../lib/invariant.ts';
import { ENDPOINT_DELETED_ERROR } from '../jobs/errors.ts';
import { StopReason } from '../../../proto/gen/capstan/v1/nodes.ts';

import type { StepContext } from '../context.ts';
import { sweepBuilds } from './deployments.ts';
import { emptyUpdate } from '../fleet/directory.ts';
import { dropSecrets } from './secrets.ts';
import { fill } from '../jobs/dispatch.ts';
import type { Write } from '../effects.ts';
import type { Command } from '../events.ts';
import { liveEndpoints } from '../state.ts';
import { environmentKey } from '../state/control-rows.ts';
import { type EndpointRecord, endpointNameKey } from '../state/endpoints.ts';
import { finishLive } from '../jobs/jobs.ts';
import { startPurge } from '../jobs/purge.ts';
import { stopAttempt } from '../jobs/stop-attempt.ts';
import { listedWorkers } from '../references.ts';
import { putRow } from '../rows.ts';
import { releaseClaims } from '../fleet/placement/claims.ts';
import { drainWorker } from '../fleet/workers.ts';

export function undeploy(ctx: StepContext, call: number, command: Extract<Command, { kind: 'undeploy' }>): void {
  const { account, endpoints: ids, stopJobs } = command;
  const found = ids.map((id) => ctx.state.endpoints.get(id));
  const missing = ids.find((_id, i) => found[i]?.config.account !== account || found[i]?.config.removing !== undefined);
  if (missing !== undefined) {
    const error = new CapstanError('NOT_FOUND', `endpoint ${missing} does not exist; nothing was deleted`, { field: 'endpoints' });
    ctx.reply(call, error);
    return;
  }
  const write = markRemoved(
    ctx,
    found.filter((endpoint) => endpoint !== undefined),
    stopJobs,
  );
  ctx.reply(call, { kind: 'undeployed', endpoints: ids }, write);
}

export function deleteEnvironment(ctx: StepContext, call: number, command: Extract<Command, { kind: 'delete-environment' }>): void {
  const { account, environment, force, stopJobs } = command;
  const key = environmentKey(account, environment);
  const inside = liveEndpoints(ctx.state, account).filter(({ config }) => config.environment === environment);
  const refusal = !ctx.state.environments.has(key)
    ? new CapstanError('NOT_FOUND', `environment ${environment} does not exist`, { field: 'name' })
    : inside.length > 0 && !force
      ? new CapstanError('CONFLICT', `environment ${environment} has ${inside.length} endpoints; delete them first, or use force`)
      : null;
  if (refusal !== null) {
    ctx.reply(call, refusal);
    return;
  }
  markRemoved(ctx, inside, stopJobs);
  dropSecrets(ctx, (secret) => secret.account === account && secret.environment === environment);
  ctx.state.environments.delete(key);
  const write = putRow(ctx, 'environment', key, null);
  ctx.reply(call, { kind: 'undeployed', endpoints: inside.map(({ config }) => config.id) }, write);
}

/** One step of an endpoint's removal: ends what can be ended, and deletes the endpoint once nothing is left. */
export function removalStep(ctx: StepContext, endpoint: EndpointRecord): void {
  const { id } = endpoint.config;
  const removing = present(endpoint.config.removing, 'an endpoint is removed step by step once it is marked', { endpoint: id });
  releaseClaims(ctx.state, endpoint);
  for (const worker of listedWorkers(ctx.state, endpoint.workers)) drainWorker(ctx.state, ctx.now, worker, ENDPOINT_DELETED_ERROR);
  if (removing.stopJobs) stopJobsOf(ctx, id);
  if (endpoint.lanes.some(({ count }) => count > 0) && endpoint.purge === null)
    startPurge(ctx.state, endpoint, null, ENDPOINT_DELETED_ERROR);
  fill(ctx, endpoint);
  const empty = endpoint.lanes.every(({ count }) => count === 0) && endpoint.counts.inProgress === 0 && endpoint.purge === null;
  if (!empty || endpoint.workers.size > 0) return;
  invariant(endpoint.claims.length === 0, 'an endpoint that is deleted claims no room', { endpoint: id });
  ctx.state.endpoints.delete(id);
  putRow(ctx, 'endpoint', id, null);
  sweepBuilds(ctx);
  ctx.emit({ kind: 'log', level: 'info', message: 'endpoint deleted', facts: { endpoint: id, endpointName: endpoint.config.name } });
}

/** Marks endpoints as removed. The steps follow later. */
export function markRemoved(ctx: StepContext, endpoints: readonly EndpointRecord[], stopJobs: boolean): Write | null {
  let last: Write | null = null;
  for (const endpoint of endpoints) {
    const { id, account, environment, name } = endpoint.config;
    endpoint.config = { ...endpoint.config, removing: { stopJobs } };
    ctx.state.endpointsByName.delete(endpointNameKey(account, environment, name));
    ctx.state.dirtyEndpoints.add(id);
    last = putRow(ctx, 'endpoint', id, endpoint.config);
  }
  const removedEndpoints = endpoints.map(({ config }) => config.id);
  if (removedEndpoints.length > 0) ctx.emit({ kind: 'directory', update: { ...emptyUpdate(), removedEndpoints } }, last);
  return last;
}

function stopJobsOf(ctx: StepContext, endpoint: string): void {
  for (const job of [...ctx.state.jobs.values()]) {
    if (job.endpoint !== endpoint || job.lease === null) continue;
    const { lease } = job;
    finishLive(ctx, job, { event: 'cancel', output: null, error: ENDPOINT_DELETED_ERROR, executionMs: null, agoMs: 0 });
    stopAttempt(ctx, lease.node, job, StopReason.CANCELLED);
  }
}
