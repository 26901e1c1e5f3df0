/** Jobs, bodies and operations as the tests name them: whole, with one difference at a time. */
import type { StoredPayload } from '../../../scheduler/core/ports/stored-payload.ts';
import { jobRowOf } from '../../support/job-row.ts';
import type { JobRow, Lease, NewDelivery, Op, Outcome, Store, Fence, WholeJob } from '../../../scheduler/core/ports/store.ts';

/** Some instant; tests count from it. */
export const START = 1_767_225_600_000;
export const TTL = 86_400_000;

export const lease: Lease = { node: 'node-a', incarnation: 'incarnation-1', worker: 'worker-1' };

export function idOf(seq: number): string {
  return `0198a1b2-0000-7000-8000-${String(seq).padStart(12, '0')}-u1`;
}

export function queued(seq: number, difference: Partial<JobRow> = {}): JobRow {
  return jobRowOf({
    seq,
    id: idOf(seq),
    endpoint: 'endpoint-a',
    kind: 'RUN',
    state: 'IN_QUEUE',
    priority: 0,
    queuePosition: seq,
    token: 0,
    attempts: 0,
    submittedAt: START + seq,
    deleteAt: START + seq + TTL,
    executionTimeoutMs: 600_000,
    ttlMs: TTL,
    retentionMs: 1_800_000,
    hasS3: false,
    ...difference,
  });
}

export function leased(seq: number, difference: Partial<JobRow> = {}): JobRow {
  return queued(seq, { state: 'LEASED', token: 1, lease, worker: lease.worker, ...difference });
}

export function json(value: unknown): { readonly inline: Uint8Array } {
  return { inline: new TextEncoder().encode(JSON.stringify(value)) };
}

type OpOf<K extends Op['kind']> = Extract<Op, { kind: K }>;

export function submit(job: JobRow, difference: Partial<OpOf<'submit'>> = {}): OpOf<'submit'> {
  return { kind: 'submit', job, input: json({ seq: job.seq }), s3: null, idempotency: null, ...difference };
}

export function leaseOf(seq: number, token = 1, by: Lease = lease): OpOf<'lease'> {
  return { kind: 'lease', seq, token, lease: by };
}

export function completed(seq: number, difference: Partial<OpOf<'finish'>> = {}): OpOf<'finish'> {
  return {
    kind: 'finish',
    seq,
    from: 'LEASED',
    token: 1,
    state: 'COMPLETED',
    endedAt: START + 5_000 + seq,
    deleteAt: START + 5_000 + seq + 1_800_000,
    attempts: 1,
    delayMs: 20,
    executionMs: 30,
    error: null,
    output: json({ done: seq }),
    chunks: [],
    firstChunk: 0,
    delivery: null,
    ...difference,
  };
}

export function failed(seq: number, difference: Partial<OpOf<'finish'>> = {}): OpOf<'finish'> {
  return completed(seq, { state: 'FAILED', error: 'it broke', output: null, ...difference });
}

export function cancelledInQueue(seq: number, difference: Partial<OpOf<'finish'>> = {}): OpOf<'finish'> {
  return completed(seq, {
    from: 'IN_QUEUE',
    token: 0,
    state: 'CANCELLED',
    attempts: 0,
    delayMs: null,
    executionMs: null,
    output: null,
    ...difference,
  });
}

export function deliveryOf(seq: number, difference: Partial<NewDelivery> = {}): NewDelivery {
  return {
    id: `${idOf(seq)}_1`,
    account: 'account-a',
    endpoint: 'endpoint-a',
    url: 'https://example.com/hook',
    host: 'example.com',
    envelope: JSON.stringify({ id: idOf(seq) }),
    dueAt: START + 6_000,
    ...difference,
  };
}

/** Commits and gives the outcomes' names. */
export async function outcomes(store: Store, fence: Fence, ...ops: Op[]): Promise<Outcome['kind'][]> {
  return (await store.commit(fence, ops)).map((outcome) => outcome.kind);
}

/** Commits what the test stands on. */
export async function given(store: Store, fence: Fence, ...ops: Op[]): Promise<void> {
  const results = await store.commit(fence, ops);
  results.forEach((result, i) => {
    if (result.kind !== 'ok') throw new Error(`given ${ops[i]?.kind ?? 'nothing'} was refused: ${result.kind}`);
  });
}

/** A payload as a value to compare: its text, or its blob. */
export function shown(payload: StoredPayload | null): unknown {
  return payload !== null && 'inline' in payload ? new TextDecoder().decode(payload.inline) : payload;
}

export function shownWhole(whole: WholeJob | null): unknown {
  return whole === null ? null : { job: whole.job, output: shown(whole.output), chunks: whole.chunks.map(shown) };
}

/** The job, which must be there. */
export async function jobOf(store: Store, seq: number, endpoint = 'endpoint-a'): Promise<JobRow> {
  const whole = await store.read('job', endpoint, idOf(seq));
  if (whole === null) throw new Error(`job ${seq} is not there`);
  return whole.job;
}

/** Numbers of the queued jobs of an endpoint, in order. */
export async function queueOf(store: Store, endpoint = 'endpoint-a', priority: 0 | 1 = 0): Promise<number[]> {
  return (await store.read('head', { endpoint, priority, after: -1, limit: 1_000, inputLimit: 0 })).map((one) => one.job.seq);
}

let entries = 0;

/** An entry of the audit log of the account `default`, each with a key of its own. */
export function entry(action: string): { readonly key: string; readonly value: string } {
  entries += 1;
  return { key: `default/${START}${String(entries).padStart(4, '0')}`, value: JSON.stringify({ at: START, action }) };
}
