/**
 * The host process of one Node worker: handlers run in this main thread, as in a program of their own. The agent stops
 * a blocking handler with a signal.
 */
import { Socket } from 'node:net';
import { Worker } from 'node:worker_threads';

import { assertNever } from '../../../../lib/errors.ts';
import { FrameReader, FrameWriter } from '../../frames.ts';
import { AttemptProcesses } from '../../hosted/attempt-processes.ts';
import { sendMessage } from '../../hosted/message-frames.ts';
import { CHANNEL_FD, type FromThread, type LoadSpec, type ToHost } from '../../host-protocol.ts';
import { enterWorkFolder } from '../../work-folder.ts';
import { HttpFunctions } from '../../thread/host/http/functions.ts';
import { findOpenTelemetry } from '../../thread/host/call/current-trace.ts';
import { choiceOf, type Choose } from '../../thread/host/methods.ts';
import { loadHandler } from '../../thread/host/call/module.ts';
import { errorMessage, errorStack } from '../../thread/host/call/output.ts';
import { onCulprit } from '../../thread/host/call/stopping.ts';
import { runTask, onlyRunningJob, type TaskControl } from '../../thread/host/task.ts';
import { captureOutput, type OutputCapture } from '../../thread/host/call/thread-output.ts';
import { loadTranspilerWhenIdle } from '../../thread/host/transpiler.ts';
import { claim, newClaims } from './claims.ts';
import { writeEntry } from './entries.ts';

interface Loaded {
  /** Ends those of stopped attempts; undefined where several attempts run at a time. */
  readonly processes: AttemptProcesses | undefined;
  readonly endpointId: string;
  readonly choose: Choose;
  readonly output: OutputCapture;
}

const socket = new Socket({ fd: CHANNEL_FD, readable: true, writable: true });
let flushChannel: (() => void) | undefined;
const channel = new FrameWriter(socket, (flush) => {
  flushChannel = flush;
  setImmediate(flush);
});
const running = new Map<string, TaskControl>();
let loaded: Loaded | undefined;
let http: HttpFunctions | undefined;

const claims = newClaims();
const lifeline = new Worker(new URL('./lifeline.ts', import.meta.url), { stdin: false, env: {}, argv: [], workerData: claims });
lifeline.unref();
const reader = new FrameReader<ToHost>({ onFrame });
socket.on('data', (data) => reader.push(data));
socket.on('close', killGroup);
socket.on('error', killGroup);
process.on('uncaughtException', died);
onCulprit((key) => post({ t: 'culprit', key }));
// The last output of a handler that calls process.exit() is still corked.
process.on('exit', () => flushChannel?.());
post({ t: 'up' });
const hasOrder = loadTranspilerWhenIdle();

function onFrame(frame: ToHost, body: Buffer): void {
  switch (frame.t) {
    case 'load':
      hasOrder();
      // oxlint-disable-next-line node/no-process-env -- the environment is what user code gets, not configuration of ours
      Object.assign(process.env, frame.env);
      enterWorkFolder(frame.workFolder, frame.folder);
      void load(frame);
      break;
    case 'run':
      if (loaded !== undefined && claim(claims, frame.no)) run(loaded, frame, body);
      break;
    case 'cancel': {
      const control = running.get(frame.key);
      control?.abort.abort(new DOMException('the job was stopped', 'AbortError'));
      control?.wake?.();
      break;
    }
    case 'recall':
      // For thread hosts: the lifeline's thread is told.
      break;
    case 'credit': {
      const control = running.get(frame.key);
      if (control === undefined) break;
      control.credits += frame.count;
      control.wake?.();
      break;
    }
    case 'http':
    case 'http-body':
    case 'http-credit':
    case 'http-abort':
      // A copy: the frame's buffer is shared with the frames around it.
      http?.onFrame(frame, new Uint8Array(body));
      break;
    default:
      assertNever(frame);
  }
}

async function load(order: LoadSpec): Promise<void> {
  const output = captureOutput(
    () => onlyRunningJob(running),
    (stream, jobId, text) => {
      post({ t: 'log', stream, jobId, text });
      // As a program's own output does, it survives whatever the handler does next.
      flushChannel?.();
    },
  );
  try {
    if (order.httpFunctions.length > 0) {
      http = await HttpFunctions.load(order, output, post);
      post({ t: 'loaded' });
      return;
    }
    const handler = await loadHandler(order.folder, order.function.module, order.function.name);
    findOpenTelemetry(order.folder);
    loaded = { processes: AttemptProcesses.of(order), endpointId: order.endpointId, output, choose: choiceOf(handler, order.function) };
    post({ t: 'loaded' });
  } catch (error) {
    output.text('stderr', errorStack(error));
    output.flush();
    post({ t: 'load-failed', detail: errorMessage(error) });
  }
}

function run(module: Loaded, frame: Extract<ToHost, { t: 'run' }>, body: Buffer): void {
  const { key, no, jobId, attempt, s3Config, trace } = frame;
  const control: TaskControl = { jobId, abort: new AbortController(), credits: 0, wake: undefined };
  running.set(key, control);
  module.processes?.begin();
  // A copy: the frame's buffer is shared with the frames around it.
  const order = { key, no, jobId, attempt, s3Config, trace, input: new Uint8Array(body) };
  void runTask(order, control, { ...module, enter: writeEntry }, (message) => postOf(module, message)).then(() => running.delete(key));
}

/** What a stopped attempt left behind ends before the next one begins. */
function postOf({ processes }: Loaded, message: FromThread): void {
  if (message.t !== 'stopped' || processes === undefined) {
    post(message);
    return;
  }
  post({ t: 'clearing', key: message.key });
  void processes.end().then(() => post(message));
}

function post(message: Parameters<typeof sendMessage>[0]): void {
  sendMessage(message, (header, body) => channel.send(header, body));
}

/** An uncaught error: the worker is unusable from now on. */
function died(error: unknown): void {
  post({ t: 'log', stream: 'stderr', jobId: onlyRunningJob(running), text: `${errorStack(error)}\n` });
  post({ t: 'died', detail: errorMessage(error) });
  process.exit(1);
}

/** This process leads its group: everything its handlers started ends with it. */
function killGroup(): void {
  process.kill(-process.pid, 'SIGKILL');
}
