/**
 * Loaded by the bench into each part (`node --import`): profiles its main thread when the bench requests it, over the
 * socket of CAPSTAN_BENCH_PROBE.
 */
import { Session } from 'node:inspector';
import { createConnection } from 'node:net';
import { createInterface } from 'node:readline';

import type { HeapNode, ProfileTree } from './stages.ts';

/** `cpu` and `heap` begin a recording, `usage` reads the processor time of it so far, `stop` ends and returns it. */
export type ProbeCommand = 'cpu' | 'heap' | 'usage' | 'stop';

/** What a process sends: its role at first, then a reply to each command. */
export interface ProbeReply {
  readonly role: string;
  readonly pid: number;
  /** Processor time of the main thread since the recording began, µs. */
  readonly mainUs: number;
  /** Processor time of all threads since then, µs. */
  readonly processUs: number;
  readonly cpu?: ProfileTree;
  readonly heap?: HeapNode;
}

/** Time between two samples of the processor, µs. */
const CPU_INTERVAL_US = 250;
/** Bytes allocated between two samples of the heap. */
const HEAP_INTERVAL_BYTES = 16_384;

const role = process.argv.at(-1) ?? '';
const path = process.env['CAPSTAN_BENCH_PROBE'];

if (path !== undefined && (role === 'gateway' || role === 'scheduler')) serve(path);

function serve(at: string): void {
  const session = new Session();
  session.connect();
  const socket = createConnection(at);
  // The part ends as it would without the bench.
  socket.unref();
  socket.on('error', () => socket.destroy());
  let begun = usage();
  let recording: 'cpu' | 'heap' = 'cpu';
  const send = (found: Pick<ProbeReply, 'cpu' | 'heap'>, now = usage()): void => {
    const reply: ProbeReply = { role, pid: process.pid, mainUs: now.main - begun.main, processUs: now.all - begun.all, ...found };
    socket.write(`${JSON.stringify(reply)}\n`);
  };
  const post = (method: string, params: object, done: (result: unknown) => void): void => {
    session.post(method, params, (error, result) => {
      if (error !== null) throw new Error(`${method}: ${error.message}`);
      done(result);
    });
  };
  const begin = (what: 'cpu' | 'heap'): void => {
    recording = what;
    begun = usage();
    send({});
  };
  const end = (): void => {
    const now = usage();
    if (recording === 'cpu') post('Profiler.stop', {}, (result) => send({ cpu: (result as { profile: ProfileTree }).profile }, now));
    else post('HeapProfiler.stopSampling', {}, (result) => send({ heap: (result as { profile: { head: HeapNode } }).profile.head }, now));
  };
  post('Profiler.enable', {}, () => undefined);
  post('Profiler.setSamplingInterval', { interval: CPU_INTERVAL_US }, () => undefined);
  createInterface({ input: socket }).on('line', (command) => {
    if (command === 'cpu') post('Profiler.start', {}, () => begin('cpu'));
    else if (command === 'heap') {
      const whole = { includeObjectsCollectedByMajorGC: true, includeObjectsCollectedByMinorGC: true };
      post('HeapProfiler.startSampling', { samplingInterval: HEAP_INTERVAL_BYTES, ...whole }, () => begin('heap'));
    } else if (command === 'usage') send({});
    else end();
  });
  send({});
}

function usage(): { readonly main: number; readonly all: number } {
  const main = process.threadCpuUsage();
  const all = process.cpuUsage();
  return { main: main.user + main.system, all: all.user + all.system };
}
