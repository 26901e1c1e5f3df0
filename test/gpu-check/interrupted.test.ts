/** What ends the check of a GPU host before its time: it leaves nothing. */
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { run, type Run } from '../cli/fakes/run.ts';
import { folderOf } from '../support/folder.ts';
import { processesOf } from '../support/processes.ts';
import { until } from '../support/until.ts';
import { root, GPU, type Row, fakeSmi } from './host-under-test.ts';

interface Interrupted {
  readonly folder: string;
  readonly out: string;
  readonly running: Run;
}

/** Starts `capstan node check` with these levels; everything it starts has its folder as TMPDIR. */
async function startNodeCheck(t: ExecutionContext, levels: string, socket: string, more: readonly string[] = []): Promise<Interrupted> {
  const folder = await folderOf(t);
  const file = join(folder, 'agent.env');
  await writeFile(file, `CAPSTAN_NVIDIA_SMI=${await fakeSmi(folder, GPU.memoryMiB)}\nCAPSTAN_CONTAINER_SOCKET=${socket}\n`);
  const out = join(folder, 'out');
  const args = ['node', 'check', '--json', '--env-file', file, '--workers', '--levels', levels, '--out', out, ...more];
  const running = run([join(root, 'cli/main.ts'), ...args], { env: { HOME: folder, TMPDIR: folder } });
  t.teardown(() => {
    for (const { pid } of processesOf(`TMPDIR=${folder}`)) process.kill(pid, 'SIGKILL');
  });
  return { folder, out, running };
}

async function leavesNothing(t: ExecutionContext, { folder, running }: Interrupted): Promise<void> {
  t.deepEqual(
    processesOf(`TMPDIR=${folder}`).map(({ command }) => command),
    [],
    running.stderr(),
  );
  t.deepEqual(
    (await readdir(folder)).filter((name) => name.startsWith('capstan-gpu-check')),
    [],
  );
}

for (const [signal, code] of [
  ['SIGINT', 130],
  ['SIGHUP', 129],
  ['SIGTERM', 143],
] as const)
  test.serial(`${signal} ends capstan node check with the service that it has just started, and its folder`, async (t) => {
    t.timeout(100_000);
    const check = await startNodeCheck(t, 'none,container', 'none');
    await until('the service starts', async () => processesOf(`TMPDIR=${check.folder}`).some(({ role }) => role === 'up'));
    check.running.child.kill(signal);
    check.running.child.kill(signal);
    t.is(await check.running.ended, code, check.running.stderr());
    await leavesNothing(t, check);
    const { rows } = JSON.parse(await readFile(join(check.out, 'gpu-check.json'), 'utf8')) as { rows: Row[] };
    t.like(rows.at(-1), { check: 'the check itself', result: 'fail', value: signal });
    t.true((JSON.parse(check.running.stdout()) as Row[]).some((row) => row.check === 'the check itself'));
  });

for (const how of ['SIGTERM', 'the limit of time'])
  test.serial(`the image of a check that ${how} ends while it is made is removed`, async (t) => {
    t.timeout(100_000);
    const socket = join(await folderOf(t), 'engine.sock');
    const calls: string[] = [];
    // An import that never ends.
    const engine = createServer((request, response) => {
      calls.push(`${request.method ?? ''} ${request.url ?? ''}`);
      request.resume();
      if (request.url === '/info') response.end(JSON.stringify({ Runtimes: { nvidia: {} } }));
      else if (request.method === 'DELETE') response.end('[]');
    });
    await new Promise<void>((resolve) => engine.listen(socket, resolve));
    t.teardown(() => {
      engine.closeAllConnections();
      engine.close();
    });
    const check = await startNodeCheck(t, 'container', socket, how === 'SIGTERM' ? [] : ['--limit', '8']);
    const image = (): string | undefined => calls.map((call) => /^POST .*repo=(.*)/.exec(call)?.[1]).find((name) => name !== undefined);
    await until('the image is made', async () => image() !== undefined);
    if (how === 'SIGTERM') check.running.child.kill('SIGTERM');
    t.is(await check.running.ended, how === 'SIGTERM' ? 143 : 78, check.running.stderr());
    t.is(calls.at(-1), `DELETE /images/${image() ?? ''}?force=true`);
    await leavesNothing(t, check);
  });
