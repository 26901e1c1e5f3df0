/** Control groups as this host has them: limits hold for a worker with all it starts, and nothing of it is left. */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync } from 'node:fs';
import { dirname, join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import type { ControlGroup, GroupLimits } from '../../agent/sandbox/cgroups/control-group.ts';
import { ControlGroups } from '../../agent/sandbox/cgroups/control-groups.ts';
import { ownGroups } from '../../agent/sandbox/cgroups/mounts.ts';
import { folderOf } from '../support/folder.ts';
import { until } from '../support/until.ts';

const MEBIBYTE = 1024 * 1024;
const NO_LIMITS: GroupLimits = { memoryBytes: 0, cpuMillis: 0, pids: 0 };

/** What this host has, asked once with a name of its own. */
const here = await ControlGroups.open({ folder: `${import.meta.filename} ${process.pid}`, warn() {} });
await here.close();
const reason = here.missing.map((each) => each.reason).join('; ');
const withGroups = here.areAvailable ? test : test.skip;
const withLimits = here.limits.size === 3 ? test : test.skip;
const skipped = here.areAvailable ? '' : ` (skipped: ${reason})`;
const unlimited = here.limits.size === 3 ? '' : ` (skipped: ${reason})`;

async function open(t: ExecutionContext): Promise<{ groups: ControlGroups; folder: string; warnings: string[] }> {
  const warnings: string[] = [];
  const folder = await folderOf(t);
  const groups = await ControlGroups.open({ folder, warn: (_, message) => warnings.push(message) });
  t.teardown(() => groups.close());
  return { groups, folder, warnings };
}

function create(groups: ControlGroups, limits: Partial<GroupLimits> = {}): ControlGroup {
  const group = groups.create();
  if (group === undefined) throw new Error(reason);
  group.limit({ ...NO_LIMITS, ...limits });
  return group;
}

/** Starts a shell in the group, as launchers do. */
function run(
  group: ControlGroup,
  script: string,
): ChildProcess & { readonly output: Promise<string>; readonly ended: Promise<number | string> } {
  const child = spawn('/bin/sh', ['-c', `${group.entry}; ${script}`], { detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
  let text = '';
  child.stdout.on('data', (data: Buffer) => (text += data.toString()));
  const ended = new Promise<number | string>((resolve) => child.once('close', (code, signal) => resolve(code ?? signal ?? '')));
  return Object.assign(child, { ended, output: ended.then(() => text.trim()) });
}

/** The folders of a group, from the line that enters it. */
function foldersOf(group: ControlGroup): string[] {
  return [...group.entry.matchAll(/>'([^']+)'/g)].map(([, file]) => dirname(file ?? ''));
}

withGroups(`all that a worker starts is in its group and ends with it${skipped}`, async (t) => {
  const { groups, warnings } = await open(t);
  const group = create(groups);
  const other = create(groups);
  const neighbour = run(other, 'echo up; exec sleep 1000');
  const worker = run(group, 'setsid sleep 1000 & env -i setsid sh -c "sleep 1000 & sleep 1000" & wait');
  await until('five processes', () => group.processes.length === 5);
  t.true(group.processes.includes(worker.pid ?? 0));
  await groups.end(group);
  t.is(await worker.ended, 'SIGKILL');
  t.deepEqual(group.processes, []);
  for (const folder of foldersOf(group)) t.false(existsSync(folder));
  await until('the neighbour', () => other.processes.length === 1);
  t.is(neighbour.exitCode, null, 'the neighbour lives');
  await groups.end(other);
  await neighbour.ended;
  t.deepEqual(warnings, []);
});

withGroups(`a shell that cannot enter its group runs nothing${skipped}`, async (t) => {
  const { groups } = await open(t);
  const group = create(groups);
  await groups.end(group);
  const worker = run(group, 'echo ran');
  t.is(await worker.ended, 1);
  t.is(await worker.output, '');
});

withGroups(`the next agent of a folder ends what is left; another agent's groups stay${skipped}`, async (t) => {
  const { groups: first, folder } = await open(t);
  const { groups: stranger } = await open(t);
  const left = create(first);
  const foreign = create(stranger);
  const worker = run(left, 'sleep 1000 & wait');
  const others = run(foreign, 'exec sleep 1000');
  await until('both workers', () => left.processes.length === 2 && foreign.processes.length === 1);
  const warnings: string[] = [];
  const second = await ControlGroups.open({ folder, warn: (_, message) => warnings.push(message) });
  t.deepEqual(warnings, ['killing processes in control groups of an earlier agent']);
  t.is(await worker.ended, 'SIGKILL');
  for (const path of foldersOf(left)) t.deepEqual(groupsBeside(path), []);
  t.is(foreign.processes.length, 1);
  t.is(others.exitCode, null);
  await stranger.end(foreign);
  await second.close();
  for (const path of foldersOf(left)) t.false(existsSync(dirname(path)), 'the base group is gone, too');
});

withGroups(`what an agent that is dead left empty is removed, and a base group that is gone comes back${skipped}`, async (t) => {
  const { groups: living } = await open(t);
  const group = create(living);
  const [base = ''] = foldersOf(group).map((path) => dirname(path));
  await living.end(group);
  // A child's number is free again once the parent knows of its end.
  const dead = spawnSync('true').pid;
  const left = join(dirname(base), `capstan-aaaaaaaaaaaa-${dead}`);
  mkdirSync(join(left, 'w1'), { recursive: true });
  const { groups } = await open(t);
  t.false(existsSync(left));
  t.true(existsSync(base), 'another agent of this process lives');
  rmdirSync(base);
  await living.end(create(living));
  t.true(existsSync(base));
  await groups.close();
});

function groupsBeside(path: string): string[] {
  return readdirSync(dirname(path), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name);
}

withGroups(`a group inside a worker's group goes with it${skipped}`, async (t) => {
  const { groups } = await open(t);
  const group = create(groups);
  const inner = foldersOf(group).map((folder) => `${folder}/inner`);
  const worker = run(
    group,
    inner
      .map((path) => `mkdir ${path} && echo $$ >${path}/cgroup.procs`)
      .join(' && ')
      .concat(' && exec sleep 1000'),
  );
  const [first = ''] = inner;
  await until('the inner group', () => existsSync(first) && readFileSync(`${first}/cgroup.procs`, 'utf8') !== '');
  await groups.end(group);
  t.is(await worker.ended, 'SIGKILL');
  for (const path of inner) t.false(existsSync(dirname(path)));
});

withLimits(`memory over the limit ends the process, and the group says so${unlimited}`, async (t) => {
  const { groups } = await open(t);
  const group = create(groups, { memoryBytes: 48 * MEBIBYTE });
  t.is(group.outOfMemory, undefined);
  const worker = run(group, 'exec tail /dev/zero');
  t.is(await worker.ended, 'SIGKILL');
  t.regex(group.outOfMemory ?? '', /^memory limit exceeded: (47|48) MiB resident, the limit is 48 MiB$/);
  await groups.end(group);
  t.is(group.outOfMemory, undefined, 'a removed group has nothing to say');
});

withLimits(`memory of children counts, and one of them may be what ends${unlimited}`, async (t) => {
  const { groups } = await open(t);
  const group = create(groups, { memoryBytes: 48 * MEBIBYTE });
  const worker = run(group, 'tail /dev/zero; echo "child: $?"; sleep 1000');
  await until('the memory event', () => group.outOfMemory !== undefined);
  await groups.end(group);
  await worker.ended;
  t.pass();
});

withLimits(`forks over the limit are refused, threads among them${unlimited}`, async (t) => {
  const { groups } = await open(t);
  const group = create(groups, { pids: 8 });
  const script =
    'import os, time\nfor each in range(20):\n  try:\n    if os.fork() == 0: time.sleep(1000)\n  except OSError as error: print(each, error.errno, flush=True); break\ntime.sleep(1000)';
  const worker = run(group, `exec python3 -c '${script}'`);
  let printed = '';
  worker.stdout?.on('data', (data: Buffer) => (printed += data.toString()));
  await until('the refusal', () => printed.endsWith('\n'));
  t.is(printed, '7 11\n', 'EAGAIN for the ninth process');
  await groups.end(group);
  await worker.ended;
});

withLimits(`processor time over the quota is refused${unlimited}`, async (t) => {
  const { groups } = await open(t);
  const group = create(groups, { cpuMillis: 100 });
  const worker = run(group, 'while :; do :; done');
  const throttled = (): number =>
    Math.max(
      ...foldersOf(group).map((path) =>
        Number(/^nr_throttled (\d+)$/m.exec(existsSync(`${path}/cpu.stat`) ? readFileSync(`${path}/cpu.stat`, 'utf8') : '')?.[1] ?? 0),
      ),
    );
  await until('throttling', () => throttled() > 2);
  await groups.end(group);
  t.is(await worker.ended, 'SIGKILL');
});

withLimits(`a spare in its group gets its limits later; less memory than it uses is refused or ends it${unlimited}`, async (t) => {
  const { groups } = await open(t);
  const group = create(groups);
  const worker = run(group, `exec python3 -c 'import time; kept = b"x" * ${64 * MEBIBYTE}; print("up", flush=True); time.sleep(1000)'`);
  await new Promise((resolve) => worker.stdout?.once('data', resolve));
  group.limit({ ...NO_LIMITS, memoryBytes: 256 * MEBIBYTE, pids: 16 });
  t.is(worker.exitCode, null);
  const tight = (): void => group.limit({ ...NO_LIMITS, memoryBytes: 16 * MEBIBYTE });
  try {
    tight();
    t.is(await worker.ended, 'SIGKILL');
  } catch (error) {
    t.regex((error as Error).message, /^memory limit exceeded: \d+ MiB resident, the limit is 16 MiB$/);
  }
  await groups.end(group);
  await worker.ended;
});

const MOUNTS_OF_1 = [
  '31 23 0:28 / /sys/fs/cgroup ro,relatime - tmpfs tmpfs rw,mode=755',
  '32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct',
  '35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory',
  '40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd',
  '41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw',
].join('\n');

test('the groups of version 1, one of each controller, and of version 2 beside them', (t) => {
  const { unified, legacy } = ownGroups(
    MOUNTS_OF_1,
    '4:memory:/system.slice/a.service\n1:cpu,cpuacct:/\n9:name=systemd:/x\n0::/system.slice/a.service\n',
  );
  t.deepEqual(Object.fromEntries(legacy), { memory: '/sys/fs/cgroup/memory/system.slice/a.service', cpu: '/sys/fs/cgroup/cpu,cpuacct/' });
  t.deepEqual(unified, { mount: '/sys/fs/cgroup/unified', own: '/sys/fs/cgroup/unified/system.slice/a.service' });
});

test('the group of version 2: of a service, of a container with and without a namespace of groups', (t) => {
  const own = (root: string, group: string): string | undefined =>
    ownGroups(`30 24 0:26 ${root} /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate`, `0::${group}\n`).unified?.own;
  t.is(own('/', String.raw`/system.slice/capstan\x2dagent.service`), String.raw`/sys/fs/cgroup/system.slice/capstan\x2dagent.service`);
  t.is(own('/', '/'), '/sys/fs/cgroup/');
  t.is(own('/docker/af15', '/docker/af15'), '/sys/fs/cgroup');
  t.is(own('/docker/af15', '/docker/af15/inner'), '/sys/fs/cgroup/inner');
  // Of the host, seen from a namespace; beside the mounted one.
  t.is(own('/', '/../../user.slice'), undefined);
  t.is(own('/docker/af15', '/docker/af15b'), undefined);
  t.is(own(String.raw`/with\040space`, '/with space/x'), '/sys/fs/cgroup/x');
});

test('a host without control groups has none', (t) => {
  t.deepEqual(ownGroups('31 23 0:28 / /tmp rw - tmpfs tmpfs rw\n', '0::/\n'), { unified: undefined, legacy: new Map() });
  t.deepEqual(ownGroups('', ''), { unified: undefined, legacy: new Map() });
});
