/** A worker of the public package `runpod` that a project declares by its command: it takes one job at a time and scales out. */
import test from 'ava';

import { folderOf } from '../support/folder.ts';
import { Stack } from '../support/stack.ts';
import { runpodPackage } from './runpod-package.ts';

const JOBS = 12;
const DECLARATION = `from capstan import Endpoint

Endpoint(
    name="w",
    command=["python3", "handler.py"],
    load_balanced=False,
    workers=(0, 2),
    dependencies=["runpod==1.12.0"],
    env={"RUNPOD_SKIP_AUTO_SYSTEM_CHECKS": "true"},
)
`;
const HANDLER = `import time
import runpod

def handler(job):
    time.sleep(3)
    return job["input"]["n"]

runpod.serverless.start({"handler": handler})
`;

const installed = await runpodPackage();
const title = 'jobs of a foreign worker that takes one at a time run on as many workers as may be';

if ('missing' in installed) test.skip(`${title} (skipped: ${installed.missing})`, (t) => t.pass());
else {
  test(title, async (t) => {
    t.timeout(300_000);
    const stack = await Stack.start();
    t.teardown(() => stack.close());
    const endpoint = (await stack.deploy(await folderOf(t, { 'main.py': DECLARATION, 'handler.py': HANDLER }))).get('w') ?? '';
    const jobs = await Promise.all(Array.from({ length: JOBS }, (_, n) => stack.run(endpoint, { n })));
    const ended = await Promise.all(jobs.map((job) => stack.ended(endpoint, job, 120_000)));
    for (const [n, { status, output, retries = 0 }] of ended.entries()) t.deepEqual([status, output, retries], ['COMPLETED', n, 0]);
    t.is(new Set(ended.map(({ workerId }) => workerId)).size, 2);
  });
}
