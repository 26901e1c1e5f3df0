/**
 * Closed-loop load: every connection sends its next request when it has received the previous response. The figures are
 * throughput at a fixed concurrency. A stalled server receives fewer requests during its stall, which the latency
 * percentiles of such a run do not show (the maximum does).
 */
import { build, type Histogram } from 'hdr-histogram-js';

import { Connection, type Exchange } from './connection.ts';
import type { PreparedRequest } from './request.ts';

export interface LoadOptions {
  readonly connections: number;
  /** Measured time, ms. */
  readonly durationMs: number;
  /** Warm-up before the measured time, ms. Only the errors of its requests are counted. */
  readonly warmupMs: number;
  /** Time after the end within which open requests must be answered, ms. */
  readonly drainMs?: number;
}

/** Milliseconds. */
export interface Latency {
  readonly p50: number;
  readonly p90: number;
  readonly p95: number;
  readonly p99: number;
  readonly p999: number;
  readonly max: number;
  readonly mean: number;
}

export interface LoadResult {
  /** Responses with a 2xx status within the measured time, per second. */
  readonly perSecond: number;
  readonly answers: number;
  readonly seconds: number;
  readonly latency: Latency;
  /** Share of one core that this process used in the measured time. Near 1, the driver is the limit. */
  readonly driverCpu: number;
  /** Requests, including the warm-up. */
  readonly sent: number;
  /** Responses by status, including the warm-up. */
  readonly statuses: Readonly<Record<string, number>>;
  /** Responses other than 2xx, lost connections and unanswered requests, including the warm-up. */
  readonly errors: number;
  /** The first example of each kind of error. */
  readonly examples: Readonly<Record<string, string>>;
}

/** Runs the load. Never rejects because of a response of the server. */
export function runLoad(request: PreparedRequest, options: LoadOptions): Promise<LoadResult> {
  return new Load(request, options).run();
}

class Load {
  readonly #request: PreparedRequest;
  readonly #options: LoadOptions;
  readonly #connections: Connection[];
  /** Microseconds. */
  readonly #histogram: Histogram = build({ highestTrackableValue: 600_000_000, numberOfSignificantValueDigits: 3 });
  readonly #statuses = new Map<number, number>();
  readonly #examples = new Map<string, string>();
  #errors = 0;
  #answers = 0;
  #sent = 0;
  #open = 0;
  #measuring = false;
  #stopped = false;
  #idle: () => void = () => undefined;

  constructor(request: PreparedRequest, options: LoadOptions) {
    this.#request = request;
    this.#options = options;
    this.#connections = Array.from({ length: options.connections }, () => new Connection(request.host, request.port));
  }

  async run(): Promise<LoadResult> {
    for (const connection of this.#connections) this.#next(connection);
    await pause(this.#options.warmupMs);
    this.#measuring = true;
    const startedAt = performance.now();
    const cpuBefore = process.cpuUsage();
    await pause(this.#options.durationMs);
    this.#measuring = false;
    const seconds = (performance.now() - startedAt) / 1000;
    const cpu = process.cpuUsage(cpuBefore);
    await this.#drain();
    return {
      perSecond: this.#answers / seconds,
      answers: this.#answers,
      seconds,
      latency: summarize(this.#histogram),
      driverCpu: (cpu.user + cpu.system) / 1e6 / seconds,
      sent: this.#sent,
      statuses: Object.fromEntries([...this.#statuses].map(([status, count]) => [String(status), count])),
      errors: this.#errors,
      examples: Object.fromEntries(this.#examples),
    };
  }

  #next(connection: Connection): void {
    this.#open += 1;
    this.#sent += 1;
    connection.send(
      this.#request.bytes,
      (exchange) => {
        this.#open -= 1;
        this.#answered(exchange);
        this.#again(connection);
      },
      (error) => {
        this.#open -= 1;
        this.#error(`connection: ${error.message}`, error.message);
        // A refused connection fails at once. The next try waits for the event loop, which avoids a busy loop.
        setTimeout(() => this.#again(connection), 10);
      },
    );
  }

  #again(connection: Connection): void {
    if (!this.#stopped) this.#next(connection);
    else if (this.#open === 0) this.#idle();
  }

  #answered({ ms, response: { status, body } }: Exchange): void {
    this.#statuses.set(status, (this.#statuses.get(status) ?? 0) + 1);
    if (status < 200 || status > 299) {
      this.#error(`status ${status}`, body.toString('utf8', 0, 300));
    } else if (this.#measuring) {
      this.#answers += 1;
      this.#histogram.recordValue(Math.max(1, Math.round(ms * 1000)));
    }
  }

  #error(kind: string, example: string): void {
    this.#errors += 1;
    if (!this.#examples.has(kind)) this.#examples.set(kind, example);
  }

  async #drain(): Promise<void> {
    this.#stopped = true;
    const limit = this.#options.drainMs ?? 10_000;
    if (this.#open > 0) {
      let timer: NodeJS.Timeout | undefined;
      await new Promise<void>((resolve) => {
        this.#idle = resolve;
        timer = setTimeout(resolve, limit);
      });
      clearTimeout(timer);
    }
    for (let left = this.#open; left > 0; left -= 1) this.#error('no answer', `no answer within ${limit} ms after the end`);
    for (const connection of this.#connections) connection.close();
  }
}

/** Percentiles of a histogram of microseconds, in milliseconds. */
export function summarize(histogram: Histogram): Latency {
  const at = (percentile: number): number => (histogram.totalCount === 0 ? 0 : histogram.getValueAtPercentile(percentile) / 1000);
  return {
    p50: at(50),
    p90: at(90),
    p95: at(95),
    p99: at(99),
    p999: at(99.9),
    max: at(100),
    mean: histogram.totalCount === 0 ? 0 : histogram.mean / 1000,
  };
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}
