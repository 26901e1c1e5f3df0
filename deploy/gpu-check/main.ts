/**
 * Checks an installation on the GPUs of this machine (`run` starts it): prints a table, and writes `gpu-check.json` and a capture of
 * nvidia-smi into the folder of `--out`. Exits with 1 when a check fails. Without CUDA or torch the checks that need them are
 * skipped with the reason. Every check has a limit of time and the whole has one: what does not fit is a failure, and the report
 * shows what was measured until then.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdir, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { parseArgs, promisify } from 'node:util';

import { checkFacts, checkGauges, checkThrottle, checkUnderLoad } from './inventory.ts';
import { checkContainers } from './containers.ts';
import { checkLeak, checkOutOfMemory, checkReturn } from './memory.ts';
import { gpus, keepAwake, program, report as nvidiaReport } from './nvidia.ts';
import { Report } from './report.ts';
import { Service } from './service.ts';
import { checkColdStart, checkKernels, checkMatmul, checkWeights } from './speed.ts';
import { checkPython, checkThread } from './visibility.ts';
import type { World } from './world.ts';

/** From strong to weak: everything is measured at the first that works here, the others only show what their workers see. */
const LEVELS = ['sandbox', 'user', 'none'] as const;
const CONTAINER = 'container';
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
const TORCH_MS = 60_000;
/** After the limit of the whole check, for the end of the service and the removal of the image, ms. */
const END_MS = 20_000;

const { values } = parseArgs({
  options: {
    install: { type: 'string' },
    // In the place of an installation: the tool's program, which this Node runs.
    tool: { type: 'string' },
    work: { type: 'string' },
    out: { type: 'string', default: '.' },
    seconds: { type: 'string', default: '30' },
    limit: { type: 'string', default: '345' },
    starts: { type: 'string', default: '20' },
    levels: { type: 'string', default: [...LEVELS, CONTAINER].join() },
    begun: { type: 'string' },
  },
});
const levels = values.levels.split(',');
const command =
  values.tool === undefined ? [join(resolve(values.install ?? ''), 'node_modules/.bin/capstan')] : [process.execPath, resolve(values.tool)];
const work = resolve(values.work ?? '');
const out = resolve(values.out);
/** Unpacking the bundle counts. */
const begunAt = values.begun === undefined ? Date.now() : Number(values.begun) * 1_000;
const endsAt = begunAt + Number(values.limit) * 1_000;

await mkdir(out, { recursive: true });
let running: Service | undefined;
/** Removes the image that is made or in use now. */
let removeImage: (() => Promise<void>) | undefined;
let stopping: Promise<never> | undefined;
let torchFolder = '';
const left = (): number => endsAt - Date.now();
const report = new Report(out, { left, abandon: async () => running?.cancelOpen() });

/** Ends the check from outside of its course; the document has all rows so far. */
async function stop(reason: string): Promise<never> {
  report.add('the check itself', false, reason, 'ends by itself');
  report.close();
  setTimeout(() => process.exit(1), END_MS);
  await Service.end().catch(() => undefined);
  // Only now: an engine keeps the image of a running container.
  await removeImage?.().catch(() => undefined);
  console.log(`\nreport: ${report.file}`);
  process.exit(1);
}

/** A terminal signals the whole group, and whoever started this process may pass the same signal on: the first one counts. */
function stopOnce(reason: string): void {
  stopping ??= stop(reason);
}
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => stopOnce(signal));
process.on('uncaughtException', (error) => stopOnce(error instanceof Error ? (error.stack ?? error.message) : String(error)));
setTimeout(() => stopOnce('the time of the whole check is over'), Math.max(0, endsAt - Date.now())).unref();

/** Why torch cannot be used by a bare process here; empty where it can. */
async function whyNoTorch(): Promise<string> {
  const script =
    'import torch, os; assert torch.cuda.is_available(), "torch finds no CUDA device"; print(torch.__version__, torch.version.cuda, os.path.dirname(os.path.dirname(torch.__file__)), sep="\\n")';
  try {
    const { stdout } = await promisify(execFile)('python3', ['-c', script], { timeout: TORCH_MS });
    const [version = '', cuda = '', folder = ''] = stdout.trim().split('\n').slice(-3);
    report.fact('torch', { version, cuda, folder });
    torchFolder = folder;
    return '';
  } catch (error) {
    const lines = String((error as { stderr?: string }).stderr || error).trim();
    return lines.split('\n').at(-1) ?? 'python3 does not run';
  }
}

async function checkLevel(level: (typeof LEVELS)[number], isFirst: boolean, withoutTorch: string): Promise<boolean> {
  const folder = join(work, level);
  // A driver's libraries can be outside of /usr, too, as in containers of some clouds.
  const libraries = (process.env['LD_LIBRARY_PATH'] ?? '').split(':').filter((path) => path.startsWith('/') && existsSync(path));
  const paths = [work, ...[torchFolder, ...libraries].filter((path) => path !== '' && !path.startsWith('/usr/'))];
  try {
    running = await Service.start(command, folder, {
      CAPSTAN_ISOLATION: level,
      CAPSTAN_SANDBOX_PATHS: paths.join(':'),
      // Otherwise base images of an engine would run the workers.
      CAPSTAN_CONTAINER_SOCKET: 'none',
    });
  } catch (error) {
    report.skip(`isolation ${level}`, error instanceof Error ? error.message : String(error));
    return false;
  }
  try {
    const app = join(folder, 'app');
    await cp(join(import.meta.dirname, 'app'), app, { recursive: true });
    if (torchFolder !== '') await writeFile(join(app, 'torch-folder.txt'), torchFolder);
    const endpoints = await running.deploy(app);
    const figures = { seconds: Number(values.seconds), starts: Number(values.starts), left };
    const world: World = { report, service: running, gpu: endpoints.get('gpu') ?? '', work, ...figures };
    if (isFirst) {
      await checkFacts(world);
      await checkGauges(world);
      await checkThrottle(world);
    }
    const reason = await checkPython(world, level);
    await checkThread(world, endpoints.get('gpu-thread') ?? '', level);
    if (isFirst) await checkCuda(world, withoutTorch === '' ? reason : withoutTorch);
    return true;
  } catch (error) {
    report.add(`isolation ${level}`, false, error instanceof Error ? error.message : String(error), 'the service deploys and runs jobs');
    return true;
  } finally {
    await running.close();
    running = undefined;
  }
}

/** The order is that of importance: what the time does not suffice for is at the end. */
async function checkCuda(world: World, reason: string): Promise<void> {
  if (reason !== '') {
    for (const check of CUDA_CHECKS) report.skip(check, reason);
    return;
  }
  await checkColdStart(world);
  await checkUnderLoad(world);
  await checkMatmul(world);
  await checkReturn(world);
  await checkOutOfMemory(world);
  await checkWeights(world);
  await checkKernels(world);
  await checkLeak(world);
}

try {
  const rows = await gpus();
  console.log(`=> ${rows.map((row) => `${row.name}, driver ${row.driver_version}`).join('; ')}`);
  report.fact('deviceFilesKept', await keepAwake());
  await writeFile(join(out, 'nvidia-smi.xml'), await nvidiaReport());
} catch (error) {
  console.error(`✗ ${program} does not answer: ${error instanceof Error ? error.message : String(error)}`);
  process.exit(1);
}
const withoutTorch = await whyNoTorch();
let isFirst = true;
for (const level of LEVELS.filter((each) => levels.includes(each))) if (await checkLevel(level, isFirst, withoutTorch)) isFirst = false;
if (levels.includes(CONTAINER))
  await checkContainers({
    ...{ report, command, work, torchFolder, left },
    onService: (service) => (running = service),
    onImage: (remove) => (removeImage = remove),
  });
await stopping;
report.fact('seconds', Math.round((Date.now() - begunAt) / 1_000));
console.log(`\nreport: ${report.file}`);
process.exit(report.failed > 0 || isFirst ? 1 : 0);
