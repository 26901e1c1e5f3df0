/**
 * POST /run through the gateway alone (with a scheduler that replies at once) against a bare fastify echo with the same
 * body, each in its own process: `node bench/gateway-hotpath.ts [seconds]`.
 */
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';

import fastify from 'fastify';

import { FakeScheduler, TOKEN } from '../test/gateway/fake-scheduler.ts';
import { readConfig } from '../gateway/config.ts';
import { start } from '../gateway/start.ts';

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
        asked.reply({
          id: asked.submit.jobId,
          endpointId: 'ep',
          state: 'JOB_STATE_IN_QUEUE',
          retries: 0,
          workerId: '',
          queueReason: '',
          webhook: '',
          submittedAtMs: 0n,
        });
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

const [role, argument = ''] = process.argv.slice(2);
if (process.send !== undefined && role !== undefined) {
  process.send(await serve(role, argument));
  process.once('disconnect', () => process.exit(0));
} else {
  const seconds = Number(role ?? 5);
  const echo = await spawn('echo');
  const scheduler = await spawn('scheduler');
  const gateway = await spawn('gateway', scheduler.address);
  await measure(echo.address, 1);
  await measure(gateway.address, 2);
  const bare = await measure(echo.address, seconds);
  const run = await measure(gateway.address, seconds);
  console.log(JSON.stringify({ echo: bare, gateway: run, ratio: Number((run.rate / bare.rate).toFixed(3)) }));
  for (const { child } of [echo, scheduler, gateway]) child.disconnect();
}
