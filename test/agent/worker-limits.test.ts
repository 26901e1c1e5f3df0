/** The limits of workers at each level of isolation: held by control groups, or by a watch of the process group. */
import { rm } from 'node:fs/promises';

import test, { type ExecutionContext } from 'ava';

import { ControlGroups } from '../../agent/sandbox/cgroups/control-groups.ts';
import type { Assignment, WorkerExit, WorkerLauncher, WorkerProcess } from '../../agent/sandbox/launcher.ts';
import { PlainLauncher } from '../../agent/sandbox/plain-launcher.ts';
import { ownFolder } from '../support/own-folder.ts';
import { folderOf } from '../support/folder.ts';
import { until } from '../support/until.ts';
import { openTestSandbox } from '../support/sandbox.ts';
import { openUserLevel } from '../sandbox/user-level.ts';

const MEBIBYTE = 1024 * 1024;
const LIMIT = 64 * MEBIBYTE;
const EXCEEDED = /^memory limit exceeded: \d+ MiB resident, the limit is 64 MiB$/;
const PATH = '/usr/local/bin:/usr/bin:/bin';

const here = await ControlGroups.open({ folder: `${import.meta.filename} ${process.pid}`, warn() {} });
await here.close();
const withLimits = here.limits.size === 3 ? test : test.skip;
const skipped = here.limits.size === 3 ? '' : ` (skipped: ${here.missing.map(({ reason }) => reason).join('; ')})`;

interface Started {
  readonly worker: WorkerProcess;
  readonly output: () => string;
}

/** Starts a shell as a worker; without an assignment as a spare. */
function start(t: ExecutionContext, launcher: WorkerLauncher, script: string, assignment?: Assignment): Started {
  const order = { kind: 'host', command: '/bin/sh', args: ['-c', script], env: { PATH }, pipes: 0, lifeline: false, reads: [] } as const;
  const worker = launcher.launch(assignment === undefined ? order : { ...order, assignment });
  t.teardown(async () => {
    worker.kill();
    await worker.gone;
  });
  let text = '';
  worker.stdout?.on('data', (data: Buffer) => (text += data.toString()));
  return { worker, output: () => text };
}

function assignment(limits: Partial<Assignment>): Assignment {
  return { workerId: 'w1', folder: '', workFolder: '', deviceUuids: [], memoryBytes: 0, cpuMillis: 0, ...limits };
}

function reasonOf(exit: WorkerExit): string {
  return exit.reason ?? '';
}

const hasSandbox = await sandboxOpens();

const LEVELS = ['none', 'user', 'sandbox'] as const;
const PIDS = 32;

async function withGroups(
  t: ExecutionContext,
  level: (typeof LEVELS)[number],
): Promise<{ groups: ControlGroups; launcher: WorkerLauncher }> {
  const groups = await ControlGroups.open({ folder: await folderOf(t), warn: (_, message) => t.fail(message) });
  t.teardown(() => groups.close());
  if (level === 'none') return { groups, launcher: new PlainLauncher({ groups, pids: PIDS }) };
  const { launcher, close } = level === 'user' ? await openUserLevel({ groups, pids: PIDS }) : await openSandboxLevel(t, groups);
  t.teardown(close);
  return { groups, launcher };
}

async function sandboxOpens(): Promise<boolean> {
  const folder = await ownFolder('capstan-limits');
  const { launcher } = await openTestSandbox(folder, { spares: false });
  await launcher?.close();
  await rm(folder, { recursive: true, force: true });
  return launcher !== undefined;
}

async function openSandboxLevel(
  t: ExecutionContext,
  groups: ControlGroups,
): Promise<{ launcher: WorkerLauncher; close: () => Promise<void> }> {
  const { launcher, missing } = await openTestSandbox(await folderOf(t), { groups, pids: PIDS, spares: false });
  if (launcher === undefined) throw new Error(missing.map(({ reason }) => reason).join('; '));
  return { launcher, close: () => launcher.close() };
}

for (const level of LEVELS) {
  if ((level === 'user' && process.getuid?.() !== 0) || (level === 'sandbox' && !hasSandbox)) continue;

  withLimits(`${level}: a worker that needs more memory than its limit ends with the reason${skipped}`, async (t) => {
    const { launcher } = await withGroups(t, level);
    const { worker } = start(t, launcher, 'exec tail /dev/zero', assignment({ memoryBytes: LIMIT }));
    t.regex(reasonOf(await worker.gone), EXCEEDED);
  });

  withLimits(
    `${level}: a worker whose child needs more memory than the limit ends with it, in whatever process group${skipped}`,
    async (t) => {
      const { launcher } = await withGroups(t, level);
      const { worker } = start(t, launcher, 'setsid tail /dev/zero & wait; sleep 1000', assignment({ memoryBytes: LIMIT }));
      t.regex(reasonOf(await worker.gone), EXCEEDED);
    },
  );

  withLimits(`${level}: a spare gets its limits when it is assigned${skipped}`, async (t) => {
    const { launcher } = await withGroups(t, level);
    const { worker, output } = start(t, launcher, 'echo up; sleep 0.1; exec tail /dev/zero');
    await until('the spare is up', () => output() === 'up\n');
    await worker.assign(assignment({ memoryBytes: LIMIT }));
    t.regex(reasonOf(await worker.gone), EXCEEDED);
  });

  withLimits(`${level}: a program, its leash and all its processes are limited and end together${skipped}`, async (t) => {
    const { groups, launcher } = await withGroups(t, level);
    const folder = await folderOf(t);
    // A shell that may not fork ends.
    const forks = 'setsid sh -c "sleep 1000 & sleep 1000" & while :; do sleep 1000 & done';
    const script = `sh -c '${forks}'; exec sleep 1000`;
    const order = { kind: 'program', command: 'sh', args: ['-c', script], env: { PATH } } as const;
    const worker = launcher.launch({ ...order, assignment: assignment({ workFolder: folder }) });
    let errors = '';
    worker.stderr?.on('data', (data: Buffer) => (errors += data.toString()));
    await until('a fork is refused', () => /fork/i.test(errors));
    worker.kill('enough');
    t.like(await worker.gone, { kind: 'exited', reason: 'enough' });
    t.is(groups.count, 0);
  });

  withLimits(`${level}: nothing is left of groups when workers end by themselves${skipped}`, async (t) => {
    const { groups, launcher } = await withGroups(t, level);
    const ends = Array.from({ length: 5 }, () =>
      start(t, launcher, 'setsid sleep 1000 & exit 3', assignment({ memoryBytes: LIMIT, cpuMillis: 500 })),
    );
    for (const { worker } of ends) t.like(await worker.gone, { kind: 'exited', code: 3, reason: undefined });
    t.is(groups.count, 0);
  });
}

test('without control groups, the memory of the process group is limited', async (t) => {
  const { worker } = start(t, new PlainLauncher(), 'exec tail /dev/zero', assignment({ memoryBytes: LIMIT }));
  t.regex(reasonOf(await worker.gone), EXCEEDED);
});
