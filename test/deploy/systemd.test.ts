/** The systemd units start what there is, with settings that exist, and hold what docs/install.md says of them. */
import { execFile } from 'node:child_process';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test from 'ava';

import { readConfig } from '../../agent/config.ts';
import { PART_NODE_ARGS } from '../../supervisor/part-process.ts';
import { readSettings } from '../../terminal/config.ts';
import { errorTable } from '../../lib/errors.ts';
import { stackPlans } from '../../supervisor/plans.ts';
import { folderOf } from '../support/folder.ts';

const root = join(import.meta.dirname, '../..');
const folder = join(root, 'deploy/systemd');
const parts = ['scheduler', 'gateway', 'agent'] as const;
/** Where docs/install.md installs a release. */
const INSTALLED = '/opt/capstan/current/node_modules';
const run = promisify(execFile);

const analyze = await run('systemd-analyze', ['--version']).then(
  () => '',
  () => 'skipped: there is no systemd-analyze',
);

const sysusers = await run('systemd-sysusers', ['--version']).then(
  () => '',
  () => 'skipped: there is no systemd-sysusers',
);

/** Values by name; a name may stand more than once. */
async function unit(part: string): Promise<ReadonlyMap<string, readonly string[]>> {
  const values = new Map<string, string[]>();
  for (const line of (await readFile(join(folder, `capstan-${part}.service`), 'utf8')).split('\n')) {
    const [, name, value] = /^([A-Za-z]+)=(.*)$/.exec(line) ?? [];
    if (name !== undefined && value !== undefined) values.set(name, [...(values.get(name) ?? []), value]);
  }
  return values;
}

test('there is one unit for each part, and each starts a command of the tool as its own user', async (t) => {
  const units = (await readdir(folder)).filter((name) => name.endsWith('.service'));
  t.deepEqual(units.sort(), [...parts, 'scheduler@'].map((part) => `capstan-${part}.service`).sort());
  const commands = await readdir(join(root, 'cli/commands'));
  for (const part of parts) {
    const values = await unit(part);
    t.deepEqual(values.get('ExecStart'), [
      `${INSTALLED}/.bin/node ${PART_NODE_ARGS.join(' ')} ${INSTALLED}/capstan/cli/capstan.mjs ${part}`,
    ]);
    t.true(commands.includes(`${part}.ts`));
    t.deepEqual([values.get('NoNewPrivileges'), values.get('ProtectSystem'), values.get('UMask')], [['yes'], ['strict'], ['0077']]);
  }
});

test('each part has a user and a folder of its own, which the others cannot read', async (t) => {
  const names = { scheduler: 'capstan', gateway: 'capstan-gateway', agent: 'capstan-agent' };
  for (const part of parts) {
    const values = await unit(part);
    const name = names[part];
    t.deepEqual([values.get('User'), values.get('Group'), values.get('StateDirectory')], [[name], [name], [name]]);
    t.deepEqual([values.get('StateDirectoryMode'), values.get('Environment')?.[0]], [['0700'], `CAPSTAN_DATA_DIR=/var/lib/${name}`]);
    for (const other of Object.values(names)) {
      if (other !== name) t.false([...values].some(([, lines]) => lines.some((line) => line.includes(`/var/lib/${other}/`))));
    }
  }
});

test('the agent may make sandboxes and control groups', async (t) => {
  const values = await unit('agent');
  t.deepEqual(values.get('Delegate'), ['yes']);
  // Each of these breaks bubblewrap, control groups or the devices.
  for (const name of [
    'RestrictNamespaces',
    'ProtectHostname',
    'ProtectKernelTunables',
    'ProtectKernelLogs',
    'ProtectProc',
    'ProcSubset',
    'ProtectControlGroups',
    'ProtectClock',
    'PrivateDevices',
    'DeviceAllow',
    'SystemCallFilter',
    'MemoryDenyWriteExecute',
  ]) {
    t.is(values.get(name), undefined, name);
  }
});

test('the agent as root may do what it needs for user ids of workers, and has their folders', async (t) => {
  const text = await readFile(join(folder, 'capstan-agent-root.conf'), 'utf8');
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  t.is(lines[0], '[Service]');
  for (const line of ['User=root', 'StateDirectory=capstan-agent capstan-workers', 'RuntimeDirectory=capstan'])
    t.true(lines.includes(line), line);
  const capabilities = lines.filter((line) => line.startsWith('CapabilityBoundingSet=')).flatMap((line) => line.split('=')[1]?.split(' '));
  for (const name of ['SETUID', 'SETGID', 'SETPCAP', 'CHOWN', 'KILL', 'SYS_ADMIN', 'NET_ADMIN'])
    t.true(capabilities.includes(`CAP_${name}`), name);
  t.false(capabilities.includes('CAP_SYS_MODULE'));
  t.is(readConfig({}, {}).workerDir, '/var/lib/capstan-workers');
});

test('the unit of a cell is that of the scheduler, with a data folder, a cell and settings of its own', async (t) => {
  const own = ['Description', 'StateDirectory', 'Environment', 'EnvironmentFile'];
  const [one, cell] = [await unit('scheduler'), await unit('scheduler@')];
  const rest = (values: ReadonlyMap<string, readonly string[]>): unknown[] => [...values].filter(([name]) => !own.includes(name));
  t.deepEqual(rest(cell), rest(one));
  t.deepEqual(cell.get('StateDirectory'), ['capstan-%i']);
  t.deepEqual(cell.get('Environment'), ['CAPSTAN_DATA_DIR=/var/lib/capstan-%i', 'CAPSTAN_CELL=%i']);
  t.deepEqual(cell.get('EnvironmentFile')?.at(-1), '-/etc/capstan/scheduler-%i.env');
});

test('a scheduler is started until the database is there, and may write the shared folder of blobs', async (t) => {
  const values = await unit('scheduler');
  t.deepEqual([values.get('StartLimitIntervalSec'), values.get('Restart')], [['0'], ['always']]);
  t.deepEqual(values.get('RestartPreventExitStatus'), [String(errorTable.DATA_LOST.exit)]);
  const same = Object.entries(errorTable).filter(([, { exit }]) => exit === errorTable.DATA_LOST.exit);
  t.is(same.length, 1, 'no other reason keeps a scheduler from being started again');
  t.deepEqual(values.get('ReadWritePaths'), ['-/srv/capstan']);
});

test('capstan up starts the parts with the same arguments for Node', (t) => {
  const environment = { variables: {}, cwd: root };
  const addresses = new Map([['scheduler', '127.0.0.1:1']]);
  for (const { name, command } of stackPlans(readSettings({}, environment), environment)) {
    const { args } = command(addresses);
    t.deepEqual([args.slice(0, PART_NODE_ARGS.length), args.at(-1)], [PART_NODE_ARGS, name]);
  }
});

test('each setting that a unit makes exists', async (t) => {
  const known = await readFile(join(root, 'docs/configuration.md'), 'utf8');
  for (const part of [...parts, 'scheduler@']) {
    for (const entry of (await unit(part)).get('Environment') ?? []) t.true(known.includes(`\`${entry.split('=')[0] ?? ''}\``), entry);
  }
});

test('the agent has its GPUs, and ends neither with one worker nor before its jobs', async (t) => {
  const values = await unit('agent');
  t.is(values.get('PrivateDevices'), undefined);
  t.is(values.get('DeviceAllow'), undefined);
  t.deepEqual(values.get('OOMPolicy'), ['continue']);
  t.deepEqual(values.get('KillMode'), ['mixed']);
  t.true(Number(values.get('TimeoutStopSec')?.[0]) * 1_000 > 10_000);
});

(analyze === '' ? test : test.skip)(`systemd finds nothing wrong with them${analyze && ` (${analyze})`}`, async (t) => {
  const copies = await folderOf(t);
  const files: string[] = [];
  for (const part of [...parts, 'scheduler@']) {
    const text = await readFile(join(folder, `capstan-${part}.service`), 'utf8');
    // A template is checked as one of its instances.
    const file = join(copies, `capstan-${part.replace(/@$/, '@second')}.service`);
    await writeFile(file, text.replaceAll(`${INSTALLED}/capstan`, root).replaceAll(INSTALLED, join(root, 'node_modules')));
    files.push(file);
  }
  // The agent as root is its unit with the drop-in behind it.
  const asRoot = join(copies, 'capstan-agent-as-root.service');
  const agent = await readFile(files[2] ?? '', 'utf8');
  await writeFile(asRoot, `${agent}\n${await readFile(join(folder, 'capstan-agent-root.conf'), 'utf8')}`);
  files.push(asRoot);
  const { stdout, stderr } = await run('systemd-analyze', ['verify', '--man=no', ...files]);
  t.is(
    (stdout + stderr)
      .split('\n')
      .filter((line) => line.includes('capstan-'))
      .join('\n'),
    '',
  );
});

(sysusers === '' ? test : test.skip)(`the units' users and folders can be made${sysusers && ` (${sysusers})`}`, async (t) => {
  const place = await folderOf(t, { 'etc/passwd': '' });
  await run('systemd-sysusers', [`--root=${place}`, join(folder, 'sysusers.d/capstan.conf')]);
  const users = await readFile(join(place, 'etc/passwd'), 'utf8');
  for (const name of ['capstan', 'capstan-gateway', 'capstan-agent']) {
    t.regex(users, new RegExp(`^${name}:.*:/var/lib/${name}:/usr/sbin/nologin$`, 'm'));
  }
  const lines = (await readFile(join(folder, 'tmpfiles.d/capstan.conf'), 'utf8')).split('\n').filter((line) => line.startsWith('d '));
  t.deepEqual(lines, [
    'd /etc/capstan 0755 root root -',
    'd /var/lib/capstan 0700 capstan capstan -',
    'd /var/lib/capstan-gateway 0700 capstan-gateway capstan-gateway -',
    'd /var/lib/capstan-agent 0700 capstan-agent capstan-agent -',
  ]);
});
