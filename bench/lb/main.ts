/**
 * Load-balanced requests against the same handler behind a bare fastify, in turns within one run:
 *
 *   node bench/lb/main.ts [--rounds 3] [--seconds 5] [--warmup 1] [--connections 64] [--rate 1000]
 *
 * Prints one JSON document; exits with 1 when any answer was an error.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

import { median } from '../figures.ts';
import { runLoad, type Latency } from '../driver/load.ts';
import { runPaced, type PacedResult } from '../driver/paced.ts';
import { prepareRequest, type PreparedRequest } from '../driver/request.ts';
import { startStack } from '../stack.ts';

interface Round {
  readonly ratio: number;
  readonly barePerSecond: number;
  readonly lbPerSecond: number;
  readonly addedP50Ms: number;
  readonly addedP95Ms: number;
  readonly bareLatency: Latency;
  readonly lbLatency: Latency;
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
    const lbRate = await throughput(subjects.lb);
    const barePaced = await paced(subjects.bare);
    const lbPaced = await paced(subjects.lb);
    rounds.push({
      ratio: lbRate.perSecond / bareRate.perSecond,
      barePerSecond: bareRate.perSecond,
      lbPerSecond: lbRate.perSecond,
      addedP50Ms: lbPaced.latency.p50 - barePaced.latency.p50,
      addedP95Ms: lbPaced.latency.p95 - barePaced.latency.p95,
      bareLatency: barePaced.latency,
      lbLatency: lbPaced.latency,
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
