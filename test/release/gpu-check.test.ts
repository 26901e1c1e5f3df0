/** The check of a GPU host (deploy/gpu-check) against a fake nvidia-smi: all of it but what CUDA computes. */
import { execFile } from 'node:child_process';
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test, { type ExecutionContext } from 'ava';

import { writeFakeSmi } from '../agent/fake-nvidia-smi.ts';
import { folderOf } from '../support/folder.ts';

const root = join(import.meta.dirname, '../..');
const GPU = { uuid: 'GPU-a', name: 'NVIDIA A100', memoryMiB: 81_920 };

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
  const own = `${GPU.uuid}, ${GPU.name}, ${memory}, 12, 550.1, 7, 40, 67.03, [N/A], [N/A], 0x0000000000000001`;
  const path = join(folder, 'nvidia-smi');
  await writeFile(path, `#!/bin/sh\ncase "$*" in\n*ecc.errors*) echo '${own}';;\n*compute-apps*) ;;\n*) exec '${agents}' "$@";;\nesac\n`);
  await chmod(path, 0o755);
  return path;
}

async function check(t: ExecutionContext, memory: number): Promise<{ code: number; rows: readonly Row[]; xml: string; said: string }> {
  const folder = await folderOf(t);
  const out = join(folder, 'out');
  const args = [await installation(folder), '--out', out, '--seconds', '1'];
  const env = { ...process.env, CAPSTAN_NVIDIA_SMI: await fakeSmi(folder, memory), CAPSTAN_CONTAINER_SOCKET: 'none', TMPDIR: folder };
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
  const { code, rows, xml, said } = await check(t, GPU.memoryMiB);
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

test.serial('a fact that differs from nvidia-smi fails the check and names it', async (t) => {
  t.timeout(200_000);
  const { code, rows, said } = await check(t, 40_960);
  t.is(code, 1, said);
  const wrong = rows.find((row) => row.result === 'fail');
  t.like(wrong, { check: 'inventory: each GPU, with its facts', value: 'memory 81920 MiB, not 40960' }, said);
});
