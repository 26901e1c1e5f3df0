/** What the service costs a GPU: matrix products, weights, and many short kernels. */
import { execFile } from 'node:child_process';
import { open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';

import { act, type World } from './world.ts';

const MATMUL_S = 5;
const MATMUL_SIZE = 8_192;
const MATMUL_RATIO = 0.98;
const WEIGHTS_BYTES = 2 * 2 ** 30;
const WEIGHTS_RATIO = 0.7;
const BLOCK_BYTES = 64 << 20;
const KERNELS_PER_SECOND = 100;

export async function checkColdStart(world: World): Promise<void> {
  await world.report.run('cold start with torch, and the first CUDA call', 'measured', async () => {
    const begun = performance.now();
    const { import: imported, first } = await act<{ import: number; first: number }>(world, 'first_call');
    const all = (performance.now() - begun) / 1_000;
    return { passed: true, value: `${all.toFixed(1)} s: import ${imported.toFixed(1)} s, first call ${first.toFixed(2)} s` };
  });
}

/** In turns, the better of two of each: clocks change with the temperature. */
export async function checkMatmul(world: World): Promise<void> {
  await world.report.run('bf16 matrix products, worker ÷ bare process', `≥ ${MATMUL_RATIO}`, async () => {
    const bare: number[] = [];
    const own: number[] = [];
    for (let round = 0; round < 2; round += 1) {
      own.push(await act<number>(world, 'matmul', { seconds: MATMUL_S, size: MATMUL_SIZE }));
      const script = join(import.meta.dirname, 'bare_matmul.py');
      const { stdout } = await promisify(execFile)('python3', [script, String(MATMUL_S), String(MATMUL_SIZE)]);
      bare.push(Number(stdout));
    }
    const ratio = Math.max(...own) / Math.max(...bare);
    return { passed: ratio >= MATMUL_RATIO, value: `${ratio.toFixed(3)} of ${Math.max(...bare).toFixed(0)} TFLOP/s` };
  });
}

/** Both sides read from the page cache, which holds what was just written. */
export async function checkWeights(world: World): Promise<void> {
  const path = join(world.work, 'weights.safetensors');
  await world.report.run('2 GB of safetensors to the GPU ÷ reading the file', `≥ ${WEIGHTS_RATIO}`, async () => {
    try {
      await writeWeights(path);
      await readAll(path);
      const begun = performance.now();
      await readAll(path);
      const disk = WEIGHTS_BYTES / ((performance.now() - begun) / 1_000);
      const { rate } = await act<{ rate: number }>(world, 'load_weights', { path });
      return { passed: rate / disk >= WEIGHTS_RATIO, value: `${(rate / disk).toFixed(2)} of ${(disk / 1e9).toFixed(1)} GB/s` };
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
  } finally {
    await file.close();
  }
}

async function readAll(path: string): Promise<void> {
  const file = await open(path);
  const block = Buffer.alloc(BLOCK_BYTES);
  try {
    while ((await file.read(block, 0, BLOCK_BYTES)).bytesRead > 0);
  } finally {
    await file.close();
  }
}

/** Short kernels at a steady rate: what the service adds to each. */
export async function checkKernels(world: World): Promise<void> {
  const { report, seconds } = world;
  await report.run(`${KERNELS_PER_SECOND} jobs/s of 1 ms kernels for ${seconds} s: added`, 'all complete', async () => {
    await act<number>(world, 'kernel', { milliseconds: 1 });
    const added: number[] = [];
    const jobs: Promise<void>[] = [];
    const begun = performance.now();
    for (let n = 0; n < seconds * KERNELS_PER_SECOND; n += 1) {
      await pause(Math.max(0, begun + (n * 1_000) / KERNELS_PER_SECOND - performance.now()));
      const sent = performance.now();
      jobs.push(act<number>(world, 'kernel', { milliseconds: 1 }).then((ms) => void added.push(performance.now() - sent - ms)));
    }
    await Promise.all(jobs);
    added.sort((a, b) => a - b);
    const at = (share: number): string => (added[Math.floor(share * (added.length - 1))] ?? 0).toFixed(2);
    return { passed: added.length === jobs.length, value: `p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, ${added.length} jobs` };
  });
}
