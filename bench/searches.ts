/**
 * Measures what searches do to submissions: POST /run at a fixed rate, alone and beside searches of the endpoint's jobs that look at
 * 2,000 jobs each, in turns. Runs the real service over HTTP. Prints one JSON document.
 *
 *   node bench/searches.ts --jobs 200000 --searches 50 --rate 50 --seconds 20 --rounds 3
 *
 * `--searches`: GraphQL requests that are open at any time; `--seconds`: of each half of a round.
 */
import { loadavg } from 'node:os';
import { parseArgs } from 'node:util';

import type { Latency } from './driver/load.ts';
import { runLoad } from './driver/load.ts';
import { runPaced } from './driver/paced.ts';
import { prepareRequest } from './driver/request.ts';
import { coresBetween, cpuByRole } from './processes.ts';
import { healthOf, startStack } from './stack.ts';

const { values } = parseArgs({
  options: {
    jobs: { type: 'string', default: '200000' },
    searches: { type: 'string', default: '50' },
    rate: { type: 'string', default: '50' },
    seconds: { type: 'string', default: '20' },
    rounds: { type: 'string', default: '3' },
    folder: { type: 'string' },
    store: { type: 'string', default: '' },
  },
});
const wanted = Number(values.jobs);
const searches = Number(values.searches);
const rate = Number(values.rate);
const durationMs = Number(values.seconds) * 1_000;
/** Jobs are submitted in loads of this length until there are enough, ms. */
const FILL_MS = 2_000;
const FILL_CONNECTIONS = 64;
const WARMUP_MS = 1_000;

const stack = await startStack(values.folder, undefined, values.store === '' ? {} : { CAPSTAN_STORE: values.store });
try {
  const endpoint = stack.endpoints.get('bench-parked') ?? '';
  const headers = { authorization: `Bearer ${stack.apiKey}` };
  const submission = prepareRequest({
    url: `${stack.url}/v2/${endpoint}/run`,
    headers,
    body: JSON.stringify({ input: { text: 'x'.repeat(200) } }),
  });
  // Matches no job, so that every search looks at as many as it may, with their inputs.
  const search = prepareRequest({
    url: `${stack.url}/graphql`,
    headers,
    body: JSON.stringify({ query: `{ jobs(endpoint: "${endpoint}", filter: { text: "no job has this" }, limit: 100) { cursor } }` }),
  });
  let errors = 0;
  for (let queued = 0; queued < wanted;) {
    const filled = await runLoad(submission, { connections: FILL_CONNECTIONS, durationMs: Math.min(FILL_MS, durationMs), warmupMs: 0 });
    errors += filled.errors;
    queued = (await healthOf(stack, endpoint)).jobs.inQueue;
    console.error(`=> ${queued} jobs`);
  }

  const rounds: object[] = [];
  for (let round = 1; round <= Number(values.rounds); round++) {
    const alone = await measured(stack.pid, () => runPaced(submission, rate, durationMs, WARMUP_MS));
    const floods = runLoad(search, { connections: searches, durationMs: durationMs + WARMUP_MS, warmupMs: 0 });
    const beside = await measured(stack.pid, () => runPaced(submission, rate, durationMs, WARMUP_MS));
    const { perSecond, errors: failed, examples } = await floods;
    errors += alone.result.errors + beside.result.errors + failed;
    const ratio = Math.round((beside.result.latency.p99 / alone.result.latency.p99) * 100) / 100;
    const figures = {
      alone: shown(alone),
      beside: { ...shown(beside), searchesPerSecond: Math.round(perSecond * 10) / 10 },
      p99Ratio: ratio,
    };
    console.error(`=> round ${round}: p99 ${figures.alone.p99} ms alone, ${figures.beside.p99} ms beside searches`);
    rounds.push({ ...figures, ...(failed === 0 ? {} : { examples }) });
  }
  console.log(JSON.stringify({ bench: 'searches', jobs: wanted, searches, rate, rounds, errors, targetP99Ratio: 2 }, null, 2));
  if (errors > 0) process.exitCode = 1;
} finally {
  await stack.close();
}

interface Measured {
  readonly result: { readonly latency: Latency; readonly errors: number };
  readonly schedulerCores: number;
  readonly load: number;
}

async function measured(pid: number, run: () => Promise<{ readonly latency: Latency; readonly errors: number }>): Promise<Measured> {
  const before = cpuByRole(pid);
  const from = performance.now();
  const result = await run();
  const cores = coresBetween(before, cpuByRole(pid), (performance.now() - from) / 1_000);
  return { result, schedulerCores: cores['scheduler'] ?? 0, load: loadavg()[0] ?? 0 };
}

function shown({ result, schedulerCores, load }: Measured): {
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
  readonly schedulerCores: number;
  readonly load: number;
} {
  const { p50, p99, max } = result.latency;
  return { p50, p99, max, schedulerCores: Math.round(schedulerCores * 100) / 100, load: Math.round(load * 10) / 10 };
}
