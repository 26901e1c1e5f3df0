/**
 * A closed loop on a store: `inFlight` jobs each go through submit → lease → finish, in the batches of group commit. The operations
 * gathered during the commit of one batch form the next. The next step of a job starts when the outcome of the previous one has arrived.
 */
import type { Fence, Op, Store } from '../../scheduler/core/ports/store.ts';
import { deliveredOp, finishOp, finishWithWebhookOp, leaseOp, submitOp } from './load.ts';

/** Position in the queue of one store. */
export interface Queue {
  /** Next number to submit. */
  tail: number;
  /** Next number to lease: the oldest waiting job. */
  head: number;
}

export async function fill(store: Store, fence: Fence, queue: Queue, depth: number): Promise<void> {
  const now = Date.now();
  const batch = 1_000;
  while (queue.tail - queue.head < depth) {
    const ops: Op[] = [];
    for (let i = 0; i < batch && queue.tail - queue.head < depth; i++) ops.push(submitOp(queue.tail++, now));
    await store.commit(fence, ops);
  }
}

export interface Run {
  readonly cyclesPerSecond: number;
  readonly opsPerSecond: number;
  readonly opsPerBatch: number;
  /** Duration of one batch, from the call to its outcome. */
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
  /**
   * CPU time of the main thread alone, µs per operation, including the time in which this load creates the operations.
   */
  readonly mainCpuUsPerOp: number;
}

export interface Loop {
  readonly store: Store;
  readonly fence: Fence;
  readonly queue: Queue;
  readonly inFlight: number;
  readonly seconds: number;
  /** Whether jobs are removed with the batch after their end; otherwise they stay. */
  readonly removes?: boolean;
  /** Whether jobs have a webhook, which is delivered with the batch after their end. */
  readonly webhooks?: boolean;
}

/** A lease takes the oldest waiting job, so the depth stays constant. */
export async function run({ store, fence, queue, inFlight, seconds, removes = false, webhooks = false }: Loop): Promise<Run> {
  const finish = webhooks ? finishWithWebhookOp : finishOp;
  let waiting: Op[] = [];
  let joined = 0;
  let cycles = 0;
  let ops = 0;
  const times: number[] = [];
  const cpuStart = process.threadCpuUsage();
  const start = performance.now();
  const end = start + seconds * 1_000;
  while (performance.now() < end) {
    // A third of the jobs joins with each of the first batches, so that later batches hold all three steps, as in a
    // scheduler.
    for (let i = 0; i < inFlight / 3 && joined < inFlight; i++, joined++) waiting.push(submitOp(queue.tail++, Date.now()));
    const batch = waiting;
    waiting = [];
    const posted = performance.now();
    const outcomes = await store.commit(fence, batch);
    times.push(performance.now() - posted);
    const now = Date.now();
    ops += batch.length;
    for (const [i, op] of batch.entries()) {
      const outcome = outcomes[i]?.kind ?? 'left out';
      if (outcome !== 'ok') throw new Error(`${op.kind} was refused: ${outcome}`);
      if (op.kind === 'submit') {
        waiting.push(leaseOp(queue.head++));
      } else if (op.kind === 'lease') {
        waiting.push(finish(op.seq, now));
      } else if (op.kind === 'finish') {
        cycles++;
        waiting.push(submitOp(queue.tail++, now));
        if (removes) waiting.push({ kind: 'delete', seq: op.seq, dueBy: null });
        if (webhooks) waiting.push(deliveredOp(op.seq));
      }
    }
  }
  const elapsed = (performance.now() - start) / 1_000;
  const cpu = process.threadCpuUsage(cpuStart);
  // Finishes all jobs in progress, so that the next round finds a queue without gaps.
  while (waiting.length > 0) {
    const batch = waiting;
    waiting = [];
    await store.commit(fence, batch);
    for (const op of batch) {
      if (op.kind === 'lease') waiting.push(finishOp(op.seq, Date.now()));
      else if (op.kind === 'finish' && op.delivery !== null) waiting.push(deliveredOp(op.seq));
    }
  }
  times.sort((a, b) => a - b);
  const at = (share: number): number => Math.round((times[Math.floor((times.length - 1) * share)] ?? 0) * 100) / 100;
  return {
    cyclesPerSecond: Math.round(cycles / elapsed),
    opsPerSecond: Math.round(ops / elapsed),
    opsPerBatch: Math.round(ops / times.length),
    p50Ms: at(0.5),
    p99Ms: at(0.99),
    maxMs: at(1),
    mainCpuUsPerOp: Math.round(((cpu.user + cpu.system) / ops) * 100) / 100,
  };
}
