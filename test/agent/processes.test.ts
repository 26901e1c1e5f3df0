/** No process stays behind, however the agent or a worker ends. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import test, { type ExecutionContext } from 'ava';

import { isErrno } from '../../lib/to-error.ts';
import { isRunning } from '../conformance/runtime/running.ts';
import { until } from '../support/until.ts';
import { writeFakeSmi } from './fake-nvidia-smi.ts';
import { JOIN_TOKEN, type FakeScheduler } from './fake-scheduler.ts';
import { addBuild, functionSpec, startScheduler, startWorker } from './fixtures.ts';
import { folderOf } from '../support/folder.ts';

const AGENT = fileURLToPath(new URL('agent-process.ts', import.meta.url));
/** Marks the processes of one test by an environment value that they inherit. */
const MARK = 'LC_ALL';

async function spawnAgent(t: ExecutionContext, scheduler: FakeScheduler, mark: string, more: object = {}): Promise<ChildProcess> {
  const config = {
    dataDir: await folderOf(t),
    scheduler: scheduler.address,
    joinToken: JOIN_TOKEN,
    logLevel: 'silent',
    nvidiaSmi: '/nonexistent/nvidia-smi',
    containerSocket: 'none',
    spareHosts: 2,
    hostEnv: { PATH: '/usr/local/bin:/usr/bin:/bin', [MARK]: mark },
    ...more,
  };
  const agent = spawn(process.execPath, [AGENT, JSON.stringify(config)], { stdio: 'ignore' });
  t.teardown(() => agent.kill('SIGKILL'));
  return agent;
}

/** Processes with the mark in their environment; those that only wait to be reaped have none. */
async function marked(mark: string): Promise<number[]> {
  const found: number[] = [];
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const environment = await readFile(join('/proc', name, 'environ'), 'utf8').catch(() => '');
    if (environment.includes(`${MARK}=${mark}\0`)) found.push(Number(name));
  }
  return found;
}

async function untilNoneOf(mark: string): Promise<void> {
  await until('nothing that was started runs', async () => (await marked(mark)).length === 0);
}

const SOURCE = `
import { spawn, execSync } from 'node:child_process';
export async function family() { spawn('sleep', ['300']); await new Promise(() => setInterval(() => undefined, 1000)); }
export function blocked() { execSync('sleep 300'); }
export function busy() { for (;;) ; }
`;

const PYTHON = `
import subprocess, time, os, signal
def family():
    subprocess.Popen(["sleep", "300"])
    if os.fork() == 0:
        while True: time.sleep(1)
    time.sleep(300)
def blocked(): subprocess.run(["sleep", "300"])
def busy():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Never lets another thread of its interpreter run.
    sum(range(10 ** 15))
`;

/** Children that leave the group: as a fork that shows the environment its host was started with, and without any environment. */
const ESCAPING = `
import os, subprocess, time
def escape(path):
    pid = os.fork()
    if pid == 0:
        os.setsid()
        for fd in range(3, 64):
            try: os.close(fd)
            except OSError: pass
        while True: time.sleep(1)
    other = subprocess.Popen(["env", "-i", "/bin/sleep", "300"], start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return [pid, other.pid]
`;

for (const spareHosts of [0, 1]) {
  test.serial(
    `children with a session of their own end with their worker, with an environment or without, ${spareHosts} spare hosts`,
    async (t) => {
      const { scheduler } = await startWorker(t, { 'main.py': ESCAPING }, 'escape', { runtime: 'process' }, { spareHosts });
      scheduler.dispatch({ jobId: 'j1' }, { path: '' });
      const pids = scheduler.valueOf((await scheduler.ended('j1')).output) as number[];
      t.teardown(() => {
        for (const pid of pids) killIfThere(pid);
      });
      t.is(pids.length, 2);
      for (const pid of pids) t.true(await isRunning(pid));
      scheduler.desire([], []);
      await scheduler.hear('workers', ({ workers }) => workers.length === 0);
      for (const pid of pids) t.false(await isRunning(pid));
    },
  );
}

function killIfThere(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if (!isErrno(error, 'ESRCH')) throw error;
  }
}

const kinds = [
  ['thread', 'thread', { 'main.js': SOURCE }],
  ['process in Node', 'process', { 'main.js': SOURCE }],
  ['process in Python', 'process', { 'main.py': PYTHON }],
] as const;

for (const [kind, fn] of kinds.flatMap((each) => ['family', 'blocked', 'busy'].map((name) => [each, name] as const))) {
  const [what, runtime, files] = kind;
  // One after another: each starts an agent with all its hosts.
  test.serial(`kill -9 of the agent while a handler runs leaves no process: ${what}, ${fn}`, async (t) => {
    const mark = `capstan-test-${process.pid}-${what.replaceAll(' ', '-')}-${fn}`;
    const scheduler = await startScheduler(t);
    const build = await addBuild(t, scheduler, files);
    const agent = await spawnAgent(t, scheduler, mark, { spareHosts: 1 });
    await scheduler.hello();
    scheduler.desire([{}], [{ ...build, runtime, functions: [functionSpec(fn)] }]);
    await scheduler.worker('w1', ({ state }) => state === 'WORKER_STATE_IDLE');
    scheduler.dispatch({ jobId: 'j1' });
    await scheduler.hear('started');
    // STARTED comes before the handler's first act: its child, or the spare host, may be a moment away.
    await until('the child or the spare host runs', async () => (await marked(mark)).length >= 2);
    agent.kill('SIGKILL');
    await once(agent, 'exit');
    await untilNoneOf(mark);
    t.pass();
  });
}

test('kill -9 of the agent at any moment of its start leaves no process', async (t) => {
  const scheduler = await startScheduler(t);
  const build = await addBuild(t, scheduler, { 'main.js': SOURCE });
  const release = { ...build, functions: [functionSpec('family')] };
  const moments: ((from: number) => Promise<unknown>)[] = [
    async () => undefined,
    (from) => scheduler.hello(() => true, from),
    (from) => scheduler.worker('w1', ({ reason }) => reason === 'STARTING', from),
    (from) => scheduler.worker('w1', ({ state }) => state === 'WORKER_STATE_IDLE', from),
  ];
  for (const [index, moment] of moments.entries()) {
    const mark = `capstan-test-${process.pid}-start-${index}`;
    const from = scheduler.now;
    const agent = await spawnAgent(t, scheduler, mark);
    if (index > 1) {
      await scheduler.hello(() => true, from);
      scheduler.desire([{}], [release]);
    }
    await moment(from);
    agent.kill('SIGKILL');
    await once(agent, 'exit');
    await untilNoneOf(mark);
  }
  t.pass();
});

const ESCAPES = {
  thread: {
    'main.ts': `import { spawn } from 'node:child_process';
export function escape() { const made = spawn('sleep', ['300'], { detached: true, stdio: 'ignore' }); made.unref(); return made.pid; }`,
  },
  python: {
    'main.py': `import subprocess
def escape(): return subprocess.Popen(["sleep", "300"], start_new_session=True).pid`,
  },
};

for (const [what, runtime, files] of [
  ['thread', 'thread', ESCAPES.thread],
  ['process in Node', 'process', ESCAPES.thread],
  ['process in Python', 'process', ESCAPES.python],
] as const) {
  test.serial(`what left its worker's process group ends with the worker: ${what}`, async (t) => {
    const { scheduler } = await startWorker(t, files, 'escape', { runtime });
    scheduler.dispatch({ jobId: 'j1' });
    const pid = scheduler.valueOf((await scheduler.ended('j1')).output) as number;
    t.true(await isRunning(pid));
    scheduler.desire([], []);
    await scheduler.hear('workers', ({ workers }) => workers.length === 0);
    t.false(await isRunning(pid));
  });
}

test('what left its group under an agent that was killed ends when the next agent starts; a living one keeps its own', async (t) => {
  const scheduler = await startScheduler(t);
  const build = await addBuild(t, scheduler, ESCAPES.thread);
  const dataDir = await folderOf(t);
  const release = { ...build, functions: [functionSpec('escape')] };
  const escapeUnder = async (folder: string): Promise<{ agent: ChildProcess; pid: number }> => {
    const from = scheduler.now;
    const agent = await spawnAgent(t, scheduler, `capstan-test-${process.pid}-left`, { dataDir: folder });
    await scheduler.hello(() => true, from);
    scheduler.desire([{}], [release]);
    await scheduler.worker('w1', ({ state }) => state === 'WORKER_STATE_IDLE', from);
    scheduler.dispatch({ jobId: `j${from}` });
    return { agent, pid: scheduler.valueOf((await scheduler.ended(`j${from}`)).output) as number };
  };
  const living = await escapeUnder(await folderOf(t));
  const killed = await escapeUnder(dataDir);
  killed.agent.kill('SIGKILL');
  await once(killed.agent, 'exit');
  t.true(await isRunning(killed.pid));
  const from = scheduler.now;
  await spawnAgent(t, scheduler, `capstan-test-${process.pid}-next`, { dataDir });
  await scheduler.hello(() => true, from);
  // That hello may be the living agent's, dialling anew.
  await until('what the killed agent left is gone', async () => !(await isRunning(killed.pid)));
  t.true(await isRunning(living.pid));
  process.kill(living.pid, 'SIGKILL');
});

test('kill -9 of the agent while nvidia-smi hangs leaves no process', async (t) => {
  const mark = `capstan-test-${process.pid}-smi`;
  const scheduler = await startScheduler(t);
  const nvidiaSmi = await writeFakeSmi(await folderOf(t), { hangs: 'all' });
  const agent = await spawnAgent(t, scheduler, mark, { nvidiaSmi });
  await scheduler.hello();
  agent.kill('SIGKILL');
  await once(agent, 'exit');
  await untilNoneOf(mark);
  t.pass();
});

test('a worker that is killed is WORKER_LOST with how, and starts again', async (t) => {
  const { scheduler } = await startWorker(
    t,
    'export async function pid(die: boolean) { if (die) process.kill(process.pid, "SIGKILL"); await 1; return process.pid; }',
    'pid',
  );
  scheduler.dispatch({ jobId: 'j1' }, { die: false });
  const first = scheduler.valueOf((await scheduler.ended('j1')).output);
  const from = scheduler.now;
  scheduler.dispatch({ jobId: 'j2' }, { die: true });
  const lost = await scheduler.ended('j2');
  t.is(lost.outcome, 'ATTEMPT_OUTCOME_WORKER_LOST');
  t.regex(lost.error, /killed by SIGKILL/);
  t.true(lost.started);
  // A handler ended it, which says nothing against its next start.
  const again = await scheduler.worker('w1', ({ state }) => state === 'WORKER_STATE_INITIALIZING', from);
  t.is(again.failures, 0);
  const restarted = scheduler.now;
  await scheduler.worker('w1', ({ state }) => state === 'WORKER_STATE_IDLE', restarted);
  scheduler.dispatch({ jobId: 'j3' }, { die: false });
  t.not(scheduler.valueOf((await scheduler.ended('j3')).output), first);
});
