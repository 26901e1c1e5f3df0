/**
 * Reads a host's facts with systeminformation in a process that ends afterwards. The library calls programs one by one and waits for
 * some of them (several for each network interface), which would hold up the agent, and has no time limit. A thread that waits for a
 * program cannot be ended, and the agent could not end before it; a process can be killed together with the program.
 */
import { fork, type ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';

import { messageOf } from '../../lib/to-error.ts';
import { exitText, killGroup } from '../runtimes/process-group.ts';
import type { HardwareReading } from './hardware-facts.ts';

/** Most time of a reading, ms. A host with a hundred interfaces takes seconds. */
const READING_MS = 30_000;
const REPORTER = fileURLToPath(new URL('./hardware-reporter.ts', import.meta.url));

/** One process at a time, also while one that was killed does not end: the kernel may not let go of it. */
export class HardwareReader {
  readonly #limitMs: number;
  readonly #program: string;
  #child: ChildProcess | undefined;
  #giveUp: (() => void) | undefined;

  constructor({ limitMs = READING_MS, program = REPORTER }: { readonly limitMs?: number; readonly program?: string } = {}) {
    this.#limitMs = limitMs;
    this.#program = program;
  }

  /** @throws Error when the library fails, takes too long, or has not ended since it did. */
  async read(): Promise<HardwareReading> {
    if (this.#child !== undefined) throw new Error('the last reading of systeminformation has not ended yet');
    const child = fork(this.#program, { detached: true, serialization: 'advanced', stdio: 'ignore' });
    this.#child = child;
    // Only the reading itself keeps the agent.
    child.unref();
    child.channel?.unref();
    const result = Promise.withResolvers<HardwareReading>();
    const fail = (why: string): void => result.reject(new Error(why));
    const timer = setTimeout(() => fail(`systeminformation did not respond within ${this.#limitMs} ms`), this.#limitMs);
    this.#giveUp = () => fail('the agent is stopping');
    child.once('message', (reading) => result.resolve(reading as HardwareReading));
    child.once('error', (error) => {
      if (child.pid === undefined) this.#child = undefined;
      fail(`systeminformation failed: ${messageOf(error)}`);
    });
    // The last message may come after the exit, and before the end of the channel.
    const ended = new Promise((done) => child.once('disconnect', done));
    child.once('exit', (code, signal) => {
      this.#child = undefined;
      void ended.then(() => fail(`systeminformation failed: ${exitText(code, signal, 'its process')}`));
    });
    try {
      return await result.promise;
    } finally {
      clearTimeout(timer);
      this.#giveUp = undefined;
      if (child.pid !== undefined) killGroup(child.pid);
    }
  }

  /** Ends a reading. */
  close(): void {
    this.#giveUp?.();
  }
}
