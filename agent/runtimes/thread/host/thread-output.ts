/**
 * The handler's output as lines on the thread's port. The process's own stream could not attribute a line to its job:
 * it is not ordered with the tasks' entries and ends.
 */
import { OutputLimiter, type OutputStream } from '../../output-limiter.ts';

export interface OutputCapture {
  /** Adds text as if it had been printed, and ends its line. */
  text(stream: OutputStream, text: string): void;
  /** Sends the unfinished lines, and those that wait for their turn. */
  flush(): void;
}

/** Longest piece of a line that stays together, characters. */
const MAX_LINE = 16_384;

export function captureOutput(jobOf: () => string, send: (stream: OutputStream, jobId: string, text: string) => void): OutputCapture {
  const limiter = new OutputLimiter(send);
  const rest: Record<OutputStream, string> = { stdout: '', stderr: '' };
  const write = (stream: OutputStream, text: string): void => {
    const all = rest[stream] + text;
    const end = all.length > MAX_LINE ? all.length : all.lastIndexOf('\n') + 1;
    rest[stream] = all.slice(end);
    if (end > 0) limiter.add(stream, jobOf(), all.slice(0, end));
  };
  for (const stream of ['stdout', 'stderr'] as const) {
    process[stream].write = (chunk: string | Uint8Array, encoding?: unknown, callback?: unknown): boolean => {
      const text = typeof chunk === 'string' ? chunk : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength).toString();
      write(stream, text);
      const done = typeof encoding === 'function' ? encoding : callback;
      if (typeof done === 'function') queueMicrotask(() => (done as () => void)());
      return true;
    };
  }
  // Before the channel is flushed for the last time.
  process.prependListener('exit', () => limiter.flush());
  return {
    text: (stream, text) => write(stream, `${text}\n`),
    flush() {
      for (const stream of ['stdout', 'stderr'] as const) if (rest[stream] !== '') write(stream, '\n');
      limiter.flush();
    },
  };
}
