/** The check of a GPU host (deploy/gpu-check) against a fake nvidia-smi: all of it but what CUDA computes. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test, { type ExecutionContext } from 'ava';

import { findEngine } from '../../deploy/gpu-check/engine.ts';
import { makeImage } from '../../deploy/gpu-check/image.ts';
import { writeFakeSmi } from '../agent/fake-nvidia-smi.ts';
import { lacking, noEngine, startEngine } from '../support/container/private-engine.ts';
import { run, type Run } from '../cli/fakes/run.ts';
import { folderOf } from '../support/folder.ts';
import { processesOf } from '../support/processes.ts';
import { until } from '../support/until.ts';

const root = join(import.meta.dirname, '../..');
const GPU = { uuid: 'GPU-a', name: 'NVIDIA A100', memoryMiB: 81_920 };

interface Options {
  readonly args?: readonly string[];
  readonly env?: NodeJS.ProcessEnv;
}

interface Row {
  readonly check: string;
  readonly result: 'pass' | 'fail' | 'skip';
  readonly value: string;
}

/** An installation whose programs are those of this checkout. */
async function installation(folder: string): Promise<string> {
  const programs = join(folder, 'install/node_modules/.bin');
  await mkdir(programs, { recursive: true });
  for (const [name, command] of [
    ['node', `exec "${process.execPath}" "$@"`],
    ['capstan', `exec "${process.execPath}" "${join(root, 'cli/main.ts')}" "$@"`],
  ] as const) {
    await writeFile(join(programs, name), `#!/bin/sh\n${command}\n`);
    await chmod(join(programs, name), 0o755);
  }
  return join(folder, 'install');
}

/** Prints what the check itself asks for; `memory` in MiB. */
async function fakeSmi(folder: string, memory: number): Promise<string> {
  const agents = await writeFakeSmi(join(folder, 'agent'), { gpus: [GPU] });
  const own = `${GPU.uuid}, ${GPU.name}, ${memory}, 12, 550.1, 7, 40, 67.03, [N/A], [N/A]`;
  const path = join(folder, 'nvidia-smi');
  const cases = [
    `*ecc.errors*) echo '${own}';;`,
    // A driver that has dropped the earlier name of the column.
    `*=uuid,clocks_event_reasons*) echo '${GPU.uuid}, 0x0000000000000001';;`,
    `*=memory.used*) echo 12;;`,
    `*) exec '${agents}' "$@";;`,
  ];
  await writeFile(path, `#!/bin/sh\ncase "$*" in\n${cases.join('\n')}\nesac\n`);
  await chmod(path, 0o755);
  return path;
}

interface Outcome {
  readonly code: number;
  readonly rows: readonly Row[];
  readonly xml: string;
  readonly said: string;
}

async function check(t: ExecutionContext, smi: (folder: string) => Promise<string>, options: Options = {}): Promise<Outcome> {
  const folder = await folderOf(t);
  const out = join(folder, 'out');
  const args = [await installation(folder), '--out', out, '--seconds', '1', '--starts', '3', ...(options.args ?? [])];
  const env = {
    ...process.env,
    CAPSTAN_NVIDIA_SMI: await smi(folder),
    CAPSTAN_CONTAINER_SOCKET: 'none',
    TMPDIR: folder,
    ...options.env,
  };
  const { code, said } = await promisify(execFile)(join(root, 'deploy/gpu-check/run'), args, { env }).then(
    ({ stdout }) => ({ code: 0, said: stdout }),
    (error: unknown) => {
      const { code: exit, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
      return { code: exit, said: `${stdout}\n${stderr}` };
    },
  );
  const { rows } = JSON.parse(await readFile(join(out, 'gpu-check.json'), 'utf8')) as { rows: Row[] };
  return { code, rows, xml: await readFile(join(out, 'nvidia-smi.xml'), 'utf8'), said };
}

test.serial('on a host without CUDA everything else passes, and what needs CUDA is skipped with the reason', async (t) => {
  t.timeout(200_000);
  const { code, rows, xml, said } = await check(t, (folder) => fakeSmi(folder, GPU.memoryMiB));
  const of = (result: Row['result']): string[] => rows.filter((row) => row.result === result).map((row) => row.check);
  t.deepEqual(of('fail'), [], said);
  t.is(code, 0, said);
  for (const name of ['inventory: each GPU, with its facts', 'inventory: Xid and ECC are read', 'inventory: gauges idle'])
    t.true(of('pass').includes(name), said);
  for (const name of ['worker, Python, none: sees its GPU alone', 'worker, threads, none: sees its GPU alone'])
    t.true(of('pass').includes(name), said);
  t.true(of('skip').includes('bf16 matrix products, worker ÷ bare process'), said);
  t.true(rows.filter((row) => row.result === 'skip').every((row) => row.value !== ''));
  t.regex(xml, /<nvidia_smi_log>/);
});

(noEngine === undefined ? test.serial : test.serial.skip)(
  `workers in containers are checked with an image of this machine, which is removed${noEngine === undefined ? '' : ` (skipped: an engine ${noEngine})`}`,
  async (t) => {
    t.timeout(200_000);
    const runsc = lacking(['runsc']) === undefined ? (await promisify(execFile)('which', ['runsc'])).stdout.trim() : undefined;
    if (runsc === undefined) t.log('skipped: gVisor is not installed');
    // No network of its own: older versions cannot make one on newer kernels.
    const runtimes = runsc === undefined ? {} : { runsc: { path: runsc, runtimeArgs: ['--host-uds=open', '--network=none'] } };
    const engine = await startEngine(['capstan-other:1'], { runtimes });
    t.teardown(() => engine.stop());
    const env = { CAPSTAN_CONTAINER_SOCKET: engine.socket };
    const { code, rows, said } = await check(t, (folder) => fakeSmi(folder, GPU.memoryMiB), { env, args: ['--levels', 'none,container'] });
    t.is(code, 0, said);
    const of = (level: string): Row | undefined => rows.find((row) => row.check === `worker, Python, ${level}: sees its GPU alone`);
    t.like(of('container'), { result: 'pass', value: 'GPU-a, no torch' }, said);
    if (runsc === undefined) t.is(rows.find((row) => row.check === 'isolation gVisor')?.value, 'the engine has no runtime runsc');
    else t.like(of('gVisor'), { result: 'pass', value: 'GPU-a, no torch' }, said);
    t.is(await engine.docker('images', '--format', '{{.Repository}}'), 'capstan-other', 'the image is removed');

    const torchFolder = await folderOf(t);
    await mkdir(join(torchFolder, 'torch/tests'), { recursive: true });
    await writeFile(join(torchFolder, 'torch/__init__.py'), '__version__ = "9.9"\n');
    const found = await findEngine(engine.socket);
    if (found === undefined) throw new Error('the engine is not found');
    const spec = { engine: found, name: 'with-torch:1', work: await folderOf(t), torchFolder };
    t.is(await makeImage({ ...spec, torchMs: 60_000 }), '');
    const script = `import sys; sys.path.append("${torchFolder}"); import torch; print(torch.__version__)`;
    t.is(await engine.docker('run', '--rm', '--network', 'none', 'with-torch:1', 'python3', '-c', script), '9.9');
    t.is(await makeImage({ ...spec, torchMs: 1_000 }), 'no time is left for an image with torch');
  },
);

test.serial('capstan node check goes on with workers of a service of its own, and writes the report', async (t) => {
  t.timeout(200_000);
  const folder = await folderOf(t);
  const file = join(folder, 'agent.env');
  const smi = await fakeSmi(folder, GPU.memoryMiB);
  // Another node's data and scheduler: the check takes neither.
  const settings = `CAPSTAN_NVIDIA_SMI=${smi}\nCAPSTAN_CONTAINER_SOCKET=none\nCAPSTAN_SCHEDULER=192.0.2.1:7070\nCAPSTAN_DATA_DIR=${folder}/node\n`;
  await writeFile(file, settings);
  const out = join(folder, 'out');
  const args = ['node', 'check', '--json', '--env-file', file, '--workers', '--levels', 'none,container', '--out', out];
  const env = { PATH: process.env['PATH'], HOME: folder, TMPDIR: folder };
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [join(root, 'cli/main.ts'), ...args], { env });
  const rows = JSON.parse(stdout) as Row[];
  const of = (name: string): Row | undefined => rows.find((row) => row.check === name);
  t.like(of('inventory of GPU-a'), { result: 'pass' }, stderr);
  t.like(of('worker, Python, none: sees its GPU alone'), { result: 'pass' }, stderr);
  t.like(of('isolation container'), { result: 'skip', value: 'no container engine here' }, stderr);
  t.regex(stderr, /✓ worker, Python, none/);
  const report = JSON.parse(await readFile(join(out, 'gpu-check.json'), 'utf8')) as { rows: Row[] };
  t.true(report.rows.some((row) => row.check === 'worker, Python, none: sees its GPU alone'));
  t.false(existsSync(join(folder, 'node')));
});

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

test.serial('a fact that differs from nvidia-smi fails the check and names it', async (t) => {
  t.timeout(200_000);
  const { code, rows, said } = await check(t, (folder) => fakeSmi(folder, 40_960));
  t.is(code, 1, said);
  const wrong = rows.find((row) => row.result === 'fail');
  t.like(wrong, { check: 'inventory: each GPU, with its facts', value: 'memory 81920 MiB, not 40960' }, said);
});

/**
 * A GPU whose driver library is compiled here and whose nvidia-smi adds up what that library was asked for. Returns nvidia-smi's path;
 * undefined where there is no compiler.
 */
async function fakeCuda(folder: string): Promise<string | undefined> {
  const [held, lib] = [join(folder, 'held'), join(folder, 'lib')];
  await mkdir(held);
  await chmod(held, 0o1777);
  await mkdir(lib);
  const source = join(import.meta.dirname, 'fake-cuda/libcuda.c');
  try {
    await promisify(execFile)('cc', ['-shared', '-fPIC', `-DHELD="${held}"`, '-o', join(lib, 'libcuda.so.1'), source]);
  } catch {
    return undefined;
  }
  const ecc = '<volatile><sram_uncorrectable>0</sram_uncorrectable></volatile>';
  const agents = await writeFakeSmi(join(folder, 'agent'), { gpus: [{ ...GPU, ecc }] });
  const path = join(folder, 'nvidia-smi');
  const start = `${GPU.uuid}, ${GPU.name}, ${GPU.memoryMiB}, $used, 550.1, $busy, 40`;
  const cases = [
    `*ecc.errors*) echo "${start}, 67.03, [N/A], 0";;`,
    `*=uuid,clocks_event_reasons*) echo '${GPU.uuid}, 0x0000000000000001';;`,
    `*=memory.used*) echo $used;;`,
    `*compute_cap*) echo "${start}, 00000000:01:00.0, [N/A], 67.03, [N/A], 8.0, 0x0000000000000001";;`,
    `*) exec '${agents}' "$@";;`,
  ];
  await writeFile(
    path,
    `#!/bin/sh
used=12 busy=7
for file in '${held}'/*; do
  if grep -q libcuda "/proc/\${file##*/}/maps" 2>/dev/null; then
    mebibytes=$(cat "$file")
    used=$((used + \${mebibytes:-0})) busy=97
  fi
done
case "$*" in
${cases.join('\n')}
esac
`,
  );
  await chmod(path, 0o755);
  return path;
}

test.serial('with CUDA, here a fake one, every check measures, and workers give all memory back', async (t) => {
  t.timeout(300_000);
  const folder = await folderOf(t);
  const smi = await fakeCuda(folder);
  if (smi === undefined) {
    t.log('skipped: no C compiler for the fake driver library');
    t.pass();
    return;
  }
  const env = {
    LD_LIBRARY_PATH: join(folder, 'lib'),
    PYTHONPATH: join(import.meta.dirname, 'fake-cuda'),
    CAPSTAN_INVENTORY_MS: '500',
  };
  const { rows, said } = await check(t, async () => smi, { env, args: ['--levels', 'none'] });
  const failed = rows.filter(({ check: name, result }) => result === 'fail' && !/÷/.test(name));
  t.deepEqual(failed, [], said);
  for (const name of ['bf16 matrix products, worker ÷ bare process', '2 GB of safetensors to the GPU ÷ reading the file'])
    t.regex(rows.find((row) => row.check === name)?.value ?? '', /^\d+\.\d+ of \d/, said);
  for (const how of ['a worker’s end', 'a cancelled job', 'a time-out', 'kill -9 of a worker'])
    t.is(rows.find((row) => row.check === `memory returned after ${how}`)?.result, 'pass', said);
  t.regex(rows.find((row) => row.check.includes('starts and ends'))?.value ?? '', /^0 MiB$/, said);
  t.regex(rows.find((row) => row.check === 'out of memory in CUDA')?.value ?? '', /^FAILED: .*out of memory/i, said);
});

test.serial('a check whose time is over ends with a report of what it had measured', async (t) => {
  t.timeout(100_000);
  const { code, rows, said } = await check(t, (folder) => fakeSmi(folder, GPU.memoryMiB), { args: ['--limit', '13'] });
  t.is(code, 1, said);
  t.true(rows.length > 0, said);
  t.true(
    rows.some(({ result, value }) => result === 'fail' && /not run|not within|is over/.test(value)),
    said,
  );
});
