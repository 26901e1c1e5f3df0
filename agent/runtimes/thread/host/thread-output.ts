/**
 * What the handler prints, as lines on the thread's port. The stream of the process would do, too,
 * but could not tell which job a line is of: it travels apart from the tasks' entries and ends.
 */
import { OutputLimiter, type OutputStream } from '../../output-limiter.ts';

export interface OutputCapture {
  /** Adds text as if it had been printed, ending its line. */
  text(stream: OutputStream, text: string): void;
  /** Sends the lines that have no end yet, and what waits for its turn. */
  flush(): void;
}

/** Longest piece of a line that is kept together, characters. */
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
