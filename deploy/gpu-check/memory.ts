/** Memory of the GPU comes back when a worker ends, however it ends; a failed allocation ends nothing but its job. */
import { setTimeout as pause } from 'node:timers/promises';

import { computing, usedMebibytes } from './nvidia.ts';
import { act, type World } from './world.ts';

const HELD_MEBIBYTES = 4_096;
/** What may differ after a worker: the driver keeps some memory of its own. */
const SLACK_MEBIBYTES = 64;
const BACK_MS = 2_000;
const STARTS = 20;

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
  await until('no worker holds memory', 30_000, async () => (await computing()).length === 0);
  const before = await usedMebibytes();
  const isBack = async (): Promise<boolean> => (await usedMebibytes()) <= before + SLACK_MEBIBYTES;
  const holds = async (policy: object, seconds: number): Promise<string> => {
    const id = await service.run(gpu, { action: 'hold', options: { mebibytes: HELD_MEBIBYTES, seconds } }, policy);
    await until('the job holds its memory', 60_000, async () => (await usedMebibytes()) >= before + HELD_MEBIBYTES);
    return id;
  };
  const check = (how: string, act: () => Promise<void>): Promise<void> =>
    report.run(`memory returned after ${how}`, `within ${BACK_MS} ms`, async () => {
      await act();
      const ms = await until('the memory is back', 30_000, isBack);
      return { passed: ms <= BACK_MS, value: `${ms.toFixed(0)} ms` };
    });

  await check('a worker’s end', async () => {
    const id = await holds({}, 2);
    await service.ended(gpu, { id, status: 'IN_PROGRESS' });
    // Idle for a second, then its process goes.
    await until('the worker has ended', 30_000, async () => (await computing()).length === 0);
  });
  await check('a cancelled job', async () => {
    const id = await holds({}, 300);
    await service.cancel(gpu, id);
    await until('its process has ended', 30_000, async () => (await computing()).length === 0);
  });
  await check('a time-out', async () => {
    const id = await holds({ executionTimeout: 5_000 }, 300);
    const { status } = await service.ended(gpu, { id, status: 'IN_PROGRESS' });
    if (status !== 'TIMED_OUT') throw new Error(`the job is ${status}`);
    await until('its process has ended', 30_000, async () => (await computing()).length === 0);
  });
  await check('kill -9 of a worker', async () => {
    const id = await holds({}, 300);
    for (const pid of await computing()) process.kill(pid, 'SIGKILL');
    await service.cancel(gpu, id);
  });
}

export async function checkLeak(world: World): Promise<void> {
  await world.report.run(`${STARTS} starts and ends of workers`, `no more than ${SLACK_MEBIBYTES} MiB stay`, async () => {
    const before = await usedMebibytes();
    for (let n = 0; n < STARTS; n += 1) {
      await act<string>(world, 'touch');
      await until('the worker has ended', 30_000, async () => (await computing()).length === 0);
    }
    const stays = (await usedMebibytes()) - before;
    return { passed: stays <= SLACK_MEBIBYTES, value: `${stays} MiB` };
  });
}

export async function checkOutOfMemory(world: World): Promise<void> {
  const { report, service, gpu } = world;
  await report.run('out of memory in CUDA', 'FAILED with the reason, the next job completes', async () => {
    const { status, error = '' } = await service.runsync(gpu, { action: 'out_of_memory', options: {} });
    await act(world, 'view');
    return { passed: status === 'FAILED' && /out of memory/i.test(error), value: `${status}: ${error.slice(0, 60)}` };
  });
}
