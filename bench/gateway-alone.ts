/** A gateway alone: with a scheduler that replies at once, beside a bare fastify echo, each in its own process; and a load for them. */
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';

import fastify from 'fastify';

import { JobState } from '../proto/gen/capstan/v1/common.ts';
import { jobMessage } from '../lib/job-message.ts';
import { FakeScheduler, TOKEN } from '../test/gateway/fake-scheduler.ts';
import { readConfig } from '../gateway/config.ts';
import { start } from '../gateway/assembly/start.ts';
import { GatewayProcesses } from '../gateway/processes/primary.ts';

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

type Role = 'echo' | 'scheduler' | 'gateway';

/** `count`: processes of the gateway. */
async function serve(role: string, scheduler = '', count = '1'): Promise<string> {
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
    default: {
      const config = readConfig({ port: 0, scheduler, token: TOKEN, logLevel: 'warn' }, {});
      return (await (count === '1' ? start(config) : GatewayProcesses.start(config, Number(count)))).url;
    }
  }
}

/** Starts one of them; `scheduler`, `processes`: of a gateway. */
export async function spawn(
  role: Role,
  scheduler = '',
  processes = 1,
): Promise<{ readonly child: ChildProcess; readonly address: string }> {
  const child = fork(import.meta.filename, [role, scheduler, String(processes)]);
  const [address] = (await once(child, 'message')) as [string];
  return { child, address };
}

export interface Measured {
  /** Responses per second. */
  readonly rate: number;
  /** ms. */
  readonly p99: number;
  readonly bad: number;
}

/** Sends POST /run over 64 connections. */
export async function measure(url: string, seconds: number): Promise<Measured> {
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

const [role, ...facts] = process.argv.slice(2);
if (process.send !== undefined && process.argv[1] === import.meta.filename && role !== undefined) {
  process.send(await serve(role, ...facts));
  process.once('disconnect', () => process.exit(0));
}
