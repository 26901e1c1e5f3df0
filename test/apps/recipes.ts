/** What docs/recipes.md says of background tasks and of system packages, with the projects of examples/ and the real packages. */
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { missingRegistry } from '../support/registries.ts';
import { sharedStack } from '../support/shared-stack.ts';
import type { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const examples = join(import.meta.dirname, '../../examples');

const start = sharedStack(test, { CAPSTAN_LB_HOLD_MS: '60000' });
let stack: Stack;
test.before(async () => {
  if (missingRegistry.pypi === null) stack = await start();
});

function withPackages(title: string, run: (t: ExecutionContext) => Promise<void>): void {
  if (missingRegistry.pypi === null) test.serial(title, run);
  else test.skip(`${title} (${missingRegistry.pypi})`, run);
}

async function json(path: string, init: RequestInit = {}): Promise<unknown> {
  const response = await stack.call(path, init);
  if (response.status !== 200) throw new Error(`${path}: status ${response.status}: ${await response.text()}`);
  return response.json();
}

withPackages('a task of FastAPI runs after its response, and a job of a queue endpoint has a result', async (t) => {
  t.timeout(180_000);
  const ids = await stack.deploy(join(examples, 'background'));
  const gallery = `/lb/${ids.get('gallery') ?? ''}`;
  const { job } = (await json(`${gallery}/upload?url=a.png`, { method: 'POST' })) as { job: string };
  await until('the task has run', async () => JSON.stringify(await json(`${gallery}/seen`)) === '["a.png"]');
  const status = `/v2/${ids.get('thumbnails') ?? ''}/status/${job}`;
  const ended = await until('the job has ended', async () => {
    const read = (await json(status)) as { status: string; output?: unknown };
    return read.status === 'COMPLETED' ? read : undefined;
  });
  t.deepEqual(ended.output, { of: 'a.png', size: 64 });
});

withPackages('ffmpeg comes with a package', async (t) => {
  t.timeout(180_000);
  const ids = await stack.deploy(join(examples, 'ffmpeg'));
  const made = (await json(`/v2/${ids.get('tone') ?? ''}/runsync`, { method: 'POST', body: '{"input":{"seconds":0.5}}' })) as {
    output: { magic: string; bytes: number };
  };
  t.is(made.output.magic, 'fLaC');
  t.true(made.output.bytes > 1_000);
});
