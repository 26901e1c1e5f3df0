/**
 * The handler's output on the thread's port, as it is written: the agent makes lines of it. The process's own stream could not attribute a line to its job:
 * it is not ordered with the tasks' entries and ends.
 */
import { StringDecoder } from 'node:string_decoder';

import { OutputLimiter, type OutputStream } from '../../../output-limiter.ts';

export interface OutputCapture {
  /** Adds text as if it had been printed, and ends its line. */
  text(stream: OutputStream, text: string): void;
  /** Sends what waits for its turn. */
  flush(): void;
}

export function captureOutput(jobOf: () => string, send: (stream: OutputStream, jobId: string, text: string) => void): OutputCapture {
  const limiter = new OutputLimiter(send);
  const decoders = { stdout: new StringDecoder('utf8'), stderr: new StringDecoder('utf8') };
  const write = (stream: OutputStream, text: string): void => {
    if (text !== '') limiter.add(stream, jobOf(), text);
  };
  for (const stream of ['stdout', 'stderr'] as const) {
    process[stream].write = (chunk: string | Uint8Array, encoding?: unknown, callback?: unknown): boolean => {
      write(stream, typeof chunk === 'string' ? chunk : decoders[stream].write(chunk));
      const done = typeof encoding === 'function' ? encoding : callback;
      if (typeof done === 'function') queueMicrotask(() => (done as () => void)());
      return true;
    };
  }
  // Before the channel is flushed for the last time.
  process.prependListener('exit', () => limiter.flush());
  return {
    text: (stream, text) => write(stream, `${text}\n`),
    flush: () => limiter.flush(),
  };
}
