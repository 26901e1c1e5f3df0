/**
 * A caller as the API asks for: keep-alive connections, a steady rate of /run and /runsync, and
 * the memory of what was acknowledged. Most requests carry an Idempotency-Key and are sent again
 * with it until they are acknowledged; every fourth has none and is given up when its answer gets
 * lost, so what became of it is open.
 */
import type { JobDocument, Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';
import { accepted, Caller } from './caller.ts';

const TICK_MS = 20;
const MAX_UNDER_WAY = 100;
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

export class Load {
  readonly #caller: Caller;
  readonly #endpoint: string;
  readonly #random: () => number;
  readonly #name: string;
  readonly #perTick: number;
  /** Every acknowledged job, in the order of their acknowledgement. */
  readonly acknowledged: Acknowledged[] = [];
  /** Requests without a key that were never answered: each is a job, or is not. */
  lost = 0;
  #ticker: NodeJS.Timeout | null = null;
  #next = 0;
  readonly #underWay = new Set<Promise<void>>();
  #failure: Error | null = null;

  /** `random` gives numbers in [0, 1); `rate` is requests per second. */
  constructor(stack: Stack, endpoint: string, random: () => number, rate: number, name = 'load') {
    this.#caller = new Caller(stack);
    this.#endpoint = endpoint;
    this.#random = random;
    this.#name = name;
    this.#perTick = Math.max(1, Math.round((rate * TICK_MS) / 1_000));
  }

  /** Times a request was sent again. */
  get resent(): number {
    return this.#caller.resent;
  }

  start(): void {
    this.#ticker = setInterval(() => {
      for (let i = 0; i < this.#perTick && this.#underWay.size < MAX_UNDER_WAY; i += 1) this.#submitNext();
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
    if (this.#ticker !== null) clearInterval(this.#ticker);
    await this.#caller.close();
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
    const path = `/${this.#endpoint}/status/${id}`;
    return accepted(await this.#caller.insist({ method: 'GET', path }), path);
  }

  /** Submits once more what was acknowledged under a key; gives the id of the answer. */
  async again({ key, path, input }: Acknowledged): Promise<string> {
    const body = JSON.stringify({ input });
    const answer = await this.#caller.ask({ method: 'POST', path: `/${this.#endpoint}${path}`, key, body });
    return answer === null ? 'no answer' : accepted(answer, path).id;
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
    const request = { method: 'POST', path: `/${this.#endpoint}${path}`, key, body: JSON.stringify({ input }) } as const;
    const answer = key === null ? await this.#caller.ask(request) : await this.#caller.insist(request);
    if (answer === null) {
      this.lost += 1;
      return null;
    }
    const document = accepted(answer, path);
    const job = { id: document.id, key, path, input, ended: hasEnded(document) && path !== '/run' ? document : null };
    this.acknowledged.push(job);
    return job;
  }
}

export function hasEnded(document: JobDocument): boolean {
  return document.status !== 'IN_QUEUE' && document.status !== 'IN_PROGRESS';
}
