/**
 * A service of an earlier version is upgraded part by part, as docs/upgrade.md says. The earlier version is taken from the history, so a
 * clone without it skips these tests.
 */
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test, { type ExecutionContext } from 'ava';

import { folderOf } from '../support/folder.ts';
import { until } from '../support/until.ts';
import { application, versionCheck, works } from './application.ts';
import { checkOut, CURRENT, EARLIER, whyMissing, type Version } from './earlier.ts';
import { MixedStack } from './mixed-stack.ts';

const run = promisify(execFile);

/** Calls a job with the SDKs of a version. */
async function callsWithSdks(t: ExecutionContext, stack: MixedStack, { tree, name }: Version): Promise<void> {
  const typescript = `
    import { Endpoint } from ${JSON.stringify(join(tree, 'sdk/typescript/sdk.ts'))};
    const hello = new Endpoint(process.argv[1], { apiKey: process.env.SERVICE_API_KEY, baseUrl: process.env.CAPSTAN_URL });
    const job = await hello.run({ name: 'SDK' });
    console.log(await hello.runSync({ name: 'SDK' }), await job.output());`;
  const env = { ...stack.variables, PYTHONPATH: join(tree, 'sdk/python'), PYTHONDONTWRITEBYTECODE: '1' };
  const node = await run(process.execPath, ['--input-type=module', '--eval', typescript, stack.id('hello')], { env });
  t.is(node.stdout.trim(), 'Hello, SDK! Hello, SDK!', name);
  const python = `
import capstan, os, sys
endpoint = capstan.Endpoint(sys.argv[1], api_key=os.environ["SERVICE_API_KEY"], base_url=os.environ["CAPSTAN_URL"])
print(endpoint.run_sync({"name": "SDK"}), endpoint.run({"name": "SDK"}).output())`;
  const answer = await run('python3', ['-c', python, stack.id('bonjour')], { env });
  t.is(answer.stdout.trim(), 'Bonjour, SDK! Bonjour, SDK!', name);
}

// Before the first test is declared, which is the last moment to wait.
const reasons = await Promise.all(EARLIER.map(whyMissing));

for (const [i, earlier] of EARLIER.entries()) {
  const why = reasons[i] ?? '';
  const only = why === '' ? test.serial : test.serial.skip;
  const reason = why === '' ? '' : ` (skipped: ${why})`;

  only(`a service of ${earlier.name} is upgraded part by part, with its jobs, builds, agents and SDKs${reason}`, async (t) => {
    t.timeout(240_000);
    const before = await checkOut(t, earlier);
    const stack = await MixedStack.create(t);
    for (const part of ['scheduler', 'gateway', 'agent'] as const) await stack.run(part, before);
    await stack.deploy(before, await application(t));
    await works(t, stack, 'before');
    const past = await stack.job('hello', { name: 'past' });

    const gate = join(await folderOf(t), 'open');
    const [started, waiting] = [await stack.submit('gated', { gate }), await stack.submit('gated', { gate })];
    await until('the first job runs', async () => (await stack.status('gated', started)).status === 'IN_PROGRESS');

    await stack.run('scheduler', CURRENT);
    t.is((await stack.ended('hello', past.id)).output, 'Hello, past!');
    await until('the job is known to run still', async () => (await stack.status('gated', started)).status === 'IN_PROGRESS');
    t.is((await stack.status('gated', waiting)).status, 'IN_QUEUE');
    await writeFile(gate, '');
    for (const id of [started, waiting]) t.like(await stack.ended('gated', id), { status: 'COMPLETED', output: 'through' });
    t.is((await stack.status('gated', started)).retries ?? 0, 0, 'it ran once');
    await works(t, stack, 'with the new scheduler');
    // The gateway is too old to tell the versions of the others.
    t.deepEqual(
      (await versionCheck(stack)).upgrade.map(({ part, from }) => [part, from]),
      [
        ['scheduler', null],
        ['gateway', '0.1.0'],
        ['agent', null],
      ],
    );

    await stack.run('gateway', CURRENT);
    await works(t, stack, 'with the new gateway');
    await callsWithSdks(t, stack, before);
    await callsWithSdks(t, stack, CURRENT);
    await stack.deploy(before, await application(t));
    await works(t, stack, 'built by the old tool with new parts');
    const { upgrade, parts } = await versionCheck(stack);
    t.deepEqual(
      upgrade.map(({ part }) => part),
      ['agent'],
    );
    t.is(parts.find(({ part }) => part === 'agent')?.version, '0.1.0');

    await stack.run('agent', CURRENT);
    await works(t, stack, 'with the new agent');
    t.deepEqual((await versionCheck(stack)).upgrade, []);
    await stack.deploy(CURRENT, await application(t));
    await works(t, stack, 'built anew');
  });
}
