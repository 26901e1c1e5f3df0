/** `capstan run`: a job that ends its worker ends alone, as it does deployed (invariant 6). */
import { join } from 'node:path';

import test from 'ava';

import { folderOf } from '../support/folder.ts';
import { until } from '../support/until.ts';
import { run } from './fakes/run.ts';

const bin = join(import.meta.dirname, '../../cli/main.ts');

const PYTHON = `import asyncio, os, signal, sys
from capstan import Endpoint

@Endpoint(name="py", max_concurrency=4)
async def work(n: int, how: str, ctx):
    await asyncio.sleep(0.5)
    if n == 0 and how == "exits": sys.exit(1)
    if n == 0: os.kill(os.getpid(), signal.SIGKILL)
    return [n, ctx.attempt]
`;
const TYPESCRIPT = `import { setTimeout as sleep } from 'node:timers/promises';
import { endpoint } from '@capstan/sdk';

export const f = endpoint({ name: 'ts', maxConcurrency: 4 }, async (n: number, how: string, ctx: { attempt: number }) => {
  await sleep(500);
  if (n === 0 && how === 'exits') process.exit(1);
  if (n === 0) process.kill(process.pid, 'SIGKILL');
  return [n, ctx.attempt];
});
`;

interface Job {
  readonly id: string;
  readonly status: string;
  readonly output?: unknown;
  readonly error?: string;
  readonly retries?: number;
}

test('a job that ends its worker ends FAILED after its attempts, and its neighbours complete', async (t) => {
  t.timeout(120_000);
  const folder = await folderOf(t, { 'jobs.py': PYTHON, 'work.ts': TYPESCRIPT });
  const server = run([bin, 'run', '--port', '0'], { cwd: folder, env: { TMPDIR: await folderOf(t) } });
  t.teardown(() => server.child.kill('SIGKILL'));
  const [, base = ''] = await server.hear(/development server: (http:\/\/localhost:\d+)/);
  const call = async (path: string, body?: object): Promise<Job> => {
    const init = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json' } };
    return (await (await fetch(`${base}${path}`, init)).json()) as Job;
  };
  for (const name of ['py', 'ts']) {
    for (const how of ['exits', 'is killed']) {
      const started = await Promise.all([0, 1, 2].map((n) => call(`/v2/${name}/run`, { input: { n, how } })));
      const ended: Job[] = [];
      for (const { id } of started) {
        await until(`job ${id} of ${name} has ended`, async () => {
          const job = await call(`/v2/${name}/status/${id}`);
          if (!['COMPLETED', 'FAILED'].includes(job.status)) return false;
          ended.push(job);
          return true;
        });
      }
      const [culprit, ...others] = ended;
      t.like(culprit, { status: 'FAILED', retries: 1 }, `${name} ${how}`);
      t.regex(culprit?.error ?? '', /\(attempt 2 of 2\)$/);
      for (const [index, { status, output, retries }] of others.entries())
        t.deepEqual([status, output], ['COMPLETED', [index + 1, (retries ?? 0) + 1]], `${name} ${how}`);
    }
  }
  server.child.kill('SIGTERM');
  t.is(await server.ended, 0, server.stderr());
});
