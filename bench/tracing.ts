/**
 * What tracing costs: /run with workers consuming, on a stack without tracing and on one that records a tenth of the traces. Each round
 * runs both for a short time, in the order off, on, on, off, off, on, …, so that what changes slowly on the machine meets both alike;
 * the figures are medians of the rounds' ratios, with the least, the quartiles and the most. The ratio of the processor time that a
 * request costs in all parts is steadier than that of the rates.
 *
 *   node bench/tracing.ts [--rounds 20] [--seconds 1.5] [--warmup 0.3] [--connections 64] [--share 0.1] [--control]
 *
 * `--control`: neither stack traces; the spread is that of the machine. Prints a JSON document. A receiver in a process of its own
 * accepts the spans and drops them.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { parseArgs } from 'node:util';

import { runLoad, type LoadOptions } from './driver/load.ts';
import { prepareRequest, type PreparedRequest } from './driver/request.ts';
import { median } from './figures.ts';
import { coresBetween, cpuByRole } from './processes.ts';
import { startStack, waitForHealth, type Stack } from './stack.ts';

const BODY = JSON.stringify({ input: { text: 'x'.repeat(170), n: 1 } });

/** Accepts spans; tells its parent the address, and on each message how many bytes it has received. */
function receive(): void {
  let bytes = 0;
  const server = createServer((request, response) => {
    request.on('data', (part: Buffer) => (bytes += part.length));
    request.on('end', () => response.end());
  });
  server.listen(0, '127.0.0.1', () => process.send?.(`http://127.0.0.1:${(server.address() as AddressInfo).port}`));
  process.on('message', () => process.send?.(bytes));
  process.once('disconnect', () => process.exit(0));
}

function endpointOf(stack: Stack): string {
  const id = stack.endpoints.get('bench-noop');
  if (id === undefined) throw new Error('the stack has no endpoint bench-noop');
  return id;
}

interface Measured {
  readonly perSecond: number;
  readonly errors: number;
  /** Processor time of each part for a request and its job, microseconds; empty where the system does not report it. */
  readonly processorUs: Readonly<Record<string, number>>;
}

async function measure(stack: Stack, load: LoadOptions): Promise<Measured> {
  const id = endpointOf(stack);
  const headers = { authorization: `Bearer ${stack.apiKey}` };
  const request: PreparedRequest = prepareRequest({ url: `${stack.url}/v2/${id}/run`, headers, body: BODY });
  const before = cpuByRole(stack.pid);
  const { perSecond, errors, sent } = await runLoad(request, load);
  await waitForHealth(stack, id, 'all accepted jobs have ended', ({ jobs }) => jobs.inQueue === 0 && jobs.inProgress === 0);
  const used = coresBetween(before, cpuByRole(stack.pid), sent);
  return { perSecond, errors, processorUs: Object.fromEntries(Object.entries(used).map(([role, seconds]) => [role, seconds * 1e6])) };
}

/** A median with its spread. */
interface Spread {
  readonly ratio: number;
  readonly least: number;
  readonly lowerQuartile: number;
  readonly upperQuartile: number;
  readonly most: number;
  readonly ratios: readonly number[];
}

function spreadOf(ratios: readonly number[]): Spread {
  const sorted = [...ratios].sort((left, right) => left - right);
  const half = Math.ceil(sorted.length / 2);
  return {
    ratio: median(sorted),
    least: Math.min(...sorted),
    lowerQuartile: median(sorted.slice(0, half)),
    upperQuartile: median(sorted.slice(-half)),
    most: Math.max(...sorted),
    ratios,
  };
}

const totalOf = ({ processorUs }: Measured): number => Object.values(processorUs).reduce((sum, us) => sum + us, 0);

function processorTime(all: readonly Measured[]): Record<string, number> {
  const roles = [...new Set(all.flatMap(({ processorUs }) => Object.keys(processorUs)))];
  return Object.fromEntries(roles.map((role) => [role, median(all.map(({ processorUs }) => processorUs[role] ?? 0))]));
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      rounds: { type: 'string', default: '20' },
      seconds: { type: 'string', default: '1.5' },
      warmup: { type: 'string', default: '0.3' },
      connections: { type: 'string', default: '64' },
      share: { type: 'string', default: '0.1' },
      control: { type: 'boolean', default: false },
    },
  });
  const load = {
    connections: Number(values.connections),
    durationMs: Number(values.seconds) * 1000,
    warmupMs: Number(values.warmup) * 1000,
  };
  const receiver = fork(import.meta.filename, ['receiver']);
  const [url] = (await once(receiver, 'message')) as [string];
  const tracing = {
    OTEL_EXPORTER_OTLP_ENDPOINT: url,
    OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
    OTEL_TRACES_SAMPLER_ARG: values.share,
  };
  const off = await startStack();
  const on = await startStack(undefined, undefined, values.control ? {} : tracing);
  try {
    const runs: { readonly off: Measured[]; readonly on: Measured[] } = { off: [], on: [] };
    for (const stack of [off, on]) {
      await waitForHealth(stack, endpointOf(stack), 'a worker is idle', ({ workers }) => workers.idle + workers.running > 0);
      // Code that is not compiled yet is another subject.
      await measure(stack, load);
    }
    for (let round = 1; round <= Number(values.rounds); round += 1) {
      console.error(`=> round ${round} of ${values.rounds}`);
      const order = round % 2 === 1 ? (['off', 'on'] as const) : (['on', 'off'] as const);
      for (const which of order) runs[which].push(await measure(which === 'on' ? on : off, load));
    }
    receiver.send('bytes');
    const [received] = (await once(receiver, 'message')) as [number];
    const ratiosOf = (figure: (run: Measured) => number): number[] =>
      runs.on.map((run, index) => figure(run) / figure(runs.off[index] as Measured));
    const errors = [...runs.off, ...runs.on].reduce((sum, run) => sum + run.errors, 0);
    const document = {
      rate: spreadOf(ratiosOf(({ perSecond }) => perSecond)),
      processorTime: spreadOf(ratiosOf(totalOf)),
      offPerSecond: median(runs.off.map(({ perSecond }) => perSecond)),
      onPerSecond: median(runs.on.map(({ perSecond }) => perSecond)),
      processorUs: { off: processorTime(runs.off), on: processorTime(runs.on) },
      share: values.control ? 0 : Number(values.share),
      receivedBytes: received,
      errors,
    };
    console.log(JSON.stringify(document, null, 2));
    if (errors > 0) process.exitCode = 1;
  } finally {
    receiver.disconnect();
    await Promise.all([off.close(), on.close()]);
  }
}

if (process.argv[2] === 'receiver') receive();
else await main();
