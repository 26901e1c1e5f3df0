/** Jobs and operations for the store's measurements, in the scheduler's form: they share no objects. */
import { jobRowOf } from '../../test/support/job-row.ts';
import type { JobRow, Op } from '../../scheduler/core/ports/store.ts';

const DAY = 86_400_000;
const HALF_HOUR = 1_800_000;
const input = new TextEncoder().encode(JSON.stringify({ text: 'The quick brown fox jumps over the lazy dog. '.repeat(3) }));
const output = new TextEncoder().encode(JSON.stringify({ word_count: 27, character_count: 135, average_word_length: 4.04 }));

/** Ids grow with the number, as UUIDv7 do with time. */
function jobOf(seq: number, now: number): JobRow {
  const hex = (now + seq).toString(16).padStart(12, '0');
  return jobRowOf({
    seq,
    id: `${hex.slice(0, 8)}-${hex.slice(8)}-7${(seq % 4096).toString(16).padStart(3, '0')}-8a2b-${seq.toString(16).padStart(12, '0')}-u1`,
    endpoint: 'x7k2m9q4w1',
    kind: 'RUN',
    state: 'IN_QUEUE',
    priority: 0,
    queuePosition: seq,
    token: 0,
    attempts: 0,
    submittedAt: now,
    deleteAt: now + DAY,
    executionTimeoutMs: 600_000,
    ttlMs: DAY,
    retentionMs: HALF_HOUR,
    hasS3: false,
  });
}

export function submitOp(seq: number, now: number): Op {
  return { kind: 'submit', job: jobOf(seq, now), input: { inline: input.slice() }, s3: null, idempotency: null };
}

export function leaseOp(seq: number): Op {
  return { kind: 'lease', seq, token: 1, lease: { node: 'node-01hz8k4v', incarnation: '0198a1b2c3d4e5f6', worker: 'worker-01hz8k5a' } };
}

export function requeueOp(seq: number): Op {
  return { kind: 'requeue', seq, token: 1, attempts: 0, pastAttempts: null };
}

export function finishOp(seq: number, now: number): Extract<Op, { kind: 'finish' }> {
  return {
    kind: 'finish',
    seq,
    from: 'LEASED',
    token: 1,
    state: 'COMPLETED',
    endedAt: now,
    deleteAt: now + HALF_HOUR,
    attempts: 1,
    delayMs: 12,
    executionMs: 34,
    error: null,
    output: { inline: output.slice() },
    chunks: [],
    firstChunk: 0,
    delivery: null,
  };
}

const webhookId = (seq: number): string => `webhook-${seq}_1`;

/** {@link finishOp} with a webhook delivery that is due at once. All deliveries have the same host. */
export function finishWithWebhookOp(seq: number, now: number): Op {
  const delivery = {
    id: webhookId(seq),
    account: 'account-x7k2m9q4w1',
    endpoint: 'x7k2m9q4w1',
    url: 'https://hooks.example.com/jobs',
    host: 'hooks.example.com',
    envelope: '{"status":"COMPLETED","delayTime":12,"executionTime":34}',
    dueAt: now,
  };
  return { ...finishOp(seq, now), delivery };
}

/** Removes the delivery of such a job after its success. */
export function deliveredOp(seq: number): Op {
  return { kind: 'delivery', id: webhookId(seq), after: 0, to: null };
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}
