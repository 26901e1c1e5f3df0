/** Parts of the sandbox that need no sandbox: its arguments, device nodes, links of working folders, what a host lacks. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { sandboxArguments, type SandboxPlan } from '../../agent/sandbox/bwrap/arguments.ts';
import { deviceNodes } from '../../agent/sandbox/bwrap/devices.ts';
import { explainFailure, missingPrograms } from '../../agent/sandbox/host/requirements.ts';
import { workLinks } from '../../agent/sandbox/bwrap/work-links.ts';
import { folderOf } from '../support/folder.ts';

const plan: SandboxPlan = {
  sizes: { tmpBytes: 1_000, shmBytes: 2_000 },
  userNamespace: false,
  passwdFd: 10,
  hostsFd: 12,
  environmentFd: 11,
  seccompFd: 9,
  infoFd: 7,
  reads: [],
  hidden: [],
  build: undefined,
  devices: [],
  node: '/usr/bin/node',
  links: [],
  cwd: '/capstan/work',
  resolvConf: undefined,
  withoutNetwork: false,
};

/** Returns the words after each occurrence of an option. */
function valuesOf(args: readonly string[], option: string, count: number): string[][] {
  return args.flatMap((word, at) => (word === option ? [args.slice(at + 1, at + 1 + count)] : []));
}

test('root keeps three rights to drop the rest; others use a user namespace and forbid more of them', (t) => {
  const root = sandboxArguments(plan);
  t.deepEqual(
    valuesOf(root, '--cap-add', 1).map(([name]) => name),
    ['CAP_SETUID', 'CAP_SETGID', 'CAP_SETPCAP'],
  );
  t.false(root.includes('--unshare-user'));
  const plain = sandboxArguments({ ...plan, userNamespace: true });
  t.true(plain.includes('--unshare-user') && plain.includes('--disable-userns'));
  t.false(plain.includes('--cap-add'));
});

test('every mount point that could be written is made read-only, after all else is mounted', (t) => {
  const args = sandboxArguments(plan);
  t.deepEqual(
    valuesOf(args, '--remount-ro', 1).map(([path]) => path),
    ['/dev', '/capstan', '/'],
  );
  t.true(args.lastIndexOf('--tmpfs') < args.indexOf('--remount-ro'));
  t.deepEqual(
    valuesOf(args, '--size', 5).map((words) => [words[4], words[0]]),
    [
      ['/dev/shm', '2000'],
      ['/tmp', '1000'],
      ['/capstan/work', '1000'],
    ],
  );
});

test('folders above what is shown are readable for others, and what is within another is not shown twice', async (t) => {
  const folder = await folderOf(t, { 'deep/file': '', 'deep/more/file': '' });
  const args = sandboxArguments({
    ...plan,
    reads: [join(folder, 'deep/more/file'), join(folder, 'deep'), join(folder, 'missing'), '/usr/bin'],
  });
  const shown = valuesOf(args, '--ro-bind', 2).filter(([path]) => path?.startsWith(folder));
  t.deepEqual(shown, [[join(folder, 'deep'), join(folder, 'deep')]]);
  const at = args.indexOf(folder);
  t.deepEqual(args.slice(at - 3, at), ['--perms', '0755', '--dir']);
});

test('a data folder below a shown folder is covered', async (t) => {
  const folder = await folderOf(t, { 'data/secret': '' });
  const args = sandboxArguments({ ...plan, reads: [folder], hidden: [join(folder, 'data')] });
  const at = args.indexOf(join(folder, 'data'));
  t.deepEqual(args.slice(at - 5, at), ['--size', '4096', '--perms', '0', '--tmpfs']);
});

async function driver(t: ExecutionContext): Promise<{ gpus: string; capabilities: string }> {
  const folder = await folderOf(t, {
    'gpus/0000:01:00.0/information': 'Model: \t\t NVIDIA H100\nGPU UUID: \t GPU-aaaa\nDevice Minor: \t 0\n',
    'gpus/0000:02:00.0/information': 'Model: \t\t NVIDIA H100\nGPU UUID: \t GPU-bbbb\nDevice Minor: \t 1\n',
  });
  const slice = join(folder, 'capabilities/gpu1/mig/gi3/ci0');
  await mkdir(slice, { recursive: true });
  await writeFile(join(slice, '../access'), 'DeviceFileMinor: 30\nDeviceFileMode: 256\n');
  await writeFile(join(slice, 'access'), 'DeviceFileMinor: 31\nDeviceFileMode: 256\n');
  return { gpus: join(folder, 'gpus'), capabilities: join(folder, 'capabilities') };
}

test('device nodes: of the assigned GPUs and their slices only', async (t) => {
  const roots = { ...(await driver(t)), exists: () => true };
  const shared = ['/dev/nvidiactl', '/dev/nvidia-uvm', '/dev/nvidia-uvm-tools', '/dev/nvidia-modeset'];
  t.deepEqual(deviceNodes([], roots), []);
  t.deepEqual(deviceNodes(['GPU-bbbb'], roots), [...shared, '/dev/nvidia1']);
  const caps = ['/dev/nvidia-caps/nvidia-cap30', '/dev/nvidia-caps/nvidia-cap31'];
  t.deepEqual(deviceNodes(['MIG-GPU-bbbb/3/0'], roots), [...shared, '/dev/nvidia1', ...caps]);
  t.deepEqual(deviceNodes(['MIG-GPU-bbbb/4/0'], roots), [...shared, '/dev/nvidia1']);
  t.throws(() => deviceNodes(['GPU-cccc'], roots), { message: /no GPU GPU-cccc/ });
});

test('the working folder of a program holds folders as folders, and packages as links', async (t) => {
  const build = await folderOf(t, { 'main.py': '', 'deep/table.txt': '', 'node_modules/x/index.js': '', '.hidden/file': '' });
  const links = workLinks(build)?.toSorted((one, other) => one.name.localeCompare(other.name));
  t.deepEqual(links, [
    { name: '.hidden', target: '/capstan/build/.hidden' },
    { name: 'deep' },
    { name: 'deep/table.txt', target: '/capstan/build/deep/table.txt' },
    { name: 'main.py', target: '/capstan/build/main.py' },
    { name: 'node_modules', target: '/capstan/build/node_modules' },
  ]);
  t.deepEqual(workLinks(''), []);
});

test('what a host lacks is named with what adds it', (t) => {
  t.deepEqual(
    missingPrograms((name) => (name === 'bwrap' ? undefined : `/usr/bin/${name}`), 'linux'),
    [{ without: 'sandbox', reason: 'bwrap is not installed', remedy: 'apt install bubblewrap' }],
  );
  t.regex(missingPrograms(() => '/usr/bin/x', 'darwin')[0]?.remedy ?? '', /Linux/);
  const disabled = explainFailure('bwrap: No permissions', false, (file) => (file.endsWith('max_user_namespaces') ? 0 : undefined));
  t.like(disabled, { remedy: 'sysctl -w user.max_user_namespaces=28633' });
  t.regex(disabled.reason, /user namespaces are disabled \(bwrap: No permissions\)/);
  t.regex(explainFailure('bwrap: Unknown option --disable-userns', false).remedy, /0\.8 or newer/);
  t.regex(explainFailure('bwrap: no', true).remedy, /--cap-add SYS_ADMIN/);
  t.regex(explainFailure('bwrap: no', false, () => undefined).remedy, /as root/);
});
