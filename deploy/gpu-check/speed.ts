/** What the service costs a GPU: matrix products, weights, and many short kernels. */
import { execFile } from 'node:child_process';
import { open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';

import { act, type World } from './world.ts';

const MATMUL_S = 4;
const MATMUL_SIZE = 8_192;
const MATMUL_RATIO = 0.98;
const WEIGHTS_BYTES = 2 * 2 ** 30;
const WEIGHTS_RATIO = 0.7;
const BLOCK_BYTES = 64 << 20;
const KERNELS_PER_SECOND = 100;

export async function checkColdStart(world: World): Promise<void> {
  await world.report.run('cold start with torch, and the first CUDA call', 'measured', 60, async () => {
    const begun = performance.now();
    const { import: imported, first } = await act<{ import: number; first: number }>(world, 'first_call');
    const all = (performance.now() - begun) / 1_000;
    return { passed: true, value: `${all.toFixed(1)} s: import ${imported.toFixed(1)} s, first call ${first.toFixed(2)} s` };
  });
}

/** The service before and after the bare process: clocks change with the temperature. */
export async function checkMatmul(world: World): Promise<void> {
  await world.report.run('bf16 matrix products, worker ÷ bare process', `≥ ${MATMUL_RATIO}`, 75, async () => {
    const own = [await act<number>(world, 'matmul', { seconds: MATMUL_S, size: MATMUL_SIZE })];
    const script = join(import.meta.dirname, 'bare_matmul.py');
    const { stdout } = await promisify(execFile)('python3', [script, String(MATMUL_S), String(MATMUL_SIZE)], { timeout: 45_000 });
    const bare = Number(stdout);
    own.push(await act<number>(world, 'matmul', { seconds: MATMUL_S, size: MATMUL_SIZE }));
    const ratio = Math.max(...own) / bare;
    return { passed: ratio >= MATMUL_RATIO, value: `${ratio.toFixed(3)} of ${bare.toFixed(0)} TFLOP/s` };
  });
}

/** Both sides drop the file from the page cache first; where that does nothing (a file system in memory) both read from memory. */
export async function checkWeights(world: World): Promise<void> {
  const path = join(world.work, 'weights.safetensors');
  await world.report.run('2 GB of safetensors to the GPU ÷ reading the file', `≥ ${WEIGHTS_RATIO}`, 60, async () => {
    try {
      await writeWeights(path);
      const own: number[] = [];
      const bare: number[] = [];
      const script = join(import.meta.dirname, 'bare_read.py');
      for (let round = 0; round < 2; round += 1) {
        const { stdout } = await promisify(execFile)('python3', [script, path], { timeout: 30_000 });
        bare.push(Number(stdout));
        own.push((await act<{ rate: number }>(world, 'load_weights', { path })).rate);
      }
      const ratio = Math.max(...own) / Math.max(...bare);
      return { passed: ratio >= WEIGHTS_RATIO, value: `${ratio.toFixed(2)} of ${(Math.max(...bare) / 1e9).toFixed(1)} GB/s` };
    } finally {
      await rm(path, { force: true });
    }
  });
}

async function writeWeights(path: string): Promise<void> {
  const tensors = WEIGHTS_BYTES / BLOCK_BYTES;
  const entries = Array.from({ length: tensors }, (_, n) => [
    `layer.${n}`,
    { dtype: 'U8', shape: [BLOCK_BYTES], data_offsets: [n * BLOCK_BYTES, (n + 1) * BLOCK_BYTES] },
  ]);
  const header = Buffer.from(JSON.stringify(Object.fromEntries(entries)));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  const file = await open(path, 'w');
  try {
    await file.write(Buffer.concat([length, header]));
    const block = Buffer.alloc(BLOCK_BYTES, 7);
    for (let n = 0; n < tensors; n += 1) await file.write(block);
    // Only what is on the disk can be dropped from the page cache.
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Short kernels at a steady rate: what the service adds to each. */
export async function checkKernels(world: World): Promise<void> {
  const { report, seconds } = world;
  await report.run(`${KERNELS_PER_SECOND} jobs/s of 1 ms kernels for ${seconds} s: added`, 'all complete', seconds + 30, async () => {
    await act<number>(world, 'kernel', { milliseconds: 1 });
    const added: number[] = [];
    const failures: string[] = [];
    const jobs: Promise<void>[] = [];
    const begun = performance.now();
    for (let n = 0; n < seconds * KERNELS_PER_SECOND; n += 1) {
      await pause(Math.max(0, begun + (n * 1_000) / KERNELS_PER_SECOND - performance.now()));
      jobs.push(kernel(world, added, failures));
    }
    await Promise.all(jobs);
    added.sort((a, b) => a - b);
    const at = (share: number): string => (added[Math.floor(share * (added.length - 1))] ?? 0).toFixed(2);
    const failed = failures.length === 0 ? '' : `, ${failures.length} failed: ${failures[0] ?? ''}`;
    return {
      passed: failures.length === 0 && added.length === jobs.length,
      value: `p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, ${added.length} jobs${failed}`,
    };
  });
}

/** Adds what the service added to the kernel's own time, ms, or why the job failed. Never rejects. */
async function kernel({ service, gpu }: World, added: number[], failures: string[]): Promise<void> {
  const sent = performance.now();
  try {
    const { status, output, error = '' } = await service.runsync(gpu, { action: 'kernel', options: { milliseconds: 1 } });
    if (status === 'COMPLETED') added.push(performance.now() - sent - (output as number));
    else failures.push(`${status} ${error}`);
  } catch (error) {
    failures.push(String(error));
  }
}
