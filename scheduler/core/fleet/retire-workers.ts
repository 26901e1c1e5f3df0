/** Drains workers that may not continue where they are, and keeps the number of workers of their endpoints. */
import { keepCapacity } from '../endpoints/releases.ts';
import type { StepContext } from '../context.ts';
import type { WorkerRecord } from '../state/fleet.ts';
import { drainWorker } from './workers.ts';

export interface RetiredWorker {
  readonly worker: WorkerRecord;
  /** For users. */
  readonly reason: string;
}

/** Drains the workers; placement starts as many others where they may run. `message` is the log line for each. */
export function retireWorkers(ctx: StepContext, retired: readonly RetiredWorker[], message: string): void {
  // The number to keep is counted before the first of them is drained.
  for (const { worker, reason } of retired) {
    const endpoint = ctx.state.endpoints.get(worker.endpoint);
    if (endpoint !== undefined) keepCapacity(ctx.state, ctx.now, endpoint, reason);
  }
  for (const { worker, reason } of retired) {
    drainWorker(ctx.state, ctx.now, worker, reason);
    const { id, endpoint } = worker;
    ctx.emit({ kind: 'log', level: 'warn', message, facts: { worker: id, endpoint, reason } });
  }
}
