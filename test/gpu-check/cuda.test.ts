/** The check of a GPU host with a driver library that only counts. */
import { execFile } from 'node:child_process';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import test from 'ava';
import { writeFakeSmi } from '../agent/fake-nvidia-smi.ts';
import { folderOf } from '../support/folder.ts';
import { GPU, check } from './host-under-test.ts';

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
