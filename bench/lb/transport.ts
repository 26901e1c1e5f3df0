/**
 * Compares two ways to send load-balanced requests over gRPC from a gateway to an agent that connected to it, without
 * the rest of the service: one stream whose messages carry many numbered requests (as Capstan does), and one waiting
 * stream per request, which ends with its response.
 *
 *   node bench/lb/transport.ts [--seconds 5] [--rounds 3] [--open 64] [--rate 1000]
 *
 * Prints one JSON document: requests per second with `open` at once, processor time of both sides per request, and
 * latency at a fixed rate.
 */
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

import { Server, ServerCredentials, type ServerDuplexStream } from '@grpc/grpc-js';
import { build } from 'hdr-histogram-js';

import {
  InvokeServiceService,
  type Begin,
  type GatewayFrame,
  type InvokeFromAgent,
  type InvokeFromGateway,
  type InvokeServiceServer,
} from '../../proto/gen/capstan/v1/invoke.ts';
import { summarize, type Latency } from '../driver/load.ts';
import { median } from '../figures.ts';
import { cpuByRole } from '../processes.ts';

type Stream = ServerDuplexStream<InvokeFromAgent, InvokeFromGateway>;
type Way = 'multiplexed' | 'stream-per-request';

interface Carrier {
  /** Sends a request. Calls `done` when its response has arrived. */
  send(done: () => void): void;
  readonly accept: (stream: Stream) => void;
}

interface Figures {
  readonly perSecond: number;
  readonly gatewayMicrosPerRequest: number;
  readonly agentMicrosPerRequest: number;
  readonly latency: Latency;
}

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '5' },
    rounds: { type: 'string', default: '3' },
    open: { type: 'string', default: '64' },
    rate: { type: 'string', default: '1000' },
  },
});
const durationMs = Number(values.seconds) * 1000;
const open = Number(values.open);
const perSecond = Number(values.rate);
/** More than are ever in use: a stream that ends is replaced a round trip later. */
const parked = 2 * open;

/** Headers of a small GET that a gateway forwards. */
const BEGIN: Begin = {
  workerId: 'wk-0123456789abcdef',
  function: 'health',
  method: 'GET',
  target: '/health',
  headers: [
    { name: 'host', value: 'ep-0123456789abcdef.lb.localhost' },
    { name: 'x-forwarded-for', value: '127.0.0.1' },
    { name: 'x-forwarded-proto', value: 'http' },
    { name: 'x-forwarded-host', value: 'ep-0123456789abcdef.lb.localhost' },
    { name: 'x-request-id', value: 'ep-0123456789abcdef-1' },
  ],
  scheme: 'http',
  authority: 'ep-0123456789abcdef.lb.localhost',
  pathValues: {},
  body: Buffer.alloc(0),
  ended: true,
  timeoutMs: 330_000,
  upgrade: false,
};

function beginOf(request: number): GatewayFrame {
  return { request, frame: { $case: 'begin', value: BEGIN } };
}

function multiplexed(): Carrier {
  const waiting = new Map<number, () => void>();
  let stream: Stream | undefined;
  let frames: GatewayFrame[] = [];
  let next = 1;
  return {
    accept(call) {
      stream = call;
      call.on('data', (message: InvokeFromAgent) => {
        for (const { request } of message.frames) {
          waiting.get(request)?.();
          waiting.delete(request);
        }
      });
    },
    send(done) {
      const request = next++;
      waiting.set(request, done);
      if (frames.length === 0) {
        setImmediate(() => {
          stream?.write({ frames });
          frames = [];
        });
      }
      frames.push(beginOf(request));
    },
  };
}

function streamPerRequest(): Carrier {
  const free: Stream[] = [];
  const waiting: (() => void)[] = [];
  const give = (stream: Stream, done: () => void): void => {
    stream.on('data', (message: InvokeFromAgent) => {
      if (message.frames.length > 0) done();
    });
    stream.once('end', () => stream.end());
    stream.write({ frames: [beginOf(1)] });
  };
  return {
    accept(call) {
      const done = waiting.shift();
      if (done === undefined) free.push(call);
      else give(call, done);
    },
    send(done) {
      const stream = free.pop();
      if (stream === undefined) waiting.push(done);
      else give(stream, done);
    },
  };
}

async function pause(ms: number): Promise<void> {
  await new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}

/** Closed loop: the allowed number of requests is always open. */
async function throughput(carrier: Carrier, agent: ChildProcess): Promise<Omit<Figures, 'latency'>> {
  let answers = 0;
  let stopped = false;
  const again = (): void => {
    answers += 1;
    if (!stopped) carrier.send(again);
  };
  for (let n = 0; n < open; n += 1) carrier.send(again);
  await pause(1_000);
  const before = { answers, own: process.cpuUsage(), agent: secondsOf(agent), at: performance.now() };
  await pause(durationMs);
  const done = answers - before.answers;
  const own = process.cpuUsage(before.own);
  const used = secondsOf(agent) - before.agent;
  const seconds = (performance.now() - before.at) / 1000;
  stopped = true;
  return { perSecond: done / seconds, gatewayMicrosPerRequest: (own.user + own.system) / done, agentMicrosPerRequest: (used * 1e6) / done };
}

/** Open loop: each request starts at its scheduled time, and its latency counts from that time. */
async function paced(carrier: Carrier): Promise<Latency> {
  const histogram = build({ highestTrackableValue: 600_000_000, numberOfSignificantValueDigits: 3 });
  const start = performance.now();
  let sent = 0;
  for (let now = 0; now < durationMs; now = performance.now() - start) {
    for (; (sent * 1000) / perSecond <= now; sent += 1) {
      const dueAt = start + (sent * 1000) / perSecond;
      carrier.send(() => histogram.recordValue(Math.max(1, Math.round((performance.now() - dueAt) * 1000))));
    }
    await pause(1);
  }
  await pause(500);
  return summarize(histogram);
}

function secondsOf(child: ChildProcess): number {
  return [...cpuByRole(child.pid ?? 0).values()].reduce((sum, seconds) => sum + seconds, 0);
}

async function measure(way: Way): Promise<Figures> {
  const carrier = way === 'multiplexed' ? multiplexed() : streamPerRequest();
  const server = new Server({ 'grpc-node.flow_control_window': 8 * 1024 * 1024 });
  const first = Promise.withResolvers<void>();
  const invoke = (call: Stream): void => {
    call.on('error', () => undefined);
    carrier.accept(call);
    first.resolve();
  };
  server.addService(InvokeServiceService, { invoke } satisfies InvokeServiceServer);
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) => {
      if (error === null) resolve(bound);
      else reject(error);
    });
  });
  const agent = fork(join(import.meta.dirname, 'transport/agent.ts'), [`127.0.0.1:${port}`, way, String(parked)]);
  await first.promise;
  await pause(500);
  const rate = await throughput(carrier, agent);
  const latency = await paced(carrier);
  const gone = once(agent, 'exit');
  agent.disconnect();
  await gone;
  server.forceShutdown();
  return { ...rate, latency };
}

const rounds: Record<Way, Figures[]> = { multiplexed: [], 'stream-per-request': [] };
for (let n = 0; n < Number(values.rounds); n += 1)
  for (const way of Object.keys(rounds) as Way[]) {
    rounds[way].push(await measure(way));
    console.error(`=> ${way}: ${Math.round(rounds[way].at(-1)?.perSecond ?? 0)}/s`);
  }
const figures = Object.entries(rounds).map(([way, all]) => {
  const middle = (of: (one: Figures) => number): number => median(all.map(of));
  return [
    way,
    {
      perSecond: middle((one) => one.perSecond),
      gatewayMicrosPerRequest: middle((one) => one.gatewayMicrosPerRequest),
      agentMicrosPerRequest: middle((one) => one.agentMicrosPerRequest),
      p50Ms: middle((one) => one.latency.p50),
      p95Ms: middle((one) => one.latency.p95),
    },
  ];
});
console.log(JSON.stringify({ open, rate: perSecond, ...Object.fromEntries(figures), rounds }, null, 2));
