/** Small histories made by hand: one job's whole life, for tests of the checker to change. */
import type { ClientRecord, HandlerRecord, HistoryRecord, JobView, Made, Operation } from './core/record.ts';

export const ENDPOINT = 'e';
export const LINE = 'line';

const settings: HistoryRecord = {
  kind: 'settings',
  at: 0,
  endpoints: {
    [ENDPOINT]: { name: 'work', maxAttempts: 2, inOrder: false },
    [LINE]: { name: 'line', maxAttempts: 2, inOrder: true },
  },
  runRetentionMs: 1_800_000,
  runsyncRetentionMs: 60_000,
  settleMs: 1_000,
  clockStepMs: 0,
};

type WithoutTime<T> = T extends unknown ? Omit<T, 'at'> : never;

/** Records in the order they are added, one millisecond apart unless `later` says more. */
export class MadeHistory {
  readonly records: HistoryRecord[] = [settings];
  #at = 1;
  #calls = 0;

  add(record: WithoutTime<ClientRecord | HandlerRecord>): this {
    this.records.push({ at: this.#at, ...record });
    this.#at += 1;
    return this;
  }

  later(ms: number): this {
    this.#at += ms;
    return this;
  }

  /** A call that leaves, and its number. */
  leave(operation: Operation, fields: Partial<Extract<ClientRecord, { kind: 'call' }>> = {}): number {
    this.#calls += 1;
    this.add({ kind: 'call', call: this.#calls, operation, endpoint: ENDPOINT, via: 'gateway-1', ...fields });
    return this.#calls;
  }

  submit(input: string, job: string, fields: Partial<Extract<ClientRecord, { kind: 'call' }>> = {}): this {
    const call = this.leave('run', { input, ...fields });
    return this.add({ kind: 'return', call, status: 200, job: { id: job, status: 'IN_QUEUE', rest: '{}' } });
  }

  enter(job: string, input: string, execution: string, attempt = 1): this {
    return this.add({ kind: 'enter', execution, job, input, attempt, pid: 1 });
  }

  exit(execution: string, how: 'returned' | 'failed' | 'stopped' = 'returned'): this {
    return this.add({ kind: 'exit', execution, how });
  }

  /** A status call that sees this. */
  see(job: string, view: Partial<JobView>, fields: Partial<Extract<ClientRecord, { kind: 'call' }>> = {}): this {
    const call = this.leave('status', { job, ...fields });
    return this.add({ kind: 'return', call, status: 200, job: { id: job, status: 'COMPLETED', rest: '{}', ...view } });
  }

  refused(operation: Operation, job: string, status: number): this {
    const call = this.leave(operation, { job });
    return this.add({ kind: 'return', call, status, detail: 'refused' });
  }

  read(job: string, chunks: readonly Made[], status: string, after?: string): this {
    const call = this.leave('stream', { job, ...(after === undefined ? {} : { after }) });
    return this.add({ kind: 'return', call, status: 200, job: { id: job, status, rest: '{}' }, chunks });
  }

  webhook(id: string, job: string, input: string, view: Partial<JobView>, digest = id): this {
    const seen = { id: job, status: 'COMPLETED', rest: '{}', ...view };
    return this.add({ kind: 'webhook', id, digest, job: seen, input, signed: true, answer: 200 });
  }

  fault(number: number): this {
    return this.add({ kind: 'fault', number, fault: 'kill', target: 'agent' });
  }

  heal(number: number): this {
    return this.add({ kind: 'healed', number });
  }

  end(): this {
    return this.add({ kind: 'end' });
  }

  /** Changes the records that fit. */
  change<K extends HistoryRecord['kind']>(
    kind: K,
    fits: (record: Extract<HistoryRecord, { kind: K }>) => boolean,
    change: Partial<Extract<HistoryRecord, { kind: K }>>,
  ): HistoryRecord[] {
    return this.records.map((record) =>
      record.kind === kind && fits(record as Extract<HistoryRecord, { kind: K }>) ? { ...record, ...change } : record,
    );
  }
}

export function made(execution: string, input: string, index?: number): Made {
  return { execution, input, intact: true, ...(index === undefined ? {} : { index }) };
}

/** Submitted, executed and seen: the plainest life of a job, with a webhook. */
export function completedJob(): MadeHistory {
  return new MadeHistory()
    .submit('i#0', 'j1', { key: 'k', webhook: true })
    .enter('j1', 'i#0', 'x')
    .exit('x')
    .see('j1', { output: made('x', 'i#0') })
    .webhook('j1_1', 'j1', 'i#0', { output: made('x', 'i#0') })
    .see('j1', { output: made('x', 'i#0') });
}
