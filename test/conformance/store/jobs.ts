/** Jobs, bodies and operations as the tests name them: whole, with one difference at a time. */
import type { Body, JobRow, Lease, NewHook, Op, Outcome, Store, Fence, WholeJob } from '../../../scheduler/store/store.ts';

/** Some instant; tests count from it. */
export const START = 1_767_225_600_000;
export const TTL = 86_400_000;

export const lease: Lease = { node: 'node-a', incarnation: 'incarnation-1', worker: 'worker-1' };

export function idOf(no: number): string {
  return `0198a1b2-0000-7000-8000-${String(no).padStart(12, '0')}-u1`;
}

export function queued(no: number, difference: Partial<JobRow> = {}): JobRow {
  return {
    no,
    id: idOf(no),
    endpoint: 'endpoint-a',
    kind: 'RUN',
    state: 'IN_QUEUE',
    priority: 0,
    position: no,
    token: 0,
    attempts: 0,
    lease: null,
    submittedAt: START + no,
    startedAt: null,
    endedAt: null,
    deleteAt: START + no + TTL,
    executionTimeoutMs: 600_000,
    ttlMs: TTL,
    retentionMs: 1_800_000,
    webhook: null,
    worker: null,
    delayMs: null,
    executionMs: null,
    error: null,
    hasS3: false,
    ...difference,
  };
}

export function leased(no: number, difference: Partial<JobRow> = {}): JobRow {
  return queued(no, { state: 'LEASED', token: 1, lease, worker: lease.worker, ...difference });
}

export function json(value: unknown): Body {
  return { inline: new TextEncoder().encode(JSON.stringify(value)) };
}

type OpOf<K extends Op['kind']> = Extract<Op, { kind: K }>;

export function submit(job: JobRow, difference: Partial<OpOf<'submit'>> = {}): OpOf<'submit'> {
  return { kind: 'submit', job, input: json({ no: job.no }), s3: null, idempotency: null, ...difference };
}

export function leaseOf(no: number, token = 1, by: Lease = lease): OpOf<'lease'> {
  return { kind: 'lease', no, token, lease: by };
}

export function completed(no: number, difference: Partial<OpOf<'finish'>> = {}): OpOf<'finish'> {
  return {
    kind: 'finish',
    no,
    from: 'LEASED',
    token: 1,
    state: 'COMPLETED',
    endedAt: START + 5_000 + no,
    deleteAt: START + 5_000 + no + 1_800_000,
    attempts: 1,
    delayMs: 20,
    executionMs: 30,
    error: null,
    output: json({ done: no }),
    chunks: [],
    firstChunk: 0,
    hook: null,
    ...difference,
  };
}

export function failed(no: number, difference: Partial<OpOf<'finish'>> = {}): OpOf<'finish'> {
  return completed(no, { state: 'FAILED', error: 'it broke', output: null, ...difference });
}

export function cancelledInQueue(no: number, difference: Partial<OpOf<'finish'>> = {}): OpOf<'finish'> {
  return completed(no, {
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

export function hookOf(no: number, difference: Partial<NewHook> = {}): NewHook {
  return {
    id: `${idOf(no)}_1`,
    account: 'account-a',
    endpoint: 'endpoint-a',
    url: 'https://example.com/hook',
    host: 'example.com',
    envelope: JSON.stringify({ id: idOf(no) }),
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

/** A body as a value to compare: its text, or its blob. */
export function shown(body: Body | null): unknown {
  if (body === null) return null;
  return 'inline' in body ? new TextDecoder().decode(body.inline) : { blob: body.blob, size: body.size };
}

export function shownWhole(whole: WholeJob | null): unknown {
  return whole === null ? null : { job: whole.job, output: shown(whole.output), chunks: whole.chunks.map(shown) };
}

/** The job, which must be there. */
export async function jobOf(store: Store, no: number, endpoint = 'endpoint-a'): Promise<JobRow> {
  const whole = await store.read('job', endpoint, idOf(no));
  if (whole === null) throw new Error(`job ${no} is not there`);
  return whole.job;
}

/** Numbers of the queued jobs of an endpoint, in order. */
export async function queueOf(store: Store, endpoint = 'endpoint-a', priority: 0 | 1 = 0): Promise<number[]> {
  return (await store.read('head', endpoint, priority, -1, 1_000, 0)).map((one) => one.job.no);
}
