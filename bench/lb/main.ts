/**
 * Load-balanced requests against the same handler behind a bare fastify server, in turns within one run:
 *
 *   node bench/lb/main.ts [--rounds 3] [--seconds 5] [--warmup 1] [--connections 64] [--rate 1000]
 *
 * Prints one JSON document. Exits with 1 if any response was an error. Latency counts from the scheduled time of a
 * request, so it includes the driver's own delay (`driverLate`) for both subjects. `micros` is the processor time of
 * each part per request, the figure that other programs on the machine affect least.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

import { median } from '../figures.ts';
import { coresBetween, cpuByRole } from '../processes.ts';
import { runLoad, type Latency } from '../driver/load.ts';
import { runPaced, type PacedResult } from '../driver/paced.ts';
import { prepareRequest, type PreparedRequest } from '../driver/request.ts';
import { startStack } from '../stack.ts';

/** Processor time per request by process role, microseconds. */
type Micros = Readonly<Record<string, number>>;

interface Round {
  readonly ratio: number;
  readonly barePerSecond: number;
  readonly lbPerSecond: number;
  readonly addedP50Ms: number;
  readonly addedP95Ms: number;
  readonly bareLatency: Latency;
  readonly lbLatency: Latency;
  /** Delay with which the driver sent its requests. */
  readonly driverLate: { readonly bare: Latency; readonly lb: Latency };
  readonly micros: { readonly full: Micros; readonly paced: Micros };
  readonly errors: number;
}

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '5' },
    warmup: { type: 'string', default: '1' },
    connections: { type: 'string', default: '64' },
    rate: { type: 'string', default: '1000' },
  },
});
const durationMs = Number(values.seconds) * 1000;
const warmupMs = Number(values.warmup) * 1000;
const connections = Number(values.connections);

/**
 * Runs a load. Returns the processor time of each part of the stack per request, including the requests of the warm-up.
 */
async function costOf<T extends { readonly sent: number }>(pid: number, load: () => Promise<T>): Promise<{ result: T; micros: Micros }> {
  const before = cpuByRole(pid);
  const result = await load();
  return { result, micros: coresBetween(before, cpuByRole(pid), result.sent / 1e6) };
}

const bare = fork(join(import.meta.dirname, 'bare.ts'), { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
const [{ url: bareUrl }] = (await once(bare, 'message')) as [{ url: string }];
const stack = await startStack(undefined, join(import.meta.dirname, 'app'));
try {
  const id = stack.endpoints.get('lb-bench') ?? '';
  const headers = { host: `${id}.lb.localhost`, authorization: `Bearer ${stack.apiKey}` };
  const subjects = {
    bare: prepareRequest({ url: `${bareUrl}/health` }),
    lb: prepareRequest({ url: `${stack.url}/health`, headers }),
  };
  const first = await fetch(`${stack.url}/lb/${id}/health`, { headers: { authorization: headers.authorization } });
  if (!first.ok) throw new Error(`the endpoint answered ${first.status}: ${await first.text()}`);

  const rounds: Round[] = [];
  for (let n = 0; n < Number(values.rounds); n += 1) {
    const throughput = async (request: PreparedRequest) => runLoad(request, { connections, durationMs, warmupMs });
    const paced = async (request: PreparedRequest): Promise<PacedResult> => runPaced(request, Number(values.rate), durationMs, warmupMs);
    const bareRate = await throughput(subjects.bare);
    const { result: lbRate, micros: full } = await costOf(stack.pid, async () => throughput(subjects.lb));
    const barePaced = await paced(subjects.bare);
    const { result: lbPaced, micros: slow } = await costOf(stack.pid, async () => paced(subjects.lb));
    rounds.push({
      ratio: lbRate.perSecond / bareRate.perSecond,
      barePerSecond: bareRate.perSecond,
      lbPerSecond: lbRate.perSecond,
      addedP50Ms: lbPaced.latency.p50 - barePaced.latency.p50,
      addedP95Ms: lbPaced.latency.p95 - barePaced.latency.p95,
      bareLatency: barePaced.latency,
      lbLatency: lbPaced.latency,
      driverLate: { bare: barePaced.late, lb: lbPaced.late },
      micros: { full, paced: slow },
      errors: bareRate.errors + lbRate.errors + barePaced.errors + lbPaced.errors,
    });
  }
  const middle = (figure: 'ratio' | 'addedP50Ms' | 'addedP95Ms'): number => median(rounds.map((round) => round[figure]));
  const errors = rounds.reduce((sum, round) => sum + round.errors, 0);
  console.log(
    JSON.stringify({ ratio: middle('ratio'), addedP50Ms: middle('addedP50Ms'), addedP95Ms: middle('addedP95Ms'), errors, rounds }, null, 2),
  );
  if (errors > 0) process.exitCode = 1;
} finally {
  await stack.close();
  bare.kill('SIGTERM');
  await once(bare, 'exit');
}
