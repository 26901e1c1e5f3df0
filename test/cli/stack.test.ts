/** `capstan up` as a process: Ctrl+C, kill -9, the lock on the data folder, what it leaves behind. */
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { descendants, gone, run, type Run, type RunOptions } from './fakes/run.ts';
import { folderOf } from '../support/folder.ts';

const stack = join(import.meta.dirname, 'fakes/stack.ts');

function startStack(t: ExecutionContext, args: readonly string[], options: RunOptions = {}): Run {
  const running = run([stack, ...args], options);
  t.teardown(async () => {
    running.child.kill('SIGTERM');
    await running.ended;
  });
  return running;
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  test(`${signal} to the supervisor alone ends everything in order, exit code 0`, async (t) => {
    const folder = await folderOf(t);
    const up = startStack(t, [folder]);
    await up.hear(/^up$/m);
    const { pid = 0 } = up.child;
    const below = await descendants(pid);
    t.is(below.length, 3);
    up.child.kill(signal);
    t.is(await up.ended, 0);
    await Promise.all(below.map(gone));
    t.regex(up.stdout(), /abort/);
    t.regex(up.stderr(), /=> stopping/);
    t.deepEqual((await readdir(folder)).sort(), ['logs']);
  });
}

/** Runs the stack as npm does: in a shell that stays its parent. */
const inShell = (t: ExecutionContext, folder: string, variables: RunOptions['env'] = {}): Run => {
  const shell = run(['-c', '"$NODE" "$@"; true', 'sh', stack, folder], {
    program: '/bin/sh',
    env: { NODE: process.execPath, ...variables },
  });
  t.teardown(async () => {
    for (const pid of await descendants(shell.child.pid ?? 0)) process.kill(pid, 'SIGKILL');
    shell.child.kill('SIGKILL');
    await shell.ended;
  });
  return shell;
};

test('under npm the stack ends with the shell of npm, which takes its signals', async (t) => {
  const folder = await folderOf(t);
  const shell = inShell(t, folder, { npm_lifecycle_event: 'npx' });
  await shell.hear(/^up$/m);
  const below = await descendants(shell.child.pid ?? 0);
  t.is(below.length, 4);
  shell.child.kill('SIGTERM');
  await Promise.all(below.map(gone));
  t.deepEqual((await readdir(folder)).sort(), ['logs']);
});

test('Ctrl+C reaches the whole group, and the supervisor twice: one end, in order', async (t) => {
  const folder = await folderOf(t);
  const up = startStack(t, [folder], { detached: true });
  await up.hear(/^up$/m);
  const { pid = 0 } = up.child;
  const below = await descendants(pid);
  process.kill(-pid, 'SIGINT');
  process.kill(pid, 'SIGINT');
  t.is(await up.ended, 0);
  await Promise.all(below.map(gone));
  t.notRegex(up.stderr(), /ended \(|again/);
});

test('kill -9 of the supervisor leaves no process, and the next start takes over', async (t) => {
  const folder = await folderOf(t);
  const up = startStack(t, [folder]);
  await up.hear(/^up$/m);
  const below = await descendants(up.child.pid ?? 0);
  up.child.kill('SIGKILL');
  t.is(await up.ended, 'SIGKILL');
  await Promise.all(below.map(gone));
  t.deepEqual((await readdir(folder)).sort(), ['logs', 'parts.json', 'run.json', 'up.lock']);

  const next = startStack(t, [folder]);
  await next.hear(/^up$/m);
  t.is((JSON.parse(await readFile(join(folder, 'run.json'), 'utf8')) as { pid?: number }).pid, next.child.pid);
});

test('the next start waits for a part that outlives its killed supervisor', async (t) => {
  const folder = await folderOf(t);
  const up = startStack(t, [folder, 'stubborn']);
  await up.hear(/^up$/m);
  const { agent } = JSON.parse(await readFile(join(folder, 'parts.json'), 'utf8')) as { agent: { pid: number } };
  up.child.kill('SIGKILL');
  t.is(await up.ended, 'SIGKILL');

  const next = startStack(t, [folder]);
  await next.hear(/^=> waiting for processes of an earlier run to end: agent$/m);
  t.notRegex(next.stdout(), /^up$/m);
  process.kill(agent.pid, 'SIGKILL');
  await next.hear(/^up$/m);
});

test('a process that only has the id of a former part is not waited for', async (t) => {
  const folder = await folderOf(t);
  await writeFile(join(folder, 'parts.json'), JSON.stringify({ agent: { pid: process.pid, started: 'another boot:1' } }));
  const up = startStack(t, [folder]);
  await up.hear(/^up$/m);
  t.notRegex(up.stderr(), /waiting|killing/);
});

test('the supervisor ends when the set-up that started it is gone without a word', async (t) => {
  const folder = await folderOf(t);
  const up = startStack(t, [folder], { channel: true });
  await up.hear(/^up$/m);
  const below = await descendants(up.child.pid ?? 0);
  up.child.disconnect();
  t.is(await up.ended, 0);
  await Promise.all(below.map(gone));
});

test('run.json says where the stack serves', async (t) => {
  const folder = await folderOf(t);
  const up = startStack(t, [folder]);
  await up.hear(/^up$/m);
  const file = JSON.parse(await readFile(join(folder, 'run.json'), 'utf8')) as Record<string, unknown>;
  t.deepEqual(Object.keys(file), ['pid', 'url', 'http', 'grpc']);
  t.is(file['pid'], up.child.pid);
  t.regex(String(file['http']), /^127\.0\.0\.1:\d+$/);
  t.regex(String(file['grpc']), /^127\.0\.0\.1:\d+$/);
});

test('a second stack on the same folder is refused, and the first one goes on', async (t) => {
  const folder = await folderOf(t);
  const first = startStack(t, [folder]);
  await first.hear(/^up$/m);
  const second = startStack(t, [folder]);
  t.is(await second.ended, 75);
  t.regex(
    second.stderr(),
    new RegExp(`^✗ Capstan is already running on the data folder ${folder} \\(process ${String(first.child.pid)}\\)\nhint: .*\n$`),
  );
  t.is((JSON.parse(await readFile(join(folder, 'run.json'), 'utf8')) as { pid?: number }).pid, first.child.pid);
});

test('a part that refuses its start: one line, a hint, its exit code', async (t) => {
  const up = startStack(t, [await folderOf(t), 'refuse']);
  t.is(await up.ended, 69);
  t.regex(
    up.stderr(),
    /^✗ 127\.0\.0\.1:8080 is in use by another program\nhint: Stop the other program, or use other ports: --http-port and --grpc-port [^\n]*\n$/,
  );
});

test('work after the start that fails ends the stack', async (t) => {
  const folder = await folderOf(t);
  const up = startStack(t, [folder, 'serve', 'throw']);
  t.is(await up.ended, 70);
  t.regex(up.stderr(), /✗ internal error: the work after the start failed\n/);
  t.deepEqual(await readdir(folder), ['logs']);
});

test('a file in the place of the data folder: one line and exit code 74', async (t) => {
  const folder = await folderOf(t);
  await writeFile(join(folder, 'file'), '');
  for (const path of ['file', 'file/below']) {
    const up = startStack(t, [join(folder, path)]);
    t.is(await up.ended, 74);
    t.regex(up.stderr(), /^✗ cannot use the data folder .*: .*\(E\w+\)\nhint: .*\n$/);
  }
});

test('a data folder that may not be written: one line and exit code 74', async (t) => {
  if (process.getuid?.() === 0) {
    // No folder is closed to the superuser, but /sys takes none from anyone.
    const up = startStack(t, ['/sys/capstan']);
    t.is(await up.ended, 74);
    t.regex(up.stderr(), /^✗ cannot use the data folder/);
    return;
  }
  const folder = join(await folderOf(t), 'closed');
  await mkdir(folder, { mode: 0o500 });
  const up = startStack(t, [folder]);
  t.is(await up.ended, 74);
  t.regex(up.stderr(), /permission denied/);
});
