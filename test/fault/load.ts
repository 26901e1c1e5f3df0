/**
 * A caller as SPEC.md asks for: keep-alive connections, a steady rate of /run and /runsync, and
 * the memory of what was acknowledged. Most requests carry an Idempotency-Key and are sent again
 * with it until they are acknowledged; every fourth has none and is given up when its answer gets
 * lost, so what became of it is open.
 */
import { setTimeout as pause } from 'node:timers/promises';

import { Pool } from 'undici';

import type { JobDocument, Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const TICK_MS = 20;
const CONNECTIONS = 48;
const MOST_UNDER_WAY = 100;
const RETRY_MS = 250;
/** A part that died with the request has this long to be missed, ms. */
const ANSWER_MS = 10_000;
const SYNC_WAIT_MS = 4_000;

export interface Acknowledged {
  readonly id: string;
  /** Null for a request without one. */
  readonly key: string | null;
  readonly path: string;
  readonly input: { readonly n: number; readonly ms: number };
  /** The first document that said the job had ended. */
  ended: JobDocument | null;
}

type Answer = { readonly kind: 'document'; readonly document: JobDocument } | { readonly kind: 'lost' };

export class Load {
  readonly #stack: Stack;
  readonly #endpoint: string;
  readonly #random: () => number;
  readonly #name: string;
  readonly #perTick: number;
  /** Every acknowledged job, in the order of their acknowledgement. */
  readonly acknowledged: Acknowledged[] = [];
  /** Requests without a key that were never answered: each is a job, or is not. */
  lost = 0;
  /** Times a request was sent again. */
  resent = 0;
  #pool: { readonly origin: string; readonly pool: Pool } | null = null;
  #ticker: NodeJS.Timeout | null = null;
  #next = 0;
  readonly #underWay = new Set<Promise<void>>();
  #failure: Error | null = null;
  #closed = false;

  /** `random` gives numbers in [0, 1); `rate` is requests per second. */
  constructor(stack: Stack, endpoint: string, random: () => number, rate: number, name = 'load') {
    this.#stack = stack;
    this.#endpoint = endpoint;
    this.#random = random;
    this.#name = name;
    this.#perTick = Math.max(1, Math.round((rate * TICK_MS) / 1_000));
  }

  start(): void {
    this.#ticker = setInterval(() => {
      for (let i = 0; i < this.#perTick && this.#underWay.size < MOST_UNDER_WAY; i += 1) this.#submitNext();
    }, TICK_MS);
  }

  /** Stops asking, and waits until everything with a key is acknowledged. */
  async stop(): Promise<void> {
    if (this.#ticker !== null) clearInterval(this.#ticker);
    this.#ticker = null;
    await Promise.all(this.#underWay);
    if (this.#failure !== null) throw this.#failure;
  }

  /** Gives everything up; whatever still asks is refused, so that a failed test ends. */
  async close(): Promise<void> {
    this.#closed = true;
    if (this.#ticker !== null) clearInterval(this.#ticker);
    await this.#pool?.pool.destroy();
    await Promise.all(this.#underWay);
  }

  /** Waits until `count` more jobs have been acknowledged. */
  async more(count: number): Promise<void> {
    const goal = this.acknowledged.length + count;
    await until(`${count} more jobs are acknowledged`, () => {
      if (this.#failure !== null) throw this.#failure;
      return this.acknowledged.length >= goal;
    });
  }

  /** Submits one job beside the others and waits until it has ended: the whole way is open. */
  async complete(): Promise<void> {
    const n = this.#next;
    this.#next += 1;
    const job = await this.#submit('/run', `${this.#name}-${n}`, { n, ms: 0 });
    await until('a job goes all the way', async () => job !== null && hasEnded(await this.status(job.id)));
  }

  /** What the job's status is now; waits through restarts of the parts. */
  async status(id: string): Promise<JobDocument> {
    for (;;) {
      const answer = await this.#send('GET', `/status/${id}`, null, null);
      if (answer.kind === 'document') return answer.document;
      await pause(RETRY_MS);
    }
  }

  /** Submits once more what was acknowledged under a key; gives the id of the answer. */
  async again(job: Acknowledged): Promise<string> {
    const answer = await this.#send('POST', job.path, job.key, JSON.stringify({ input: job.input }));
    return answer.kind === 'document' ? answer.document.id : 'no answer';
  }

  #submitNext(): void {
    const n = this.#next;
    this.#next += 1;
    const input = { n, ms: Math.floor(this.#random() * 51) };
    const key = n % 4 === 3 ? null : `${this.#name}-${n}`;
    const path = this.#random() < 0.5 ? '/run' : `/runsync?wait=${SYNC_WAIT_MS}`;
    const done = this.#submit(path, key, input).then(
      () => undefined,
      (error: unknown) => {
        this.#failure ??= error instanceof Error ? error : new Error(String(error));
      },
    );
    this.#underWay.add(done);
    void done.then(() => this.#underWay.delete(done));
  }

  async #submit(path: string, key: string | null, input: Acknowledged['input']): Promise<Acknowledged | null> {
    const body = JSON.stringify({ input });
    for (;;) {
      const answer = await this.#send('POST', path, key, body);
      if (answer.kind === 'document') {
        const { document } = answer;
        const job = { id: document.id, key, path, input, ended: hasEnded(document) && path !== '/run' ? document : null };
        this.acknowledged.push(job);
        return job;
      }
      if (key === null) {
        this.lost += 1;
        return null;
      }
      this.resent += 1;
      await pause(RETRY_MS);
    }
  }

  /** One request. A lost connection, a 5xx and silence are all the same: nobody knows. Anything else is a fault. */
  async #send(method: 'GET' | 'POST', path: string, key: string | null, body: string | null): Promise<Answer> {
    if (this.#closed) throw new Error('the load is closed');
    const headers: Record<string, string> = { authorization: `Bearer ${this.#stack.apiKey}`, 'content-type': 'application/json' };
    if (key !== null) headers['idempotency-key'] = key;
    let status: number;
    let text: string;
    try {
      const response = await this.#connections().request({ method, path: `/v2/${this.#endpoint}${path}`, headers, body });
      status = response.statusCode;
      text = await response.body.text();
    } catch {
      return { kind: 'lost' };
    }
    if (status >= 500) return { kind: 'lost' };
    if (status !== 200) throw new Error(`${method} ${path} answered ${status}: ${text}`);
    return { kind: 'document', document: JSON.parse(text) as JobDocument };
  }

  /** The gateway has another port after a new start of the whole stack. */
  #connections(): Pool {
    const origin = this.#stack.url;
    if (this.#pool?.origin !== origin) {
      void this.#pool?.pool.destroy();
      const pool = new Pool(origin, { connections: CONNECTIONS, headersTimeout: ANSWER_MS, bodyTimeout: ANSWER_MS });
      this.#pool = { origin, pool };
    }
    return this.#pool.pool;
  }
}

export function hasEnded(document: JobDocument): boolean {
  return document.status !== 'IN_QUEUE' && document.status !== 'IN_PROGRESS';
}
