/** Level `user`: what a worker is, what it cannot reach, and that nothing of it remains. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { removeRemains } from '../../agent/sandbox/user/remains.ts';
import { folderOf } from '../support/folder.ts';
import { openUserLevel, type UserLevel } from './user-level.ts';
import { hasUserLevel, userTest } from './user-test.ts';
import { run, start } from './user-programs.ts';

const FIRST_OWN_UID = 1_500_000_000;

const level: UserLevel = hasUserLevel ? await openUserLevel() : (undefined as never);
test.after.always(async (t) => {
  if (!hasUserLevel) return;
  await level.close();
  t.deepEqual(level.complaints, []);
});

/** Lines `name=value` as an object. */
function valuesOf(lines: readonly string[]): Record<string, string> {
  return Object.fromEntries(lines.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]));
}

/** Pids of all processes of a user, zombies excluded. */
async function processesOf(uid: number): Promise<number[]> {
  const found: number[] = [];
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const status = await readFile(`/proc/${name}/status`, 'latin1').catch(() => '');
    if (!/^State:\t[ZX]/m.test(status) && status.includes(`\nUid:\t${uid}\t`)) found.push(Number(name));
  }
  return found;
}

userTest('a worker has a user id of its own, no capabilities and no new privileges', async (t) => {
  const script = `echo uid=$(id -u); echo groups=$(id -G); echo core=$(ulimit -c); echo processes=$(ulimit -p 2>/dev/null || ulimit -u)
    sed -n 's/^\\(Cap[A-Za-z]*\\|NoNewPrivs\\):\\t/\\1=/p' /proc/self/status`;
  const values = valuesOf((await run(t, level, script)).lines);
  const { uid, ...rest } = values;
  t.true(Number(uid) >= 30_000, uid);
  t.deepEqual(rest, {
    groups: uid,
    core: '0',
    processes: '4096',
    CapInh: '0000000000000000',
    CapPrm: '0000000000000000',
    CapEff: '0000000000000000',
    CapBnd: '0000000000000000',
    CapAmb: '0000000000000000',
    NoNewPrivs: '1',
  });
});

userTest('it has a working folder with the build, a home and a temporary folder, and no other user reads them', async (t) => {
  const script = `echo work=$(pwd -P); echo home=$HOME; echo temporary=$TMPDIR; cat main.sh; touch made "$HOME/made" "$TMPDIR/made" && echo wrote=all
    stat -c 'modes=%a' . "$HOME" "$TMPDIR"; echo user=$USER; echo oom=$(cat /proc/self/oom_score_adj)`;
  const { lines } = await run(t, level, script, { build: { 'main.sh': 'build=here\n' } });
  const { work = '', home = '', temporary = '', ...rest } = valuesOf(lines);
  t.deepEqual(rest, { build: 'here', wrote: 'all', modes: '700', user: '', oom: '500' });
  t.true(work.startsWith(`${level.folder}/`) && home.startsWith(`${level.folder}/`), work);
  t.is(temporary, `${home}/tmp`);
  await t.throwsAsync(stat(work), { code: 'ENOENT' });
  await t.throwsAsync(stat(home), { code: 'ENOENT' });
});

userTest('the environment is as it was given, whatever is in it', async (t) => {
  const env = {
    QUOTES: `it's "quoted" \\ $HOME $(id) \`id\``,
    LINES: 'one\ntwo\n',
    EMPTY: '',
    HOME: '/of/the/release',
    IFS: 'x',
    ppid: '1',
  };
  const { lines } = await run(t, level, `cat /proc/$$/environ | tr '\\0\\n' '\\1\\2'; echo`, { env });
  const seen = valuesOf((lines[0] ?? '').split('\u0001').map((entry) => entry.replaceAll('\u0002', '\n')));
  for (const [name, value] of Object.entries(env)) t.is(seen[name], value, name);
});

userTest('nothing of a release runs as root, and its environment is in no process list', async (t) => {
  const program = '#!/bin/sh\necho "hijacked by $0 as $(/usr/bin/id -u)"\n';
  const names = ['prlimit', 'setpriv', 'cat', 'sh', 'cp', 'echo'];
  const build = Object.fromEntries(names.map((name) => [name, program]));
  const folder = await folderOf(t, build);
  const env = { PATH: folder, LD_PRELOAD: '/missing/library.so', ENV: join(folder, 'cat'), SECRET: 'a-secret-value' };
  const { lines } = await run(t, level, 'echo up', { env });
  t.deepEqual(
    lines.filter((line) => !line.includes('/missing/library.so')),
    ['up'],
  );
  t.is(lines.length, 2, 'the loader complains once, for the program, and not as root before');
  const worker = await start(t, level, 'echo up; exec /bin/sleep 600', { env });
  await worker.printed('up');
  for (const name of await readdir('/proc')) {
    if (/^\d+$/.test(name)) t.false((await readFile(`/proc/${name}/cmdline`, 'latin1').catch(() => '')).includes('a-secret-value'));
  }
});

userTest('a worker reaches neither another worker nor the agent and its data', async (t) => {
  const data = await folderOf(t, { 'agent/node.json': 'secret' });
  const victim = await start(t, level, 'echo hidden >mine; pwd -P; echo up; exec sleep 600', { env: { SECRET: 'of another' } });
  await victim.printed('up');
  const [work = ''] = victim.lines;
  const pid = victim.process.pid ?? 0;
  const tries: Readonly<Record<string, string>> = {
    'environment of a worker': `cat /proc/${pid}/environ`,
    'memory of a worker': `head -c 1 /proc/${pid}/mem`,
    'folder of a worker': `cat ${work}/mine`,
    'folder of a worker by its process': `cat /proc/${pid}/cwd/mine`,
    'end of a worker': `kill -KILL ${pid}`,
    'environment of the agent': `cat /proc/${process.pid}/environ`,
    'signal to the agent': `kill -0 ${process.pid}`,
    'data of the agent': `cat ${data}/agent/node.json`,
    'list of workers': `ls ${level.folder}/*/work`,
    'list of builds': `ls ${level.folder}/*/builds`,
    'file in the build': 'touch "$(dirname "$(readlink -f main.sh)")/new"',
    'change of the build': 'echo changed >main.sh',
    'mode of the build': 'chmod 777 "$(readlink -f main.sh)"',
    'other user': 'setpriv --reuid=0 true',
    'raw socket': `python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)'`,
    device: 'head -c 1 /dev/kmsg',
  };
  const script = Object.entries(tries)
    .map(([what, command]) => `if ( ${command} ) >/dev/null 2>&1; then echo 'succeeded: ${what}'; else echo 'refused: ${what}'; fi`)
    .join('\n');
  const { lines } = await run(t, level, script);
  t.deepEqual(
    [...lines],
    Object.keys(tries).map((what) => `refused: ${what}`),
  );
  t.true((await processesOf((await stat(`/proc/${pid}`)).uid)).includes(pid), 'the other worker lives');
});

userTest('nothing of a worker remains: processes, files in public folders, System V IPC', async (t) => {
  const name = `capstan-left-${process.pid}`;
  const script = `echo uid=$(id -u)
    for folder in /tmp /var/tmp /dev/shm; do mkdir -p $folder/${name}/deep; echo 1 >$folder/${name}/deep/file; ln -s /etc $folder/${name}-link; done
    ipcmk -M 4096 -S 2 -Q >/dev/null
    env -i setsid sh -c 'cd /; trap "" TERM HUP; while :; do sleep 600; done' </dev/null >/dev/null 2>&1 &
    while ! pgrep -U "$(id -u)" -x sleep >/dev/null; do sleep 0.01; done; echo up; exec sleep 600`;
  const worker = await start(t, level, script);
  await worker.printed('up');
  const uid = Number(valuesOf(worker.lines)['uid']);
  t.true((await processesOf(uid)).length >= 3);
  worker.process.kill('enough');
  const exit = await worker.process.gone;
  t.like(exit, { kind: 'exited', signal: 'SIGKILL', reason: 'enough' });
  t.deepEqual(await processesOf(uid), []);
  for (const folder of ['/tmp', '/var/tmp', '/dev/shm']) {
    t.deepEqual(
      (await readdir(folder)).filter((each) => each.startsWith(name)),
      [],
      folder,
    );
  }
  for (const kind of ['shm', 'sem', 'msg']) t.false((await readFile(`/proc/sysvipc/${kind}`, 'latin1')).includes(` ${uid} `), kind);
  t.true((await stat('/etc')).isDirectory());
});

userTest('a worker that forks without end ends with all its processes', async (t) => {
  const script = `echo uid=$(id -u); b() { b & b & wait; }; b & echo up; wait`;
  const worker = await start(t, level, script);
  await worker.printed('up');
  const uid = Number(valuesOf(worker.lines)['uid']);
  worker.process.kill();
  await worker.process.gone;
  t.deepEqual(await processesOf(uid), []);
  t.deepEqual((await run(t, level, 'echo another')).lines, ['another']);
});

userTest('what the workers of a killed agent left is removed by the next one', async (t) => {
  const folder = await folderOf(t);
  // Any other agent would sweep it too.
  const first = FIRST_OWN_UID + (process.pid % 100_000) * 1_024;
  const range = { range: { first, last: first + 1_023 }, locks: join(folder, 'locks') };
  const program = `
    import { openUserLevel } from ${JSON.stringify(new URL('user-level.ts', import.meta.url).href)};
    const { launcher } = await openUserLevel(${JSON.stringify({ range })});
    const script = 'echo $(id -u); env -i setsid sh -c "cd /; exec sleep 600" </dev/null >/dev/null 2>&1 & while ! pgrep -U "$(id -u)" -x sleep >/dev/null; do sleep 0.01; done; echo up; exec sleep 600';
    const assignment = { workerId: 'w', folder: '', workFolder: '/data/work/w-1', deviceUuids: [], memoryBytes: 0, cpuMillis: 0 };
    const worker = launcher.launch({ kind: 'program', command: '/bin/sh', args: ['-c', script], env: {}, assignment });
    let text = '';
    worker.stdout.on('data', (data) => { text += data; if (text.includes('up')) console.log(JSON.stringify({ uid: Number(text.split("\\n")[0]) })); });`;
  const main = join(folder, 'agent.ts');
  await writeFile(main, program);
  const agent = spawn(process.execPath, [main], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(agent, 'exit');
  const [data] = (await once(agent.stdout, 'data')) as [Buffer];
  const { uid } = JSON.parse(data.toString()) as { readonly uid: number };
  agent.kill('SIGKILL');
  await ended;
  t.true((await processesOf(uid)).length > 0, 'its leash does not reach what left the group');
  const next = await openUserLevel({ range });
  t.teardown(() => next.close());
  t.deepEqual(await processesOf(uid), []);
});

userTest('a worker has no descriptor that the agent got from its parent', async (t) => {
  const folder = await folderOf(t, { secret: 'of the parent' });
  const program = `
    import { openUserLevel } from ${JSON.stringify(new URL('user-level.ts', import.meta.url).href)};
    const { launcher, close } = await openUserLevel();
    const assignment = { workerId: 'w', folder: '', workFolder: '/data/work/w-1', deviceUuids: [], memoryBytes: 0, cpuMillis: 0 };
    const script = 'cat /proc/self/fd/40; echo done';
    const worker = launcher.launch({ kind: 'program', command: '/bin/sh', args: ['-c', script], env: {}, assignment });
    worker.stdout.pipe(process.stdout);
    await worker.gone;
    await close();`;
  const main = join(folder, 'agent.ts');
  await writeFile(main, program);
  const inherits = ['-c', 'exec 40<"$1"; shift; exec "$@"', 'bash', join(folder, 'secret'), process.execPath, main];
  const agent = spawn('/bin/bash', inherits, { stdio: ['ignore', 'pipe', 'inherit'] });
  const parts: Buffer[] = [];
  agent.stdout.on('data', (data: Buffer) => parts.push(data));
  await once(agent, 'close');
  const output = Buffer.concat(parts).toString();
  t.false(output.includes('of the parent'), output);
  t.true(output.endsWith('done\n'), output);
});

userTest('a worker has no more processes than it may', async (t) => {
  const small = await openUserLevel({ pids: 32 });
  t.teardown(() => small.close());
  const script = `i=0; while [ $i -lt 100 ]; do sleep 600 & i=$((i+1)); done; echo all`;
  const { lines } = await run(t, small, script);
  t.true(
    lines.some((line) => /fork/i.test(line)),
    lines.join('\n'),
  );
  t.false(lines.includes('all'));
  t.deepEqual(small.complaints, []);
});

userTest('ids without processes, files and IPC are swept without effect', async (t) => {
  t.deepEqual(await removeRemains({ first: 1_899_000_000, last: 1_899_000_010 }), []);
});
