/**
 * POST /run through the gateway alone (with a scheduler that replies at once) against a bare fastify echo with the same
 * body, each in its own process; then what a request costs the gateway by stage, in the real service under load:
 *
 *   node bench/gateway-hotpath.ts [seconds of the comparison, by default 5]
 *     [--windows 5] [--seconds 2] [--connections 64]    of the budget by stage
 *
 * Prints a JSON document; the table of the budget goes to stderr. Exits with 1 if any response of it was an error.
 */
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { parseArgs } from 'node:util';

import fastify from 'fastify';

import { JobState } from '../proto/gen/capstan/v1/common.ts';
import { jobMessage } from '../lib/job-message.ts';
import { FakeScheduler, TOKEN } from '../test/gateway/fake-scheduler.ts';
import { readConfig } from '../gateway/config.ts';
import { start } from '../gateway/assembly/start.ts';
import { BUDGET_LOADS, measureBudget } from './budget/measure.ts';
import { budgetTable } from './budget/table.ts';

interface LoadResult {
  readonly requests: { readonly average: number };
  readonly latency: { readonly p99: number };
  readonly non2xx: number;
  readonly errors: number;
}

// The package has no type declarations; a computed specifier keeps the compiler from resolving it.
const LOAD_TOOL: string = 'autocannon';
const { default: autocannon } = (await import(LOAD_TOOL)) as { default: (options: object) => Promise<LoadResult> };

const KEY = 'bench-key';
const BODY = JSON.stringify({ input: { text: 'x'.repeat(160), n: 1 } });

/** The first argument of the processes of the comparison. */
const ROLES: ReadonlySet<string> = new Set(['echo', 'scheduler', 'gateway']);

async function serve(role: string, scheduler: string): Promise<string> {
  switch (role) {
    case 'echo': {
      const app = fastify();
      app.post('/v2/ep/run', (request, reply) => reply.send(request.body));
      return app.listen({ port: 0 });
    }
    case 'scheduler': {
      const fake = new FakeScheduler();
      fake.onSubmit = (asked) => {
        asked.reply(jobMessage({ id: asked.submit.jobId, endpointId: 'ep', state: JobState.IN_QUEUE }));
        fake.submits.length = 0;
        fake.batches.length = 0;
      };
      fake.addKey(KEY);
      fake.addEndpoint('ep');
      return (await fake.start()).address;
    }
    default:
      return (await start(readConfig({ port: 0, scheduler, token: TOKEN, logLevel: 'warn' }, {}))).url;
  }
}

async function spawn(role: string, scheduler = ''): Promise<{ child: ChildProcess; address: string }> {
  const child = fork(import.meta.filename, [role, scheduler]);
  const [address] = (await once(child, 'message')) as [string];
  return { child, address };
}

async function measure(url: string, seconds: number): Promise<{ rate: number; p99: number; bad: number }> {
  const result = await autocannon({
    url: `${url}/v2/ep/run`,
    method: 'POST',
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
    body: BODY,
    connections: 64,
    duration: seconds,
  });
  return { rate: result.requests.average, p99: result.latency.p99, bad: result.non2xx + result.errors };
}

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      windows: { type: 'string', default: '5' },
      seconds: { type: 'string', default: '2' },
      connections: { type: 'string', default: '64' },
    },
  });
  const seconds = Number(positionals[0] ?? 5);
  const echo = await spawn('echo');
  const scheduler = await spawn('scheduler');
  const gateway = await spawn('gateway', scheduler.address);
  await measure(echo.address, 1);
  await measure(gateway.address, 2);
  const bare = await measure(echo.address, seconds);
  const run = await measure(gateway.address, seconds);
  for (const { child } of [echo, scheduler, gateway]) child.disconnect();
  const budget = await measureBudget({
    part: 'gateway',
    windows: Number(values.windows),
    seconds: Number(values.seconds),
    connections: Number(values.connections),
  });
  console.error(budgetTable(budget));
  console.log(JSON.stringify({ echo: bare, gateway: run, ratio: Number((run.rate / bare.rate).toFixed(3)), budget }));
  if (BUDGET_LOADS.some((name) => budget.loads[name].errors > 0)) process.exitCode = 1;
}

const [role, argument = ''] = process.argv.slice(2);
if (process.send !== undefined && role !== undefined && ROLES.has(role)) {
  process.send(await serve(role, argument));
  process.once('disconnect', () => process.exit(0));
} else {
  await main();
}
