/** Workers in containers of a real engine: what they cannot reach, how they end, and images with programs of their own. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import test, { type ExecutionContext } from 'ava';
import { create } from 'tar';

import { ContainerEngine } from '../../agent/runtimes/container/engine.ts';
import { NEEDS } from '../../agent/runtimes/container/bootstrap.ts';
import type { WorkerStart } from '../../agent/runtimes/runtime.ts';
import { containerRuntime } from '../conformance/runtime/container-under-test.ts';
import { startWorkerOf, type TestWorker } from '../conformance/runtime/worker-under-test.ts';
import { noEngine, startEngine, type PrivateEngine } from '../support/container/private-engine.ts';
import { processesOf } from '../support/processes.ts';
import { until } from '../support/until.ts';
import { JOIN_TOKEN, type FakeScheduler } from './fake-scheduler.ts';
import { addBuild, functionSpec, startAgent, startScheduler } from './fixtures.ts';
import { folderOf } from '../support/folder.ts';

const AGENT = fileURLToPath(new URL('agent-process.ts', import.meta.url));

const SOURCE = `
import os, subprocess, time
def look(paths):
    found = {}
    for path in paths:
        try:
            with open(path) as file: found[path] = file.read()
        except OSError as error: found[path] = type(error).__name__
    return found
def write(path):
    try:
        with open(path, "w") as file: file.write("x")
        return "written"
    except OSError as error: return os.strerror(error.errno)
def environment(): return dict(os.environ)
def whoami(): return os.getuid()
def escapes():
    subprocess.Popen(["sleep", "300"], start_new_session=True)
    return os.listdir("/proc")
def waits(): time.sleep(300)
def own_address():
    import socket
    try: return socket.gethostbyname(socket.gethostname())
    except OSError as error: return f"{socket.gethostname()}: {error}"
`;

let engine: PrivateEngine;

if (noEngine === undefined) {
  test.before(async () => {
    engine = await startEngine(['capstan/base-python', 'capstan/base-node']);
  });
  test.after.always(() => engine.stop());

  const workerOf = async (t: ExecutionContext, fn: string, more: Partial<WorkerStart> = {}): Promise<TestWorker> => {
    const runtime = await containerRuntime(t, engine.socket);
    const folder = await folderOf(t, { 'main.py': SOURCE });
    // As an agent whose umask is 0077 unpacks it.
    await chmod(join(folder, 'main.py'), 0o600);
    const worker = startWorkerOf(runtime, folder, fn, more);
    await worker.hear('loaded');
    return worker;
  };

  /** Resolves when the engine has no container any more. */
  const gone = async (): Promise<void> => {
    await until('the engine has no container', async () => (await engine.docker('ps', '-aq')) === '');
  };

  /** An image of a few files, made of nothing else. */
  const imageOf = async (t: ExecutionContext, name: string, files: Readonly<Record<string, string>>): Promise<string> => {
    const folder = await folderOf(t, files);
    const tar = join(await folderOf(t), 'image.tar');
    await create({ file: tar, cwd: folder }, Object.keys(files));
    await engine.docker('import', tar, name);
    return name;
  };

  test.serial('a GPU that cannot be opened in a container is seen from inside of it, in no other one', async (t) => {
    const runtime = await containerRuntime(t, engine.socket);
    const start = async (workerId: string): Promise<string> => {
      const worker = startWorkerOf(runtime, await folderOf(t, { 'main.py': SOURCE }), 'whoami', { workerId });
      await worker.hear('loaded');
      const id = (await engine.docker('ps', '-l', '-q')).trim();
      return (await engine.docker('inspect', '-f', '{{.State.Pid}}', id)).trim();
    };
    const [lost] = [await start('gpu-lost'), await start('gpu-other')];
    t.is(await runtime.gpuProblem('gpu-lost'), undefined, 'without devices nothing is wrong');
    // As systemd leaves it: the file is there, the control group does not allow the device.
    const file = `/proc/${lost}/root/dev/nvidiactl`;
    try {
      await promisify(execFile)('mknod', ['-m', '666', file, 'c', '195', '255']);
    } catch (error) {
      t.log(`skipped: no device files can be made here: ${String(error)}`);
      return;
    }
    t.is(await runtime.gpuProblem('gpu-lost'), 'its GPU cannot be opened from inside: /dev/nvidiactl cannot be opened');
    t.is(await runtime.gpuProblem('gpu-other'), undefined);
    t.is(await runtime.gpuProblem('unknown'), undefined);
  });

  test.serial('what an image requires of the driver is read from its configuration', async (t) => {
    const image = await imageOf(t, 'cuda-app:1', { 'file.txt': 'x' });
    const requirement = 'cuda>=12.4 brand=tesla,driver>=470,driver<471';
    const withEnvironment = async (name: string, ...entries: readonly string[]): Promise<void> => {
      const id = await engine.docker('create', image, 'none');
      await engine.docker('commit', ...entries.flatMap((entry) => ['--change', `ENV ${entry}`]), id, name);
      await engine.docker('rm', id);
    };
    await withEnvironment('cuda-app:2', `NVIDIA_REQUIRE_CUDA="${requirement}"`, 'NVIDIA_VISIBLE_DEVICES=all');
    await withEnvironment('cuda-app:3', `NVIDIA_REQUIRE_CUDA="${requirement}"`, 'NVIDIA_DISABLE_REQUIRE=1');
    const facts = await new ContainerEngine(engine.socket).probe();
    t.deepEqual([...(facts?.requirements ?? [])], [['cuda-app:2', [requirement]]]);
  });

  test.serial('the host name of a container resolves, whatever its network', async (t) => {
    for (const network of ['auto', 'none', 'host']) {
      const runtime = await containerRuntime(t, engine.socket, { network });
      const worker = startWorkerOf(runtime, await folderOf(t, { 'main.py': SOURCE }), 'own_address');
      await worker.hear('loaded');
      const { value } = await worker.call('1', {});
      t.regex(String(value), /^\d+\.\d+\.\d+\.\d+$/, network);
      worker.worker.end(false);
      await worker.hear('exited');
    }
  });

  test.serial('a worker has no rights beyond its user, a root it cannot write, and a /tmp it can', async (t) => {
    const worker = await workerOf(t, 'look', { memoryBytes: 256 * 1024 * 1024, cpuMillis: 500 });
    const status = '/proc/self/status';
    const { value } = await worker.call('1', { paths: [status, '/etc/shadow', '/root/.bashrc'] });
    const found = value as Record<string, string>;
    for (const set of ['CapEff', 'CapPrm', 'CapBnd']) t.regex(found[status] ?? '', new RegExp(`${set}:\\t0+\\n`));
    t.regex(found[status] ?? '', /NoNewPrivs:\t1/);
    t.is(found['/etc/shadow'], 'FileNotFoundError');
    const writer = await workerOf(t, 'write');
    for (const [path, result] of [
      ['/file', 'Read-only file system'],
      ['/capstan/build/file', 'Read-only file system'],
      ['/capstan/channel/file', 'Read-only file system'],
      ['/tmp/file', 'written'],
    ]) {
      t.is((await writer.call(path!, { path })).value, result, path);
    }
  });

  test.serial('values of the environment reach the handler, and nobody who asks the engine', async (t) => {
    const worker = await workerOf(t, 'environment', { env: { API_TOKEN: 'a-secret-value' } });
    const { value } = await worker.call('1');
    t.like(value, { API_TOKEN: 'a-secret-value', HOME: '/tmp' });
    t.false('SERVICE_API_KEY' in (value as object));
    const ids = (await engine.docker('ps', '-q')).split('\n');
    t.false((await engine.docker('inspect', ...ids)).includes('a-secret-value'));
  });

  test.serial('a worker moves into a container that waited: its own build and values, limits as asked, its name', async (t) => {
    const runtime = await containerRuntime(t, engine.socket, { spares: { count: 1, keptMs: 600_000 } });
    const limits = { memoryBytes: 128 * 1024 * 1024, cpuMillis: 500 };
    const first = startWorkerOf(runtime, await folderOf(t, { 'main.py': SOURCE, 'secret.py': '' }), 'whoami', limits);
    await first.hear('loaded');
    first.worker.end(false);
    await first.hear('exited');
    await until('a spare container runs', () => runtime.spares > 0);
    const id = await engine.docker('ps', '-q', '--no-trunc');
    t.regex(id, /^[0-9a-f]{64}$/, 'the spare alone');

    const source = `${SOURCE}\ndef here(): return [sorted(os.listdir(".")), os.getcwd(), dict(os.environ)]\n`;
    const folder = await folderOf(t, { 'main.py': source });
    const worker = startWorkerOf(runtime, folder, 'here', { ...limits, workerId: 'w-2', env: { API_TOKEN: 'a-secret-value' } });
    await worker.hear('loaded');
    const { value } = await worker.call('1');
    const [files, cwd, env] = value as [string[], string, Record<string, string>];
    t.deepEqual(
      files.filter((name) => name !== '__pycache__'),
      ['main.py'],
    );
    t.is(cwd, '/tmp/capstan-work');
    t.like(env, { API_TOKEN: 'a-secret-value', HOME: '/tmp', CAPSTAN_WORKER_ID: 'w-2', CUDA_VISIBLE_DEVICES: '' });
    const [found] = JSON.parse(await engine.docker('inspect', id)) as [{ Name: string; HostConfig: Record<string, unknown> }];
    t.like(found.HostConfig, { Memory: limits.memoryBytes, NanoCpus: 500_000_000 });
    t.regex(found.Name, /^\/capstan-w-2-/);
    t.false(JSON.stringify(found).includes('a-secret-value'));
    worker.worker.end(false);
    t.is((await worker.hear('exited')).detail, 'the worker was stopped');
    await runtime.close();
    t.is(await engine.docker('ps', '-aq'), '');
  });

  test.serial('the image decides the user', async (t) => {
    await engine.docker('tag', 'capstan/base-python', 'capstan-test/root:1');
    const id = await engine.docker('create', 'capstan-test/root:1', 'python3');
    await engine.docker('commit', '--change', 'USER 12345', id, 'capstan-test/user:1');
    await engine.docker('rm', id);
    const worker = await workerOf(t, 'whoami', { image: 'capstan-test/user:1' });
    t.is((await worker.call('1')).value, 12345);
  });

  test.serial('what left its session ends with the container, too', async (t) => {
    const worker = await workerOf(t, 'escapes');
    await worker.call('1');
    const [id = ''] = (await engine.docker('ps', '-q')).split('\n');
    const processes = (await engine.docker('top', id, '-eo', 'pid,args')).split('\n');
    const sleep = processes
      .find((line) => line.includes('sleep 300'))
      ?.trim()
      .split(' ')[0];
    t.truthy(sleep);
    worker.worker.end(false);
    await worker.hear('exited');
    const left = await readFile(`/proc/${sleep!}/cmdline`, 'utf8').catch(() => '');
    t.false(left.includes('sleep'));
  });

  test.serial('an image without what a language needs is told with what that is', async (t) => {
    const image = await imageOf(t, 'capstan-test/empty:1', { 'etc/nothing': '' });
    const runtime = await containerRuntime(t, engine.socket);
    for (const [file, needs] of [
      ['main.py', NEEDS.python],
      ['main.ts', NEEDS.node],
    ] as const) {
      const worker = startWorkerOf(runtime, await folderOf(t, { [file]: '' }), 'fn', { image });
      const { detail } = await worker.hear('exited');
      t.regex(detail, /executable file not found|no such file/i);
      t.true(detail.endsWith(` (${needs})`), detail);
    }
    await runtime.close();
    t.is(await engine.docker('ps', '-aq'), '');
  });

  test.serial('a worker serves on while the engine is started anew, and ends in order after it', async (t) => {
    const worker = await workerOf(t, 'whoami');
    await engine.restart();
    t.is((await worker.call('1')).value, 60_000);
    t.false(worker.said.items.some(({ say }) => say === 'exited'));
    worker.worker.end(false);
    await worker.hear('exited');
    await gone();
    t.pass();
  });

  /** An agent as a process of its own, with one worker in Python that waits in its handler. */
  const agentThatWaits = async (t: ExecutionContext, scheduler: FakeScheduler, dataDir: string): Promise<() => Promise<void>> => {
    const build = await addBuild(t, scheduler, { 'main.py': SOURCE });
    const config = {
      dataDir,
      scheduler: scheduler.address,
      joinToken: JOIN_TOKEN,
      logLevel: 'silent',
      nvidiaSmi: '/nonexistent/nvidia-smi',
      containerSocket: engine.socket,
      spareHosts: 0,
      hostEnv: { PATH: '/usr/local/bin:/usr/bin:/bin' },
    };
    const agent = spawn(process.execPath, [AGENT, JSON.stringify(config)], { stdio: 'ignore' });
    t.teardown(() => agent.kill('SIGKILL'));
    await scheduler.hello();
    scheduler.desire([{ runtime: 'container' }], [{ ...build, runtime: '', functions: [functionSpec('waits')] }]);
    await scheduler.worker('w1', ({ state }) => state === 'WORKER_STATE_IDLE');
    scheduler.dispatch({ jobId: 'j1' });
    await scheduler.hear('started');
    return async () => {
      agent.kill('SIGKILL');
      await once(agent, 'exit');
    };
  };

  test.serial('kill -9 of the agent ends its containers; the next one on its folder takes them away', async (t) => {
    const scheduler = await startScheduler(t);
    const dataDir = await folderOf(t);
    const kill = await agentThatWaits(t, scheduler, dataDir);
    t.not(await engine.docker('ps', '-q'), '');
    await kill();
    // They end by themselves: nobody tells the engine.
    await until('no container runs', async () => (await engine.docker('ps', '-q')) === '');
    t.not(await engine.docker('ps', '-aq'), '');
    await startAgent(t, scheduler, { dataDir, containerSocket: engine.socket });
    await gone();
    t.pass();
  });

  test.serial('an image that speaks the worker protocol itself serves jobs, and ends in order', async (t) => {
    const program = await readFile(join(import.meta.dirname, 'foreign_worker.py'), 'utf8');
    const folder = await folderOf(t);
    await writeFile(join(folder, 'worker.py'), program);
    const id = await engine.docker('create', 'capstan/base-python', 'python3');
    await engine.docker('cp', join(folder, 'worker.py'), `${id}:/worker.py`);
    await engine.docker('commit', '--change', 'ENTRYPOINT ["python3", "/worker.py"]', id, 'capstan-test/foreign:1');
    await engine.docker('rm', id);

    const scheduler = await startScheduler(t);
    const agent = await startAgent(t, scheduler, { containerSocket: engine.socket, workerPingMs: 1_000 });
    await scheduler.hello();
    const release = { image: 'capstan-test/foreign:1', runtime: 'container', functions: [], buildDigest: '', env: { NAME: folder } };
    scheduler.desire([{ runtime: 'container' }], [release]);
    await scheduler.worker('w1', ({ state }) => state === 'WORKER_STATE_IDLE');
    scheduler.dispatch({ jobId: 'j1' }, { do: 'raw', body: '{"output":{"done":true}}' });
    const ended = await scheduler.ended('j1');
    t.is(ended.outcome, 'ATTEMPT_OUTCOME_COMPLETED');
    t.deepEqual(scheduler.valueOf(ended.output), { done: true });

    // What a stopped job started ends with it, and the worker serves on.
    const children = (): number => processesOf(`NAME=${folder}`).filter(({ command }) => command.startsWith('sleep ')).length;
    const from = scheduler.now;
    scheduler.dispatch({ jobId: 'j2' }, { do: 'children' });
    await scheduler.hear('progress', () => true, from);
    t.is(children(), 2);
    scheduler.send({ $case: 'stop', value: { jobId: 'j2', token: 1, reason: 'STOP_REASON_CANCELLED' } });
    t.like(await scheduler.ended('j2'), { outcome: 'ATTEMPT_OUTCOME_STOPPED', started: true });
    t.is(children(), 0);
    scheduler.dispatch({ jobId: 'j3' }, { do: 'raw', body: '{"output":3}' });
    t.is(scheduler.valueOf((await scheduler.ended('j3')).output), 3);
    await agent.close();
    t.is(await engine.docker('ps', '-aq'), '');
  });
} else {
  test.skip(`containers: skipped, a container engine of its own ${noEngine}`, (t) => t.pass());
}
