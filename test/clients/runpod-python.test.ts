/** The public Python client `runpod` 1.12.0, unmodified, sync and asyncio, against a whole stack. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test, { type ExecutionContext } from 'ava';

import { runpodPackage } from './runpod-package.ts';
import { stackUnderTest } from './stack-under-test.ts';

const installed = await runpodPackage();
const under = stackUnderTest(test);
const names = ['echo', 'slow', 'failing', 'words', 'parked'] as const;

/** What the client said, by name. */
async function said(packages: string, kind: 'sync' | 'asyncio'): Promise<ReadonlyMap<string, unknown>> {
  const ids = Object.fromEntries(names.map((name) => [name, under.endpoint(name)]));
  const env = {
    PATH: process.env['PATH'],
    HOME: under.stack.dataDir,
    PYTHONPATH: packages,
    RUNPOD_API_KEY: under.stack.apiKey,
    RUNPOD_ENDPOINT_BASE_URL: `${under.stack.url}/v2`,
  };
  const script = join(import.meta.dirname, 'runpod_client.py');
  const { stdout } = await promisify(execFile)('python3', [script, kind, JSON.stringify(ids)], { env, timeout: 60_000 });
  const lines = stdout
    .trim()
    .split('\n')
    .filter((line) => line.startsWith('{'));
  return new Map(lines.map((line) => JSON.parse(line) as { name: string; value: unknown }).map(({ name, value }) => [name, value]));
}

/** A test with the client's folder; left out, with the reason, where it cannot be had. */
function withClient(title: string, body: (t: ExecutionContext, packages: string) => Promise<void>): void {
  if ('missing' in installed) test.skip(`${title} (skipped: ${installed.missing})`, (t) => t.pass());
  else test.serial(title, (t) => body(t, installed.path));
}

withClient('sync: run_sync, run, status, output, stream, cancel, health, purge', async (t, packages) => {
  const results = await said(packages, 'sync');
  t.deepEqual(results.get('run_sync'), { n: 1 });
  t.deepEqual(results.get('run_sync wrapped'), { n: 2 });
  t.deepEqual(results.get('run'), [{ n: 3 }, 'COMPLETED']);
  t.deepEqual(results.get('failed'), [null, 'FAILED']);
  t.deepEqual(results.get('stream'), ['the', 'quick', 'fox']);
  t.is(results.get('cancel'), 'CANCELLED');
  t.is(results.get('cancelled'), 'CANCELLED');
  t.like(results.get('health'), { jobs: { inQueue: 3, inProgress: 0 }, workers: { running: 0 } });
  t.deepEqual(results.get('purge'), { removed: 3, status: 'completed' });
  t.deepEqual(results.get('purged'), ['CANCELLED', 'CANCELLED', 'CANCELLED']);
  t.is(results.get('wrong key'), 'RuntimeError');
  t.is(results.get('unknown endpoint'), 404);
});

withClient('asyncio: run, status, output, stream, cancel, health, purge', async (t, packages) => {
  const results = await said(packages, 'asyncio');
  t.deepEqual(results.get('run'), [{ n: 1 }, 'COMPLETED']);
  t.deepEqual(results.get('stream'), ['the', 'quick', 'fox']);
  t.is(results.get('cancel'), 'CANCELLED');
  t.like(results.get('health'), { jobs: { inQueue: 2 } });
  t.deepEqual(results.get('purge'), { removed: 2, status: 'completed' });
  t.deepEqual(results.get('purged'), ['CANCELLED', 'CANCELLED']);
});
