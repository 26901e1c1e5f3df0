/** The check of a GPU host (deploy/gpu-check) against a fake nvidia-smi: all of it but what CUDA computes. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test from 'ava';

import { findEngine } from '../../deploy/gpu-check/engine.ts';
import { makeImage } from '../../deploy/gpu-check/image.ts';
import { lacking, noEngine, startEngine } from '../support/container/private-engine.ts';
import { folderOf } from '../support/folder.ts';
import { root, GPU, type Row, fakeSmi, check } from './host-under-test.ts';

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

test.serial('a fact that differs from nvidia-smi fails the check and names it', async (t) => {
  t.timeout(200_000);
  const { code, rows, said } = await check(t, (folder) => fakeSmi(folder, 40_960));
  t.is(code, 1, said);
  const wrong = rows.find((row) => row.result === 'fail');
  t.like(wrong, { check: 'inventory: each GPU, with its facts', value: 'memory 81920 MiB, not 40960' }, said);
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
