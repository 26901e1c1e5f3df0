/** A job that is under way for as long as a test wants, and tells each time its handler is entered. */
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import type { JobDocument, Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

let next = 1;

export class GatedJob {
  readonly n: number;
  readonly #stack: Stack;
  readonly #endpoint: string;
  readonly #entered: string;
  readonly #gate: string;
  #id = '';

  private constructor(stack: Stack, endpoint: string) {
    this.n = next;
    next += 1;
    this.#stack = stack;
    this.#endpoint = endpoint;
    this.#entered = join(stack.scratch, `entered-${this.n}`);
    this.#gate = join(stack.scratch, `gate-${this.n}`);
  }

  /** Submits a job to an endpoint of `waitForFile`; it runs when this resolves, and its start is known to the scheduler. */
  static async start(stack: Stack, endpoint: string): Promise<GatedJob> {
    const job = new GatedJob(stack, endpoint);
    job.#id = await stack.run(endpoint, { n: job.n, started: job.#entered, gate: job.#gate });
    await job.entered(1);
    await until('its start was reported', async () => (await job.status()).status === 'IN_PROGRESS');
    return job;
  }

  /** Worker hosts that entered the handler, in order: one process id for each time. */
  entries(): number[] {
    let text: string;
    try {
      text = readFileSync(this.#entered, 'utf8');
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return [];
      throw error;
    }
    return text
      .split('\n')
      .filter((line) => line !== '')
      .map(Number);
  }

  /** Waits until the handler was entered `times` times; the process id of the last one. */
  entered(times: number): Promise<number> {
    return until(`the handler is entered ${times} times`, () => {
      const entries = this.entries();
      return entries.length >= times ? (entries.at(-1) ?? null) : null;
    });
  }

  /** Lets the handler return, however often it was entered. */
  open(): Promise<void> {
    return writeFile(this.#gate, '');
  }

  status(): Promise<JobDocument> {
    return this.#stack.status(this.#endpoint, this.#id);
  }

  ended(): Promise<JobDocument> {
    return this.#stack.ended(this.#endpoint, this.#id);
  }
}
