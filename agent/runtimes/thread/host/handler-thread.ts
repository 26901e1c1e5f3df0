/**
 * The module that piscina runs in the handler thread: it loads the user's function once, then calls it for each task.
 * All messages go over one port, so that a task's entry, chunks, log lines and end arrive in order; piscina's own
 * response only frees its slot.
 */
import type { MessagePort } from 'node:worker_threads';

import type { FromTask, HttpToHost, LoadSpec, PostedFrames, RunSpec, ToThread } from '../../host-protocol.ts';
import { sendMessage } from '../../hosted/message-frames.ts';
import { HttpFunctions, type Post } from './http/functions.ts';
import { FramePoster, postedFrames } from './http/posted-frames.ts';
import { findOpenTelemetry } from './call/current-trace.ts';
import { choiceOf, type Choose } from './methods.ts';
import { loadHandler } from './call/module.ts';
import { errorMessage, errorStack } from './call/output.ts';
import { runTask, onlyRunningJob, type TaskControl } from './task.ts';
import { onCulprit } from './call/stopping.ts';
import { captureOutput, type OutputCapture } from './call/thread-output.ts';
import { loadTranspilerWhenIdle } from './transpiler.ts';

export type ThreadSpec =
  | ({ readonly kind: 'load'; readonly port: MessagePort } & LoadSpec)
  /** `claim`: one number in shared memory, which whoever changes it from 0 first claims the task with. */
  | ({ readonly kind: 'run'; readonly input: Uint8Array; readonly claim: Int32Array } & RunSpec);

export type ThreadMessage = FromTask | PostedFrames;

interface Loaded {
  readonly port: MessagePort;
  readonly endpointId: string;
  readonly choose: Choose;
  readonly output: OutputCapture;
}

const running = new Map<string, TaskControl>();
/** Tasks that were stopped before they arrived: the two messages use different ports. */
const MAX_STOPPED_EARLY = 1_000;
const stoppedEarly = new Set<string>();
let loaded: Loaded | undefined;
let http: HttpFunctions | undefined;
const hasOrder = loadTranspilerWhenIdle();

/** piscina's entry point. */
export async function handle(order: ThreadSpec): Promise<void> {
  if (order.kind === 'load') {
    await load(order);
    return;
  }
  if (loaded === undefined) throw new Error('a task arrived before its module');
  const { port } = loaded;
  if (!claimed(order.claim)) return;
  if (stoppedEarly.delete(order.key)) {
    post(port, { t: 'stopped', key: order.key, ms: 0, entered: false });
    return;
  }
  const control = { jobId: order.jobId, abort: new AbortController(), credits: 0, wake: undefined };
  running.set(order.key, control);
  try {
    await runTask(order, control, loaded, (message) => post(port, message));
  } finally {
    running.delete(order.key);
  }
}

/** Claims a task; returns false for one that somebody else has. */
function claimed(claim: Int32Array): boolean {
  return Atomics.compareExchange(claim, 0, 0, 1) === 0;
}

async function load(order: Extract<ThreadSpec, { kind: 'load' }>): Promise<void> {
  hasOrder();
  const { port } = order;
  const output = captureOutput(
    () => onlyRunningJob(running),
    (stream, jobId, text) => post(port, { t: 'log', stream, jobId, text }),
  );
  onCulprit((key) => post(port, { t: 'culprit', key }));
  port.on('message', (message: ToThread) => {
    if (message.t === 'http-frames') {
      hearFrames(message);
      return;
    }
    const control = running.get(message.key);
    if (control === undefined) {
      if (message.t === 'abort') stopEarly(message.key);
      return;
    }
    if (message.t === 'abort') control.abort.abort(new DOMException('the job was stopped', 'AbortError'));
    else control.credits += message.count;
    control.wake?.();
  });
  try {
    if (order.httpFunctions.length > 0) {
      http = await HttpFunctions.load(order, output, httpPost(port));
      post(port, { t: 'loaded' });
      return;
    }
    const handler = await loadHandler(order.folder, order.function.module, order.function.name);
    findOpenTelemetry(order.folder);
    loaded = { port, endpointId: order.endpointId, output, choose: choiceOf(handler, order.function) };
    post(port, { t: 'loaded' });
  } catch (error) {
    output.text('stderr', errorStack(error));
    output.flush();
    post(port, { t: 'load-failed', detail: errorMessage(error) });
  }
}

/** May also name tasks that have just ended: those are never looked up and must not accumulate. */
function stopEarly(key: string): void {
  const [oldest] = stoppedEarly;
  if (stoppedEarly.size >= MAX_STOPPED_EARLY && oldest !== undefined) stoppedEarly.delete(oldest);
  stoppedEarly.add(key);
}

/** Frames that wait for their turn. */
let framesWaiting = 0;

/** Each frame gets its own turn: a ready response must not wait for a long computation of a function. */
function hearFrames(message: PostedFrames): void {
  let atOnce = framesWaiting === 0;
  for (const [header, bytes] of postedFrames(message)) {
    if (atOnce) http?.onFrame(JSON.parse(header) as HttpToHost, bytes);
    else {
      framesWaiting += 1;
      setImmediate(() => {
        framesWaiting -= 1;
        http?.onFrame(JSON.parse(header) as HttpToHost, bytes);
      });
    }
    atOnce = false;
  }
}

/** Messages sent without a pause leave together, before any other function continues. */
function httpPost(port: MessagePort): Post {
  const poster = new FramePoster((message, transfer) => port.postMessage(message, transfer));
  const flush = (): void => poster.flush();
  // Messages sent before user code ended the thread still arrive.
  process.on('exit', flush);
  return (message) => {
    if (poster.isEmpty) queueMicrotask(flush);
    sendMessage(message, (header, body) => poster.add(JSON.stringify(header), body, 'bytes' in message));
  };
}

function post(port: MessagePort, message: ThreadMessage): void {
  port.postMessage(message, 'bytes' in message ? [message.bytes.buffer as ArrayBuffer] : []);
}
