/** One task of a foreign worker, and the document in which the worker gets it. */
import { FIRST_CREDITS, type Task } from '../runtime.ts';
import { workerS3Config } from '../s3-config.ts';

/**
 * waiting ──a call for work takes it──▶ offered ──answer written──▶ running ──posted, or known to be over──▶ gone
 *    ▲                                     │
 *    └──────── the caller hung up ─────────┘
 */
export type TaskState = 'waiting' | 'offered' | 'running';

export class ForeignTask {
  readonly task: Task;
  state: TaskState = 'waiting';
  enteredAt = 0;
  /** Set once the task is to be stopped. */
  stop: Stop | undefined;
  #credits = FIRST_CREDITS;
  readonly #waiting: (() => void)[] = [];

  constructor(task: Task) {
    this.task = task;
  }

  /** Resolves when one more chunk may pass, or the task is over. */
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

  /** Lets every chunk that waits go on: the task is over, and nobody looks at them. */
  over(): void {
    this.stop?.callOff();
    for (const next of this.#waiting.splice(0)) next();
  }

  /** What a call for work answers: the input byte for byte as the caller wrote it. */
  document(): Buffer {
    const { jobId, input, s3Config } = this.task;
    const head = `{"id":${JSON.stringify(jobId)},"input":`;
    const tail = s3Config === undefined ? '}' : `,"s3Config":${JSON.stringify(workerS3Config(s3Config))}}`;
    return Buffer.concat([Buffer.from(head), input, Buffer.from(tail)]);
  }
}

export interface Stop {
  /** When the worker was first told, monotonic ms; absent until it asked. */
  firstToldAt: number | undefined;
  /** When it was last told. */
  toldAt: number;
  /** The worker has asked again after it was told: it has read the stop. */
  heard: boolean;
  /** Calls force off. */
  callOff: () => void;
}
