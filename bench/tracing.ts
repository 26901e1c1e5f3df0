/**
 * What tracing costs: /run with workers consuming, on a stack without tracing and on one that records a tenth of the traces, in turn
 * (off, on, off, on, …, off). Each run with tracing is compared with the mean of the two around it.
 *
 *   node bench/tracing.ts [--rounds 5] [--seconds 5] [--warmup 1] [--connections 64] [--share 0.1]
 *
 * Prints a JSON document. A receiver in a process of its own accepts the spans and drops them.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { parseArgs } from 'node:util';

import { runLoad, type LoadOptions, type LoadResult } from './driver/load.ts';
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

interface Measured extends LoadResult {
  /** Cores used by each part. */
  readonly cores: Readonly<Record<string, number>>;
}

async function measure(stack: Stack, load: LoadOptions): Promise<Measured> {
  const id = endpointOf(stack);
  const headers = { authorization: `Bearer ${stack.apiKey}` };
  const request: PreparedRequest = prepareRequest({ url: `${stack.url}/v2/${id}/run`, headers, body: BODY });
  const before = cpuByRole(stack.pid);
  const begun = performance.now();
  const result = await runLoad(request, load);
  const cores = coresBetween(before, cpuByRole(stack.pid), (performance.now() - begun) / 1000);
  await waitForHealth(stack, id, 'all accepted jobs have ended', ({ jobs }) => jobs.inQueue === 0 && jobs.inProgress === 0);
  return { ...result, cores };
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      rounds: { type: 'string', default: '5' },
      seconds: { type: 'string', default: '5' },
      warmup: { type: 'string', default: '1' },
      connections: { type: 'string', default: '64' },
      share: { type: 'string', default: '0.1' },
    },
  });
  const load = {
    connections: Number(values.connections),
    durationMs: Number(values.seconds) * 1000,
    warmupMs: Number(values.warmup) * 1000,
  };
  const receiver = fork(import.meta.filename, ['receiver']);
  const [url] = (await once(receiver, 'message')) as [string];
  const off = await startStack();
  const on = await startStack(undefined, undefined, {
    OTEL_EXPORTER_OTLP_ENDPOINT: url,
    OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
    OTEL_TRACES_SAMPLER_ARG: values.share,
  });
  try {
    for (const stack of [off, on])
      await waitForHealth(stack, endpointOf(stack), 'a worker is idle', ({ workers }) => workers.idle + workers.running > 0);
    const ratios: number[] = [];
    const rates: { off: number[]; on: number[] } = { off: [], on: [] };
    const cores: Record<string, Record<string, number>> = {};
    let errors = 0;
    const run = async (stack: Stack, to: number[]): Promise<number> => {
      const result = await measure(stack, load);
      errors += result.errors;
      to.push(result.perSecond);
      cores[stack === on ? 'on' : 'off'] = result.cores;
      return result.perSecond;
    };
    let before = await run(off, rates.off);
    for (let round = 1; round <= Number(values.rounds); round += 1) {
      console.error(`=> round ${round} of ${values.rounds}`);
      const traced = await run(on, rates.on);
      const after = await run(off, rates.off);
      ratios.push(traced / ((before + after) / 2));
      before = after;
    }
    receiver.send('bytes');
    const [received] = (await once(receiver, 'message')) as [number];
    const document = {
      ratio: median(ratios),
      ratios,
      offPerSecond: median(rates.off),
      onPerSecond: median(rates.on),
      share: Number(values.share),
      receivedBytes: received,
      cores,
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
