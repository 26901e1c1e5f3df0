/**
 * Checks an installation on the GPUs of this machine (`run` starts it): prints a table, and writes `gpu-check.json` and a capture of
 * nvidia-smi into the folder of `--out`. Exits with 1 when a check fails. Without CUDA or torch the checks that need them are
 * skipped with the reason.
 */
import { execFile } from 'node:child_process';
import { cp, mkdir, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { parseArgs, promisify } from 'node:util';

import { checkFacts, checkGauges, checkUnderLoad } from './inventory.ts';
import { checkLeak, checkOutOfMemory, checkReturn } from './memory.ts';
import { gpus, program, report as nvidiaReport } from './nvidia.ts';
import { Report } from './report.ts';
import { Service } from './service.ts';
import { checkColdStart, checkKernels, checkMatmul, checkWeights } from './speed.ts';
import { checkPython, checkThread } from './visibility.ts';
import type { World } from './world.ts';

/** From strong to weak: everything is measured at the first that works here, the others only show what their workers see. */
const LEVELS = ['sandbox', 'user', 'none'] as const;
const CUDA_CHECKS = [
  'inventory: gauges under load',
  'cold start with torch, and the first CUDA call',
  'bf16 matrix products, worker ÷ bare process',
  '2 GB of safetensors to the GPU ÷ reading the file',
  'memory returned after the end of a worker',
  'starts and ends of workers',
  'out of memory in CUDA',
  'jobs/s of 1 ms kernels',
];

const { values } = parseArgs({
  options: {
    install: { type: 'string' },
    work: { type: 'string' },
    out: { type: 'string', default: '.' },
    seconds: { type: 'string', default: '30' },
  },
});
const install = resolve(values.install ?? '');
const work = resolve(values.work ?? '');
const out = resolve(values.out);
const report = new Report();

/** Why torch cannot be used by a bare process here; empty where it can. */
async function whyNoTorch(): Promise<string> {
  const script =
    'import torch, os; assert torch.cuda.is_available(), "torch finds no CUDA device"; print(os.path.dirname(os.path.dirname(torch.__file__)))';
  try {
    const { stdout } = await promisify(execFile)('python3', ['-c', script], { timeout: 120_000 });
    report.fact('torch', stdout.trim());
    torchFolder = stdout.trim();
    return '';
  } catch (error) {
    const lines = String((error as { stderr?: string }).stderr ?? error).trim();
    return lines.split('\n').at(-1) ?? 'python3 does not run';
  }
}

let torchFolder = '';

async function checkLevel(level: (typeof LEVELS)[number], isFirst: boolean, withoutTorch: string): Promise<boolean> {
  const folder = join(work, level);
  const paths = [work, ...(torchFolder === '' || torchFolder.startsWith('/usr/') ? [] : [torchFolder])];
  let service: Service;
  try {
    service = await Service.start(install, folder, { CAPSTAN_ISOLATION: level, CAPSTAN_SANDBOX_PATHS: paths.join(':') });
  } catch (error) {
    report.skip(`isolation ${level}`, error instanceof Error ? error.message : String(error));
    return false;
  }
  try {
    const app = join(folder, 'app');
    await cp(join(import.meta.dirname, 'app'), app, { recursive: true });
    const endpoints = await service.deploy(app);
    const world: World = { report, service, gpu: endpoints.get('gpu') ?? '', work, seconds: Number(values.seconds) };
    if (isFirst) {
      await checkFacts(world);
      await checkGauges(world, 'idle');
    }
    const reason = await checkPython(world, level);
    await checkThread(world, endpoints.get('gpu-thread') ?? '', level);
    if (isFirst) await checkCuda(world, withoutTorch === '' ? reason : withoutTorch);
    return true;
  } catch (error) {
    report.add(`isolation ${level}`, false, error instanceof Error ? error.message : String(error), 'the service deploys and runs jobs');
    return true;
  } finally {
    await service.close();
  }
}

async function checkCuda(world: World, reason: string): Promise<void> {
  if (reason !== '') {
    for (const check of CUDA_CHECKS) report.skip(check, reason);
    return;
  }
  await checkColdStart(world);
  await checkUnderLoad(world);
  await checkMatmul(world);
  await checkWeights(world);
  await checkKernels(world);
  await checkOutOfMemory(world);
  await checkReturn(world);
  await checkLeak(world);
}

await mkdir(out, { recursive: true });
try {
  const rows = await gpus();
  console.log(`=> ${rows.map((row) => `${row.name}, driver ${row.driver_version}`).join('; ')}`);
  await writeFile(join(out, 'nvidia-smi.xml'), await nvidiaReport());
} catch (error) {
  console.error(`✗ ${program} does not answer: ${error instanceof Error ? error.message : String(error)}`);
  process.exit(1);
}
const withoutTorch = await whyNoTorch();
let isFirst = true;
for (const level of LEVELS) if (await checkLevel(level, isFirst, withoutTorch)) isFirst = false;
console.log(`\nreport: ${await report.write(out)}`);
process.exitCode = report.failed > 0 || isFirst ? 1 : 0;
