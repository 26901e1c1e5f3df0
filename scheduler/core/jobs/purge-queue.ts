/** Requests to purge a queue. purge.ts decides step by step which jobs end. */
import { endpointNotFound } from '../../../lib/job-errors.ts';
import type { StepContext } from '../context.ts';
import { fill } from './dispatch.ts';
import { startPurge } from './purge.ts';

export function purge(ctx: StepContext, call: number, endpointId: string): void {
  const endpoint = ctx.state.endpoints.get(endpointId);
  if (endpoint === undefined) {
    ctx.reply(call, endpointNotFound(endpointId));
    return;
  }
  startPurge(ctx.state, endpoint, call);
  fill(ctx, endpoint);
}
