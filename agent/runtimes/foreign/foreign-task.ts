/** One task of a foreign worker, and the document in which the worker receives it. */
import { traceHeaders } from '../../../lib/trace-context.ts';
import { FIRST_CREDITS, type Task } from '../runtime.ts';
import { workerS3Config } from '../s3-config.ts';

/**
 * waiting ──job request takes it──▶ offered ──response written──▶ running ──posted, or known to be over──▶ gone
 *    ▲                                 │
 *    └────── caller disconnected ──────┘
 */
export type TaskState = 'waiting' | 'offered' | 'running';

export class ForeignTask {
  readonly task: Task;
  state: TaskState = 'waiting';
  enteredAt = 0;
  /** Set once the task must be stopped. */
  stop: Stop | undefined;
  #credits = FIRST_CREDITS;
  readonly #waiting: (() => void)[] = [];

  constructor(task: Task) {
    this.task = task;
  }

  /** Resolves when one more chunk may pass or the task is over. */
  async credit(): Promise<void> {
    if (this.#credits > 0) {
      this.#credits -= 1;
      return;
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.push(resolve);
    await promise;
  }

  grant(count: number): void {
    for (let left = count; left > 0; left -= 1) {
      const next = this.#waiting.shift();
      if (next === undefined) this.#credits += 1;
      else next();
    }
  }

  /** Releases every waiting chunk: the task is over and the chunks are ignored. */
  over(): void {
    this.stop?.cancel();
    for (const next of this.#waiting.splice(0)) next();
  }

  /**
   * The response to a job request: the input byte for byte as the caller sent it. The trace context is in fields with the names of its
   * headers: a response may hold several jobs, and clients pass fields that they do not know on to the handler.
   */
  document(): Buffer {
    const { jobId, input, s3Config, trace = '' } = this.task;
    const more = {
      ...(s3Config === undefined ? {} : { s3Config: workerS3Config(s3Config) }),
      ...(trace === '' ? {} : traceHeaders(trace)),
    };
    const head = `{"id":${JSON.stringify(jobId)},"input":`;
    const tail = Object.entries(more).map(([name, value]) => `,"${name}":${JSON.stringify(value)}`);
    return Buffer.concat([Buffer.from(head), input, Buffer.from(`${tail.join('')}}`)]);
  }
}

export interface Stop {
  /** When the worker was first told to stop, monotonic ms; absent before. */
  firstToldAt: number | undefined;
  /** When it was last told. */
  sentAt: number;
  /** The worker has called again after it was told: it has read the stop. */
  received: boolean;
  /** Cancels the forced stop. */
  cancel: () => void;
}
