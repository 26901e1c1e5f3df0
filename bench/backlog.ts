/**
 * Measures the cost of a million waiting jobs for the scheduler: a queue without workers. Runs the real service with
 * jobs over HTTP. Prints one JSON document.
 *
 *   node bench/backlog.ts --jobs 1000000 --bytes 1024 --connections 64 --seconds 5 --settle 15
 *
 * `--seconds`: duration of each load, after which the queue is counted; `--settle`: pause before memory is read again.
 */
import { parseArgs } from 'node:util';
import { setTimeout as pause } from 'node:timers/promises';

import { runLoad } from './driver/load.ts';
import { prepareRequest } from './driver/request.ts';
import { processOf, residentOf } from './processes.ts';
import { healthOf, startStack } from './stack.ts';

const { values } = parseArgs({
  options: {
    jobs: { type: 'string', default: '1000000' },
    bytes: { type: 'string', default: '1024' },
    connections: { type: 'string', default: '64' },
    seconds: { type: 'string', default: '5' },
    settle: { type: 'string', default: '15' },
    folder: { type: 'string' },
  },
});
const wanted = Number(values.jobs);
const connections = Number(values.connections);
const MIB = 1024 * 1024;
const mib = (bytes: number): number => Math.round(bytes / MIB);

const stack = await startStack(values.folder);
try {
  const endpoint = stack.endpoints.get('bench-parked') ?? '';
  const scheduler = (): number => {
    const pid = processOf(stack.pid, 'scheduler');
    if (pid === null) throw new Error('the scheduler is not running');
    return pid;
  };
  const queued = async (): Promise<number> => (await healthOf(stack, endpoint)).jobs.inQueue;
  const request = prepareRequest({
    url: `${stack.url}/v2/${endpoint}/run`,
    headers: { authorization: `Bearer ${stack.apiKey}` },
    body: JSON.stringify({ input: { text: 'x'.repeat(Number(values.bytes)) } }),
  });
  const rates: { readonly queued: number; readonly perSecond: number; readonly residentMiB: number }[] = [];
  let errors = 0;
  let examples: Readonly<Record<string, string>> = {};
  const empty = mib(residentOf(scheduler()).now);
  for (let count = 0; count < wanted;) {
    const result = await runLoad(request, { connections, durationMs: Number(values.seconds) * 1_000, warmupMs: 0 });
    errors += result.errors;
    examples = { ...examples, ...result.examples };
    count = await queued();
    rates.push({ queued: count, perSecond: Math.round(result.perSecond), residentMiB: mib(residentOf(scheduler()).now) });
    console.error(`=> ${count} queued, ${Math.round(result.perSecond)}/s`);
    if (result.answers === 0) break;
  }
  const filled = residentOf(scheduler());
  await pause(Number(values.settle) * 1_000);
  const settled = residentOf(scheduler());

  // The supervisor restarts it. It serves once it has loaded its queue.
  const before = scheduler();
  const killedAt = performance.now();
  process.kill(before, 'SIGKILL');
  const count = await served(queued, before, scheduler);
  const restartMs = Math.round(performance.now() - killedAt);
  const document = {
    jobs: count,
    inputBytes: Number(values.bytes),
    residentMiB: {
      empty,
      filled: mib(filled.now),
      most: mib(filled.most),
      settled: mib(settled.now),
      restarted: mib(residentOf(scheduler()).now),
    },
    restartMs,
    rates: { first: rates[0], last: rates.at(-1) },
    errors,
    examples,
  };
  console.log(JSON.stringify(document, null, 2));
  if (errors > 0) process.exitCode = 1;
} finally {
  await stack.close();
}

/** Polls until the new scheduler responds. Returns the number of its jobs. */
async function served(queued: () => Promise<number>, before: number, scheduler: () => number): Promise<number> {
  const deadline = performance.now() + 120_000;
  for (;;) {
    try {
      const count = await queued();
      if (scheduler() !== before) return count;
    } catch (error) {
      // The scheduler is down for a moment: this is the measured time.
      if (performance.now() > deadline) throw error;
    }
    await pause(20);
  }
}
