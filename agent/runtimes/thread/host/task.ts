/** One call of the user's function: its input, its context, its chunks, its end. */
import { writeSync } from 'node:fs';

import { NumberOutOfRange, parseExact } from '../../../../lib/exact-json.ts';
import { ENTRY_FD, type FromTask, type RunSpec } from '../../host-protocol.ts';
import type { WorkerS3Config } from '../../s3-config.ts';
import { FIRST_CREDITS, MAX_PROGRESS_BYTES } from '../../runtime.ts';
import { traceparentOf, withTrace } from './call/current-trace.ts';
import { argumentsFor, firstValue, InputError } from './call/arguments.ts';
import type { Choose } from './methods.ts';
import { Aggregate, chunkBytes, errorMessage, errorStack, OutputError, resultBytes, toJson } from './call/output.ts';
import { withWork } from './call/stopping.ts';
import { schemaProblems, Unfit } from './call/unfit.ts';
import type { OutputCapture } from './call/thread-output.ts';

/** Controls of the main thread over a running task. */
export interface TaskControl {
  readonly jobId: string;
  readonly abort: AbortController;
  /** Chunks granted beyond the first ones. */
  credits: number;
  /** Wakes the generator that waits for credit or for its abort. */
  wake: (() => void) | undefined;
}

/** The argument for `ctx`, or after all others. */
export interface JobContext {
  readonly jobId: string;
  readonly endpointId: string;
  /** 1 for the first started attempt. */
  readonly attempt: number;
  /** Aborted when the job is cancelled or timed out; one second later the handler is killed. */
  readonly signal: AbortSignal;
  /** Reports progress; status calls return the latest value. At most 64 KiB of JSON. */
  progress(value: unknown): void;
  /** As the caller sent it. */
  readonly s3Config: WorkerS3Config | undefined;
  /** W3C trace context of the job, for programs that continue the trace; undefined without one. */
  readonly traceparent: string | undefined;
}

/** The task of a printed line: the only running job; empty when several run. */
export function onlyRunningJob(running: ReadonlyMap<string, TaskControl>): string {
  if (running.size !== 1) return '';
  for (const { jobId } of running.values()) return jobId;
  return '';
}

type Post = (message: FromTask) => void;

type TaskSpec = RunSpec & { readonly input: Uint8Array };

/** The loaded module that a task runs in. */
export interface TaskModule {
  readonly endpointId: string;
  readonly choose: Choose;
  readonly output: OutputCapture;
  /** Writes the key of a task that is entered; absent: by a system call that waits. */
  readonly enter?: (key: string) => void;
}

/** Runs one task to its end, including failures, and posts the end; never throws. */
export async function runTask(order: TaskSpec, control: TaskControl, module: TaskModule, post: Post): Promise<void> {
  const { key } = order;
  const startedAt = performance.now();
  if (module.enter === undefined) writeSync(ENTRY_FD, `${key}\n`);
  else module.enter(key);
  let end: FromTask;
  const given: { first?: unknown } = {};
  try {
    const bytes = await withWork({ key, signal: control.abort.signal }, () =>
      withTrace(order.trace ?? '', () => callHandler(order, control, module, { post, given })),
    );
    end = { t: 'returned', key, ms: 0, bytes };
  } catch (error) {
    const isRefused =
      error instanceof InputError ||
      error instanceof Unfit ||
      error instanceof OutputError ||
      schemaProblems(error, given.first) !== undefined;
    // Output of a handler after it was asked to stop is ignored.
    if (!control.abort.signal.aborted && !isRefused) module.output.text('stderr', errorStack(error));
    end = { t: 'failed', key, ms: 0, error: errorMessage(error) };
  }
  const ms = performance.now() - startedAt;
  // Its last line may lack a line end, and must not arrive after the task's end.
  module.output.flush();
  post(control.abort.signal.aborted ? { t: 'stopped', key, ms, entered: true } : { ...end, ms });
}

interface Call {
  readonly post: Post;
  /** Receives the first argument of the handler. */
  readonly given: { first?: unknown };
}

async function callHandler(
  order: TaskSpec,
  control: TaskControl,
  { choose, endpointId }: TaskModule,
  { post, given }: Call,
): Promise<Uint8Array> {
  const { input } = order;
  const value = inputOf(Buffer.from(input.buffer, input.byteOffset, input.byteLength).toString());
  const context: JobContext = {
    jobId: order.jobId,
    endpointId,
    attempt: order.attempt,
    signal: control.abort.signal,
    progress: progressOf(order.key, post),
    s3Config: order.s3Config,
    traceparent: traceparentOf(order.trace ?? ''),
  };
  const { handler, signature, input: own } = choose(value);
  const taken = argumentsFor(signature, own, context);
  given.first = firstValue(signature, taken);
  const result = await handler(...taken);
  const source = chunksOf(result);
  return source === undefined ? resultBytes(toJson(result, 'result')) : collectChunks(order.key, source, control, post);
}

/** @throws InputError for a number that no value stands for */
function inputOf(text: string): unknown {
  try {
    return parseExact(text);
  } catch (error) {
    if (error instanceof NumberOutOfRange) throw new InputError(`input: ${error.message}`, { cause: error });
    throw error;
  }
}

/** Only the last update counts: those of one turn are one message. */
function progressOf(key: string, post: Post): (value: unknown) => void {
  let latest: Uint8Array | undefined;
  return (value) => {
    const bytes = new TextEncoder().encode(toJson(value, 'progress'));
    if (bytes.length > MAX_PROGRESS_BYTES) throw new OutputError(`a progress update has ${bytes.length} bytes; at most 64 KiB are allowed`);
    const waiting = latest !== undefined;
    latest = bytes;
    if (waiting) return;
    setImmediate(() => {
      if (latest !== undefined) post({ t: 'progress', key, bytes: latest });
      latest = undefined;
    });
  };
}

type ChunkSource = AsyncIterator<unknown> | Iterator<unknown>;

/** True for a generator or another iterator; arrays, maps and strings are values. */
function chunksOf(result: unknown): ChunkSource | undefined {
  if (typeof result !== 'object' || result === null) return undefined;
  if (Symbol.asyncIterator in result) return (result as AsyncIterable<unknown>)[Symbol.asyncIterator]();
  if (Symbol.iterator in result && 'next' in result && typeof result.next === 'function') {
    return (result as Iterable<unknown>)[Symbol.iterator]();
  }
  return undefined;
}

/** Sends each value as a chunk within the credits, and returns all of them as the result. */
async function collectChunks(key: string, source: ChunkSource, control: TaskControl, post: Post): Promise<Uint8Array> {
  const all = new Aggregate();
  const { signal } = control.abort;
  let sent = 0;
  try {
    for (;;) {
      while (sent >= FIRST_CREDITS + control.credits && !signal.aborted) {
        const { promise, resolve } = Promise.withResolvers<void>();
        control.wake = resolve;
        await promise;
        control.wake = undefined;
      }
      signal.throwIfAborted();
      const step = await source.next();
      signal.throwIfAborted();
      if (step.done === true) return all.toBytes();
      const bytes = chunkBytes(toJson(step.value, 'chunk'));
      all.add(bytes);
      sent += 1;
      // A copy: posting transfers the bytes to the other thread.
      post({ t: 'chunk', key, bytes: bytes.slice() });
    }
  } catch (error) {
    // Runs the generator's `finally` blocks; their errors do not replace the job's outcome.
    await Promise.resolve(source.return?.()).catch(() => undefined);
    throw error;
  }
}
