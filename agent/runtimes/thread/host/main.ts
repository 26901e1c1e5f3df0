/**
 * A thread host: the process of one worker. This main thread supervises and never runs user code, so it always receives
 * the agent's messages; the handlers run in one piscina thread. The agent's channel is file descriptor 3; when it
 * closes, the agent is gone and this process group ends completely.
 */
import { Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import { MessageChannel, receiveMessageOnPort, SHARE_ENV, type MessagePort } from 'node:worker_threads';

import { Piscina } from 'piscina';

import { assertNever } from '../../../../lib/errors.ts';
import { FrameReader, FrameWriter } from '../../frames.ts';
import { afterGrace } from '../../grace.ts';
import { STOP_GRACE_MS } from '../../runtime.ts';
import { AttemptProcesses } from '../../hosted/attempt-processes.ts';
import { enterWorkFolder } from '../../work-folder.ts';
import { sendMessage } from '../../hosted/message-frames.ts';
import { CHANNEL_FD, type LoadSpec, type ToHost, type ToThread } from '../../host-protocol.ts';
import type { ThreadMessage, ThreadSpec } from './handler-thread.ts';
import { FramePoster, postedFrames } from './http/posted-frames.ts';
import { errorMessage } from './call/output.ts';

/** More than any worker's concurrency: the agent counts slots, so piscina's limit is not needed. */
const TASKS_AT_ONCE = 4_096;

const socket = new Socket({ fd: CHANNEL_FD, readable: true, writable: true });
const channel = new FrameWriter(socket, setImmediate);
/** The tasks, each with its claim (handler-thread.ts). */
const running = new Map<string, Int32Array>();
/** Functions that cancel a forced stop, by task. */
const graces = new Map<string, () => void>();
let pool = newPool();
let port: MessagePort | undefined;
let order: LoadSpec | undefined;
/** Ends those of stopped attempts; undefined where several attempts run at a time. */
let processes: AttemptProcesses | undefined;
let stopping = false;
/** How often the module was reloaded. */
let life = 0;

const httpFrames = new FramePoster((message, transfer) => port?.postMessage(message, transfer));
const reader = new FrameReader<ToHost>({ onFrame });
socket.on('data', (data) => {
  reader.push(data);
  httpFrames.flush();
});
socket.on('close', killGroup);
socket.on('error', killGroup);
say({ t: 'up' });

function onFrame(frame: ToHost, body: Buffer, text: string): void {
  switch (frame.t) {
    case 'load':
      // Set before the thread reads it: the thread shares this environment, native code included.
      // oxlint-disable-next-line node/no-process-env -- the environment is what user code gets, not configuration of ours
      Object.assign(process.env, frame.env);
      enterWorkFolder(frame.workFolder, frame.folder);
      order = {
        folder: frame.folder,
        workFolder: frame.workFolder,
        function: frame.function,
        httpFunctions: frame.httpFunctions,
        endpointId: frame.endpointId,
        maxConcurrency: frame.maxConcurrency,
        processScope: frame.processScope,
      };
      processes = AttemptProcesses.of(order);
      load(order);
      break;
    case 'run': {
      if (frame.life !== life) break;
      processes?.begin();
      const input = new Uint8Array(body);
      const { key, no, jobId, attempt, s3Config, trace } = frame;
      const claim = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
      running.set(key, claim);
      runInPool({ kind: 'run', key, no, jobId, attempt, s3Config, trace, input, claim }, [input.buffer]);
      break;
    }
    case 'cancel':
      if (running.has(frame.key)) cancel(frame.key);
      break;
    case 'recall': {
      // The handler thread may be blocked: this thread decides.
      const claim = running.get(frame.key);
      if (claim === undefined || Atomics.compareExchange(claim, 0, 0, 1) !== 0) break;
      ended(frame.key);
      say({ t: 'stopped', key: frame.key, ms: 0, entered: false });
      break;
    }
    case 'credit':
      tellThread({ t: 'credit', key: frame.key, count: frame.count });
      break;
    case 'http':
      if (frame.life === life) httpFrames.add(text, body, false);
      break;
    case 'http-body':
    case 'http-credit':
    case 'http-abort':
      httpFrames.add(text, body, false);
      break;
    default:
      assertNever(frame);
  }
}

function newPool(): Piscina {
  const made = new Piscina({
    filename: fileURLToPath(new URL('./handler-thread.ts', import.meta.url)),
    name: 'handle',
    minThreads: 1,
    maxThreads: 1,
    concurrentTasksPerWorker: TASKS_AT_ONCE,
    // The thread's loop must keep running between tasks: user code has its own timers and sockets.
    atomics: 'disabled',
    recordTiming: false,
    env: SHARE_ENV,
  });
  made.on('error', threadDied);
  for (const thread of made.threads) {
    thread.once('error', threadDied);
    thread.once('exit', (code) => threadDied(new Error(`the handler's thread exited with code ${code}`)));
  }
  return made;
}

function load(loadOrder: LoadSpec): void {
  const { port1, port2 } = new MessageChannel();
  port = port1;
  port1.on('message', onThreadMessage);
  runInPool({ kind: 'load', port: port2, ...loadOrder }, [port2]);
}

function runInPool(task: ThreadSpec, transferList: (ArrayBuffer | MessagePort)[]): void {
  // The task itself never fails: a rejection means that its thread is gone.
  pool.run(task, { transferList }).catch(threadDied);
}

function onThreadMessage(message: ThreadMessage): void {
  if (stopping) return;
  if (message.t === 'http-frames') {
    for (const [header, bytes] of postedFrames(message)) channel.sendText(header, bytes);
    return;
  }
  if (message.t === 'returned' || message.t === 'failed' || message.t === 'stopped') {
    ended(message.key);
  }
  if (message.t === 'stopped' && message.entered && processes !== undefined) {
    // What it left behind ends before the next attempt begins.
    say({ t: 'clearing', key: message.key });
    void processes.end().then(() => say(message));
    return;
  }
  sendMessage(message, (header, body) => channel.send(header, body));
}

function ended(key: string): void {
  running.delete(key);
  graces.get(key)?.();
  graces.delete(key);
}

function cancel(key: string): void {
  if (graces.has(key)) return;
  tellThread({ t: 'abort', key });
  graces.set(key, afterGrace(STOP_GRACE_MS, stopHard));
}

/** Ends the handler thread with all its tasks, then loads the module in a new one. */
function stopHard(): void {
  if (stopping || order === undefined) return;
  stopping = true;
  const lastResort = setTimeout(() => {
    say({ t: 'stuck' });
    // The agent kills this group when it reads that message; if it does not, this process does.
    setTimeout(killGroup, STOP_GRACE_MS);
  }, STOP_GRACE_MS);
  void pool.destroy().then(async () => {
    clearTimeout(lastResort);
    if (processes !== undefined) for (const key of running.keys()) say({ t: 'clearing', key });
    await processes?.end();
    for (const cancel of graces.values()) cancel();
    graces.clear();
    running.clear();
    port?.close();
    say({ t: 'reloading' });
    life += 1;
    stopping = false;
    pool = newPool();
    if (order !== undefined) load(order);
  });
}

/**
 * The thread ended unexpectedly: an uncaught error, process.exit(), heap exhausted. The worker is unusable from now on.
 */
function threadDied(error: unknown): void {
  if (stopping) return;
  // Its last messages say which task ended it, and may hold results.
  for (let last = lastMessage(); last !== undefined; last = lastMessage()) onThreadMessage(last);
  stopping = true;
  const stack = error instanceof Error ? (error.stack ?? error.message) : String(error);
  say({ t: 'log', stream: 'stderr', jobId: '', text: `${stack}\n` });
  say({ t: 'died', detail: errorMessage(error) });
  setImmediate(() => {
    socket.end(() => process.exit(1));
  });
}

/** Returns the next message of the handler thread that has arrived. */
function lastMessage(): ThreadMessage | undefined {
  const received = port === undefined ? undefined : receiveMessageOnPort(port);
  return received?.message as ThreadMessage | undefined;
}

function tellThread(message: ToThread): void {
  port?.postMessage(message);
}

function say(message: Parameters<typeof sendMessage>[0]): void {
  sendMessage(message, (header, body) => channel.send(header, body));
}

/** The host leads its process group: everything its handlers started ends with it. */
function killGroup(): void {
  process.kill(-process.pid, 'SIGKILL');
}
