/** `capstan node check`: an installed host under its agent's settings, against a fake nvidia-smi and a fake driver library. */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test from 'ava';

import { containerGpuVerdict, readContainerGpuFacts } from '../../agent/inventory/container-gpus.ts';
import { writeFakeSmi, type FakeGpu } from '../agent/fake-nvidia-smi.ts';
import { folderOf } from '../support/folder.ts';

const tool = join(import.meta.dirname, '../../cli/main.ts');
const GPU: FakeGpu = { uuid: 'GPU-a', name: 'NVIDIA H100 80GB HBM3', memoryMiB: 81_559 };

interface Row {
  readonly check: string;
  readonly result: string;
  readonly value: string;
  readonly hint: string;
}

/** The program is named in a file as systemd reads it, and no network is used: every address is refused. */
async function check(folder: string, smi: string): Promise<{ code: number; rows: readonly Row[] }> {
  const file = join(folder, 'agent.env');
  await writeFile(
    file,
    `# the agent's settings\nCAPSTAN_NVIDIA_SMI="${smi}"\nCAPSTAN_CONTAINER_SOCKET=none\nCAPSTAN_SCHEDULER=192.0.2.1:7070\n`,
  );
  const env = { PATH: process.env['PATH'], HOME: folder, LD_LIBRARY_PATH: folder };
  const args = [tool, 'node', 'check', '--json', '--env-file', file];
  const { code, stdout } = await promisify(execFile)(process.execPath, args, { env }).then(
    ({ stdout: said }) => ({ code: 0, stdout: said }),
    (error: unknown) => error as { code: number; stdout: string },
  );
  return { code, rows: JSON.parse(stdout) as Row[] };
}

test('a host whose inventory is as nvidia-smi says passes', async (t) => {
  const folder = await folderOf(t);
  const { code, rows } = await check(folder, await writeFakeSmi(folder, { gpus: [GPU] }));
  t.is(code, 0, JSON.stringify(rows));
  const of = (name: string): Row | undefined => rows.find((row) => row.check === name);
  t.like(of('GPUs'), { result: 'pass', value: '1, driver 550.1, CUDA 12.4' });
  t.like(of('inventory of GPU-a'), { result: 'pass' });
  t.regex(of('inventory of GPU-a')?.value ?? '', /^NVIDIA H100 80GB HBM3, 86 GB/);
  t.true(rows.every(({ result, value }) => result !== 'skip' || value !== ''));
});

test('what is wrong fails, with what to do', async (t) => {
  const folder = await folderOf(t);
  const gpus = [
    { ...GPU, recovery: 'GPU Reset' },
    { ...GPU, uuid: 'GPU-b', throttle: '0x0000000000000048' },
  ];
  const { code, rows } = await check(folder, await writeFakeSmi(folder, { gpus }));
  t.not(code, 0);
  const failed = rows.filter(({ result }) => result === 'fail');
  t.like(failed[0], { check: 'inventory of GPU-a', value: 'recovery action needed: GPU Reset' });
  t.like(failed[1], { check: 'inventory of GPU-b', value: 'clocks are lowered: hw_slowdown, hw_thermal_slowdown' });
  t.true(failed.every(({ hint }) => hint !== ''));
});

test('a driver that does not answer fails; a host without nvidia-smi has nothing to check', async (t) => {
  const folder = await folderOf(t);
  const broken = await check(folder, await writeFakeSmi(folder, { fails: { code: 9, stdout: 'Driver/library version mismatch' } }));
  t.not(broken.code, 0);
  t.regex(broken.rows[0]?.value ?? '', /version mismatch/);
  const none = await check(folder, join(folder, 'absent'));
  t.is(none.code, 0);
  t.like(none.rows, [{ check: 'GPUs', result: 'skip' }]);
});

test('containers keep their GPUs with CDI, with the engine’s own control groups, or with links below /dev/char', (t) => {
  const unlinked = ['/dev/nvidia0'];
  t.true(containerGpuVerdict({ access: 'cdi', cgroupDriver: 'systemd', unlinked }).isSafe);
  t.true(containerGpuVerdict({ access: 'nvidia', cgroupDriver: 'cgroupfs', unlinked }).isSafe);
  t.true(containerGpuVerdict({ access: 'nvidia', cgroupDriver: '', unlinked }).isSafe, 'Podman');
  t.true(containerGpuVerdict({ access: 'nvidia', cgroupDriver: 'systemd', unlinked: [] }).isSafe);
  const verdict = containerGpuVerdict({ access: 'nvidia', cgroupDriver: 'systemd', unlinked });
  t.false(verdict.isSafe);
  t.regex(verdict.text, /daemon-reload.*\/dev\/nvidia0/);
  t.regex(verdict.hint, /create-dev-char-symlinks/);
});

test('the engine says how it manages control groups, and links are looked up by number', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'gpus-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  const server = createServer((request, response) => {
    response.end(JSON.stringify(request.url === '/info' ? { CgroupDriver: 'systemd' } : {}));
  });
  const socket = join(folder, 'docker.sock');
  await new Promise<void>((resolve) => server.listen(socket, resolve));
  t.teardown(() => server.close());
  t.is(await readContainerGpuFacts(socket, 'nvidia', folder), undefined, 'no device files');
  // Links to a device that every host has: 1:3.
  for (const name of ['nvidia0', 'nvidiactl']) await symlink('/dev/null', join(folder, name));
  t.deepEqual(await readContainerGpuFacts(socket, 'nvidia', folder), {
    access: 'nvidia',
    cgroupDriver: 'systemd',
    unlinked: [join(folder, 'nvidia0'), join(folder, 'nvidiactl')],
  });
  await mkdir(join(folder, 'char'));
  await writeFile(join(folder, 'char/1:3'), '');
  t.like(await readContainerGpuFacts(socket, 'nvidia', folder), { unlinked: [] });
  t.is(await readContainerGpuFacts('none', 'nvidia', folder), undefined);
});
