/**
 * A steady load of queue-based calls on several gateways, as clients make them: a call whose connection a stopping gateway
 * refuses or ends is made again at the next one; any other answer but success is noted.
 */
import { setTimeout as pause } from 'node:timers/promises';

import { Agent, request } from 'undici';

export interface LoadTarget {
  /** Base URLs of the gateways. */
  readonly urls: readonly string[];
  readonly key: string;
  /** Endpoint whose function takes `ms` and returns, and one that yields `count` chunks. */
  readonly work: string;
  readonly series: string;
  /** File to which the handlers append what they do. */
  readonly record: string;
}

export class SteadyLoad {
  readonly #target: LoadTarget;
  readonly #agent = new Agent({ connections: 64, keepAliveTimeout: 1_000 });
  readonly #lives: Promise<void>[] = [];
  #closed = false;
  /** Jobs that were acknowledged, and those of them that were seen completed or cancelled. */
  readonly acknowledged = new Set<string>();
  readonly finished = new Set<string>();
  /** Answers of 5xx, and others that no caller should see. */
  readonly wrong: string[] = [];
  /** Ends of connections at gateways. */
  refused = 0;
  /** Longest time between two answers, ms, since `reset`. */
  longestGapMs = 0;
  #answeredAt = performance.now();

  constructor(target: LoadTarget) {
    this.#target = target;
    for (let life = 0; life < 4; life += 1) this.#lives.push(this.#live(life, () => this.#run()));
    for (let life = 4; life < 6; life += 1) this.#lives.push(this.#live(life, () => this.#runsync()));
    this.#lives.push(this.#live(6, () => this.#stream()));
    this.#lives.push(this.#live(7, () => this.#cancel()));
  }

  reset(): void {
    this.longestGapMs = 0;
    this.#answeredAt = performance.now();
  }

  /** Ends the load; every acknowledged job was seen at its end by then. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all(this.#lives);
    await this.#agent.destroy();
  }

  async #live(life: number, act: () => Promise<void>): Promise<void> {
    await pause(life * 20);
    while (!this.#closed) {
      try {
        await act();
      } catch (error) {
        this.wrong.push(String(error));
        await pause(50);
      }
    }
  }

  async #run(): Promise<void> {
    const id = await this.#submit('run', this.#target.work, { input: 'r', record: this.#target.record, ms: 20, failing: 0, bytes: 10 });
    await this.#untilEnded(this.#target.work, id, 'COMPLETED');
  }

  async #runsync(): Promise<void> {
    const { work, record } = this.#target;
    const reply = await this.#call('POST', `/v2/${work}/runsync?wait=30000`, {
      input: { input: 's', record, ms: 30, failing: 0, bytes: 10 },
    });
    this.acknowledged.add(String(reply['id']));
    if (reply['status'] === 'COMPLETED') this.finished.add(String(reply['id']));
    else await this.#untilEnded(work, String(reply['id']), 'COMPLETED');
  }

  async #stream(): Promise<void> {
    const { series, record } = this.#target;
    const id = await this.#submit('run', series, { input: 't', record, ms: 30, failing: 0, bytes: 10, count: 5 });
    let seen = 0;
    for (;;) {
      const { status, stream } = (await this.#call('GET', `/v2/${series}/stream/${id}`)) as { status: string; stream: unknown[] };
      seen += stream.length;
      if (status !== 'COMPLETED' || stream.length > 0) {
        if (status === 'FAILED') throw new Error(`the job ${id} failed`);
        continue;
      }
      // A response that was cut off at a stopping gateway may have carried chunks that no other gateway sends again.
      if (seen < 5 && this.refused === 0) throw new Error(`${seen} of 5 chunks of ${id}`);
      this.finished.add(id);
      return;
    }
  }

  async #cancel(): Promise<void> {
    const id = await this.#submit('run', this.#target.work, { input: 'c', record: this.#target.record, ms: 60_000, failing: 0, bytes: 10 });
    await this.#call('POST', `/v2/${this.#target.work}/cancel/${id}`, undefined, [409]);
    await this.#untilEnded(this.#target.work, id, 'CANCELLED');
  }

  async #submit(how: 'run', endpoint: string, input: object): Promise<string> {
    const reply = await this.#call('POST', `/v2/${endpoint}/${how}`, { input });
    const id = String(reply['id']);
    this.acknowledged.add(id);
    return id;
  }

  async #untilEnded(endpoint: string, id: string, wanted: string): Promise<void> {
    for (;;) {
      const { status } = await this.#call('GET', `/v2/${endpoint}/status/${id}`);
      if (status === wanted) {
        this.finished.add(id);
        return;
      }
      if (status !== 'IN_QUEUE' && status !== 'IN_PROGRESS') throw new Error(`the job ${id} is ${String(status)}`);
      await pause(20);
    }
  }

  /** One call, at the gateways in turn until one answers. */
  async #call(method: 'GET' | 'POST', path: string, body?: object, allowed: readonly number[] = []): Promise<Record<string, unknown>> {
    const { urls, key } = this.#target;
    // Submissions are repeated under one key, as a careful client does.
    const headers = {
      authorization: `Bearer ${key}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json', 'idempotency-key': crypto.randomUUID() }),
    };
    for (let turn = 0; ; turn += 1) {
      try {
        const url = `${urls[(turn + path.length) % urls.length] ?? ''}${path}`;
        const reply = await request(url, {
          method,
          headers,
          dispatcher: this.#agent,
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        });
        const text = await reply.body.text();
        this.#answered();
        const json = JSON.parse(text) as Record<string, unknown>;
        if (reply.statusCode === 200 || allowed.includes(reply.statusCode)) return json;
        this.wrong.push(`${method} ${path}: ${reply.statusCode} ${text}`);
        await pause(50);
      } catch (error) {
        if (!isDisconnect(error)) throw error;
        this.refused += 1;
        await pause(20);
      }
    }
  }

  #answered(): void {
    const now = performance.now();
    this.longestGapMs = Math.max(this.longestGapMs, now - this.#answeredAt);
    this.#answeredAt = now;
  }
}

function isDisconnect(error: unknown): boolean {
  return (
    error instanceof Error && 'code' in error && ['ECONNREFUSED', 'ECONNRESET', 'UND_ERR_SOCKET', 'EPIPE'].includes(String(error.code))
  );
}
