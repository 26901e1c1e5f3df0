/** Memory of the GPU comes back when a worker ends, however it ends; a failed allocation ends nothing but its job. */
import { setTimeout as pause } from 'node:timers/promises';

import { usedMebibytes } from './nvidia.ts';
import { gpuProcesses } from './processes.ts';
import { act, type World } from './world.ts';

const HELD_MEBIBYTES = 4_096;
/** What may differ after a worker: the driver keeps some memory of its own. */
const SLACK_MEBIBYTES = 64;
const BACK_MS = 2_000;
/** Most time of each check, s. */
const RETURN_S = 30;
const LEAK_S = 75;
/** What the levels after the first one need, ms. */
const OTHER_LEVELS_MS = 80_000;

async function until(what: string, limitMs: number, look: () => Promise<boolean>): Promise<number> {
  const begun = performance.now();
  while (!(await look())) {
    if (performance.now() - begun > limitMs) throw new Error(`${what}: not within ${limitMs} ms`);
    await pause(50);
  }
  return performance.now() - begun;
}

export async function checkReturn(world: World): Promise<void> {
  const { report, service, gpu } = world;
  const isFree = async (): Promise<boolean> => (await gpuProcesses(service.pid)).length === 0;
  await until('no worker holds memory', 15_000, isFree).catch((error: unknown) =>
    report.add('memory: no worker is left', false, String(error), ''),
  );
  const before = await usedMebibytes();
  const isBack = async (): Promise<boolean> => (await usedMebibytes()) <= before + SLACK_MEBIBYTES;
  const holds = async (policy: object, seconds: number): Promise<string> => {
    const id = await service.run(gpu, { action: 'hold', options: { mebibytes: HELD_MEBIBYTES, seconds } }, policy);
    await until('the job holds its memory', 60_000, async () => (await usedMebibytes()) >= before + HELD_MEBIBYTES);
    return id;
  };
  const check = (how: string, act: () => Promise<void>): Promise<void> =>
    report.run(`memory returned after ${how}`, `within ${BACK_MS} ms`, RETURN_S, async () => {
      await act();
      const ms = await until('the memory is back', 10_000, isBack);
      return { passed: ms <= BACK_MS, value: `${ms.toFixed(0)} ms` };
    });

  await check('a worker’s end', async () => {
    const id = await holds({}, 4);
    await service.ended(gpu, { id, status: 'IN_PROGRESS' });
    // Idle for a second, then its process goes.
    await until('the worker has ended', 30_000, isFree);
  });
  await check('a cancelled job', async () => {
    const id = await holds({}, 300);
    await service.cancel(gpu, id);
    await until('its process has ended', 30_000, isFree);
  });
  await check('a time-out', async () => {
    // A warm worker: loading torch takes longer than this job may.
    await act(world, 'first_call');
    const id = await holds({ executionTimeout: 5_000 }, 300);
    const { status } = await service.ended(gpu, { id, status: 'IN_PROGRESS' });
    if (status !== 'TIMED_OUT') throw new Error(`the job is ${status}`);
    await until('its process has ended', 30_000, isFree);
  });
  await check('kill -9 of a worker', async () => {
    const id = await holds({}, 300);
    const pids = await gpuProcesses(service.pid);
    if (pids.length === 0) throw new Error('no process below the service uses the GPU');
    for (const pid of pids) process.kill(pid, 'SIGKILL');
    await service.cancel(gpu, id);
  });
}

export async function checkLeak(world: World): Promise<void> {
  const { report, service, starts } = world;
  const isFree = async (): Promise<boolean> => (await gpuProcesses(service.pid)).length === 0;
  const limitMs = Math.min(LEAK_S * 1_000, world.left() - OTHER_LEVELS_MS);
  await report.run(`${starts} starts and ends of workers`, `no more than ${SLACK_MEBIBYTES} MiB stay`, LEAK_S + 10, async () => {
    await until('no worker holds memory', 15_000, isFree);
    const before = await usedMebibytes();
    const latest = performance.now() + limitMs;
    let ended = 0;
    for (; ended < starts && performance.now() < latest; ended += 1) {
      await act<string>(world, 'touch');
      await until('the worker has ended', 15_000, isFree);
    }
    const isBack = async (): Promise<boolean> => (await usedMebibytes()) <= before + SLACK_MEBIBYTES;
    await until('the memory is back', BACK_MS, isBack).catch(() => undefined);
    const stays = (await usedMebibytes()) - before;
    const value = `${stays} MiB${ended < starts ? `, but only ${ended} in its time` : ''}`;
    return { passed: ended === starts && stays <= SLACK_MEBIBYTES, value };
  });
}

export async function checkOutOfMemory(world: World): Promise<void> {
  const { report, service, gpu } = world;
  await report.run('out of memory in CUDA', 'FAILED with the reason, the next job completes', 45, async () => {
    const id = await service.run(gpu, { action: 'out_of_memory', options: {} });
    const { status, error = '' } = await service.ended(gpu, { id, status: 'IN_QUEUE' });
    await act(world, 'view');
    return { passed: status === 'FAILED' && /out of memory/i.test(error), value: `${status}: ${error.slice(0, 60)}` };
  });
}
