/** Tells nodes to stop attempts. */
import type { StopReason } from '../../../proto/gen/capstan/v1/nodes.ts';

import type { StepContext } from '../context.ts';
import type { JobRecord } from '../state/jobs.ts';

/** Tells the node that runs an attempt to stop it. Has no effect if the node has no session. */
export function stopAttempt(ctx: StepContext, node: string, { id, token }: Pick<JobRecord, 'id' | 'token'>, reason: StopReason): void {
  const session = ctx.state.nodes.get(node)?.session ?? null;
  if (session !== null) ctx.emit({ kind: 'send', node, session, event: { event: { $case: 'stop', value: { jobId: id, token, reason } } } });
}
