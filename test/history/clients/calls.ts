/** The calls of clients, over real connections, each recorded before it leaves and when it returns. */
import { setTimeout as pause } from 'node:timers/promises';

import { errors, Pool, type Dispatcher } from 'undici';

import { messageOf } from '../../../lib/to-error.ts';
import type { CallRecord, JobView, Made } from '../core/record.ts';
import type { Recorder } from '../recorder.ts';
import { jobView, madeView } from './views.ts';

const CONNECTIONS = 64;
/** A gateway keeps a submission for 20 s while it has no scheduler; waits are at most 8 s. */
const ANSWER_MS = 35_000;
/** Before an unanswered call is repeated, ms. */
const REPEAT_MS = 250;

/** `unknown`: the answer is lost, or a 5xx. */
export interface Outcome {
  readonly unknown: boolean;
  readonly status: number;
  readonly job?: JobView;
  readonly chunks?: readonly Made[];
  readonly cursor?: string;
}

export type CallPlan = Omit<CallRecord, 'kind' | 'at' | 'call' | 'via'> & {
  /** `?wait=`, ms. */
  readonly waitMs?: number;
  /** As JSON, of a submission. */
  readonly body?: object;
};

/** What the clients call. */
export interface Service {
  readonly apiKey: string;
  readonly gateways: readonly string[];
  /** Base URL of a gateway. */
  url(gateway: string): string;
}

export class Calls {
  readonly #service: Service;
  readonly #recorder: Recorder;
  readonly #pools = new Map<string, Pool>();
  /** Requests so far. */
  count = 0;
  /** Requests without an answer, or with a 5xx. */
  failed = 0;
  #closed = false;

  constructor(service: Service, recorder: Recorder) {
    this.#service = service;
    this.#recorder = recorder;
    for (const gateway of service.gateways)
      this.#pools.set(
        gateway,
        new Pool(service.url(gateway), { connections: CONNECTIONS, headersTimeout: ANSWER_MS, bodyTimeout: ANSWER_MS }),
      );
  }

  /** Whether {@link close} was called: nothing is repeated any more. */
  get closed(): boolean {
    return this.#closed;
  }

  async once(plan: CallPlan, via: string): Promise<Outcome> {
    const { waitMs: _wait, body: _body, ...fields } = plan;
    const call = ++this.count;
    this.#recorder.record({ kind: 'call', call, via, ...fields });
    try {
      const { statusCode: status, headers, body } = await this.#send(plan, via);
      const text = await body.text();
      if (status >= 500) this.failed += 1;
      const said = status === 200 ? read(plan, JSON.parse(text) as Record<string, unknown>, headers) : { detail: text.slice(0, 300) };
      this.#recorder.record({ kind: 'return', call, status, ...said });
      return { unknown: status >= 500, status, ...said };
    } catch (error) {
      this.failed += 1;
      const timedOut = error instanceof errors.HeadersTimeoutError || error instanceof errors.BodyTimeoutError;
      this.#recorder.record({ kind: 'lost', call, reason: messageOf(error), timedOut });
      return { unknown: true, status: 0 };
    }
  }

  /** Repeats a call, at gateways that `choose` names, until it is answered; undefined when the run is over first. */
  async insist(plan: CallPlan, choose: () => string): Promise<Outcome | undefined> {
    while (!this.#closed) {
      const outcome = await this.once(plan, choose());
      if (!outcome.unknown && outcome.status !== 429) return outcome;
      await pause(REPEAT_MS);
    }
    return undefined;
  }

  /** Ends all connections. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#pools.values()].map((pool) => pool.destroy()));
  }

  #send(plan: CallPlan, via: string): Promise<Dispatcher.ResponseData> {
    const pool = this.#pools.get(via);
    if (pool === undefined) throw new Error(`no gateway ${via}`);
    const headers: Record<string, string> = { authorization: `Bearer ${this.#service.apiKey}`, 'content-type': 'application/json' };
    if (plan.key !== undefined) headers['idempotency-key'] = plan.key;
    const isRead = plan.operation === 'status' || plan.operation === 'stream';
    return pool.request({
      method: isRead ? 'GET' : 'POST',
      path: pathOf(plan),
      headers,
      ...(plan.body === undefined ? {} : { body: JSON.stringify(plan.body) }),
    });
  }
}

function pathOf({ operation, endpoint, job = '', waitMs, after }: CallPlan): string {
  const query = new URLSearchParams({
    ...(waitMs === undefined ? {} : { wait: String(waitMs) }),
    ...(after === undefined ? {} : { after }),
  });
  const name = operation === 'status' && waitMs !== undefined ? 'status-sync' : operation === 'purge' ? 'purge-queue' : operation;
  return `/v2/${endpoint}/${name}${job === '' ? '' : `/${job}`}${query.size === 0 ? '' : `?${query.toString()}`}`;
}

function read(
  plan: CallPlan,
  document: Record<string, unknown>,
  headers: Dispatcher.ResponseData['headers'],
): Omit<Outcome, 'unknown' | 'status'> {
  if (plan.operation === 'purge') return {};
  if (plan.operation !== 'stream') return { job: jobView(document) };
  const { stream, status, error } = document as { stream: { output: unknown }[]; status: string; error?: string };
  const cursor = headers['capstan-stream-cursor']?.toString();
  return {
    job: jobView({ id: plan.job, status, ...(error === undefined ? {} : { error }) }),
    chunks: stream.map(({ output }) => madeView(output)),
    ...(cursor === undefined ? {} : { cursor }),
  };
}
