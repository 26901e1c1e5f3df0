/** What a sandbox shows, holds and leaves. Each promise is tried by a program inside. */
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { chownSync, closeSync, existsSync, mkdirSync, openSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { chmod, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';

import test, { type ExecutionContext } from 'ava';

import type { OpenSandboxOptions } from '../../agent/sandbox/bwrap/open-sandbox.ts';
import type { SandboxLauncher } from '../../agent/sandbox/bwrap/sandbox-launcher.ts';
import type { Assignment, WorkerExit } from '../../agent/sandbox/launcher.ts';
import { folderOf } from '../support/folder.ts';
import { until } from '../support/until.ts';
import { ownFolder } from '../support/own-folder.ts';
import { openTestSandbox } from '../support/sandbox.ts';

const tried = await ownFolder('capstan-sandbox');
const { launcher: first, missing } = await openTestSandbox(tried, { spares: false });
await first?.close();
await rm(tried, { recursive: true, force: true });
const isRoot = process.getuid?.() === 0;
const sandboxTest = first === undefined ? test.skip : test;
const reason = first === undefined ? ` (skipped: ${missing.map((each) => each.reason).join('; ')})` : '';

async function open(t: ExecutionContext, options: Partial<OpenSandboxOptions> = {}): Promise<SandboxLauncher> {
  const { launcher } = await openTestSandbox(await folderOf(t), { spares: false, ...options });
  if (launcher === undefined) throw new Error('the sandbox worked a moment ago');
  t.teardown(() => launcher.close());
  return launcher;
}

function assigned(more: Partial<Assignment> = {}): Assignment {
  return { workerId: 'w', folder: '', workFolder: '/work', deviceUuids: [], memoryBytes: 0, cpuMillis: 0, ...more };
}

interface Ran {
  readonly out: string;
  readonly err: string;
  readonly exit: WorkerExit;
}

async function run(
  launcher: SandboxLauncher,
  command: readonly [string, ...string[]],
  { env = {}, ...more }: Partial<Assignment> & { readonly env?: Readonly<Record<string, string>> } = {},
): Promise<Ran> {
  const [program, ...args] = command;
  const started = launcher.launch({
    kind: 'program',
    command: program,
    args,
    env: { ...launcher.environmentOf({}), ...env },
    assignment: assigned(more),
  });
  const { stdout, stderr } = started;
  if (stdout === undefined || stderr === undefined) throw new Error('it was not started');
  const [out, err, exit] = await Promise.all([text(stdout), text(stderr), started.gone]);
  return { out, err, exit };
}

/** Runs a script of `sh` and returns what it printed. */
async function shell(launcher: SandboxLauncher, script: string, more: Parameters<typeof run>[2] = {}): Promise<string> {
  const { out, err } = await run(launcher, ['sh', '-c', script], more);
  return `${out}${err}`.trim();
}

/** Processes of this host whose command line contains a text. */
function processesWith(mark: string): string[] {
  return readdirSync('/proc').filter((name) => {
    try {
      return /^\d+$/.test(name) && readFileSync(`/proc/${name}/cmdline`, 'latin1').includes(mark);
    } catch {
      return false;
    }
  });
}

sandboxTest(`a worker has an id of its own, no rights, and sees no other process${reason}`, async (t) => {
  const launcher = await open(t);
  const ids = await Promise.all([shell(launcher, 'id -u'), shell(launcher, 'id -u')]);
  t.true(ids.every((id) => Number(id) > 0 && id !== String(process.getuid?.())));
  if (isRoot) t.not(ids[0], ids[1]);
  t.is(await shell(launcher, 'test "$(id -G)" = "$(id -g)" && echo same'), 'same');
  const status = await shell(launcher, 'cat /proc/self/status');
  for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb']) t.regex(status, new RegExp(`^${set}:\t0+$`, 'm'));
  t.regex(status, /^NoNewPrivs:\t1$/m);
  t.regex(status, /^Seccomp:\t2$/m);
  const seen = (await shell(launcher, 'echo /proc/[0-9]*')).split(' ');
  t.true(seen.length <= 3, seen.join(' '));
});

sandboxTest('nothing of the agent and of other users is visible', async (t) => {
  const folder = await folderOf(t, { secret: 'a-secret-value' });
  const launcher = await open(t, { dataDir: folder });
  t.regex(await shell(launcher, `cat ${folder}/secret`), /No such file/);
  t.regex(await shell(launcher, 'cat /etc/shadow'), /No such file|Permission denied/);
  t.is(await shell(launcher, 'ls /home /var /run /srv /opt 2>/dev/null'), '');
  t.regex(await shell(launcher, 'cat /etc/passwd'), /^root:.*\nworker:/);
  t.false((await shell(launcher, 'cat /proc/1/cmdline')).includes(folder));
});

sandboxTest('the host name of a sandbox resolves, whatever its network; so do the names of /etc/hosts', async (t) => {
  const { launcher, networks = [] } = await openTestSandbox(await folderOf(t), {
    spares: false,
    network: { setting: 'auto', allowed: [], spares: 0 },
  });
  t.teardown(() => launcher?.close());
  if (launcher === undefined) throw new Error('the sandbox worked a moment ago');
  launcher.setGateway('');
  const script = "require('node:dns').lookup(require('node:os').hostname(), (error, address) => console.log(error ?? address))";
  const hosts = readFileSync('/etc/hosts', 'utf8');
  for (const network of ['none', 'host', 'outbound'] as const) {
    if (network === 'outbound' && !networks.includes(network)) {
      t.log('there is no network outbound here');
      continue;
    }
    const { out, err } = await run(launcher, ['node', '-e', script], { network });
    t.is(`${out}${err}`, '127.0.0.1\n', network);
    const python = await shell(launcher, "python3 -c 'import socket; print(socket.gethostbyname(socket.gethostname()))'", { network });
    t.true(['127.0.0.1', 'sh: 1: python3: not found'].includes(python), python);
    t.true((await shell(launcher, 'cat /etc/hosts', { network })).endsWith(hosts.trim()));
  }
});

sandboxTest('a data folder below a visible folder is empty', async (t) => {
  const visible = await folderOf(t, { 'models/model': 'weights', 'data/secret': 'a-secret-value' });
  await chmod(visible, 0o755);
  const launcher = await open(t, { paths: [visible, join(visible, 'missing')], dataDir: join(visible, 'data') });
  t.is(await shell(launcher, `cat ${visible}/models/model`), 'weights');
  t.false((await shell(launcher, `cat ${visible}/data/secret`)).includes('a-secret-value'));
});

sandboxTest('the build and the system are read-only; /tmp, /dev/shm and the working folder are bounded and its own', async (t) => {
  const folder = await folderOf(t, { 'main.txt': 'of the build', 'deep/more.txt': 'deep' });
  const launcher = await open(t, { sizes: { tmpBytes: 2 ** 20, shmBytes: 2 ** 20 } });
  const script = `
    cat main.txt deep/more.txt; rm main.txt && echo mine >main.txt && cat main.txt
    for file in /capstan/build/new /capstan/build/main.txt /capstan/new /usr/new /etc/new /new /dev/new /capstan/bin/node; do
      (echo x >"$file") 2>/dev/null && echo "wrote $file"
    done
    for place in /tmp /dev/shm /capstan/work; do
      echo fits >$place/small || echo "cannot write $place"
      head -c 3000000 /dev/zero 2>/dev/null >$place/large && echo "filled $place"
    done
    pwd; echo $HOME`;
  t.is(await shell(launcher, script, { folder }), 'of the builddeepmine\n/capstan/work\n/tmp', 'large writes fail silently');
  t.deepEqual((await readdir(folder)).toSorted(), ['deep', 'main.txt']);
  t.is(readFileSync(join(folder, 'main.txt'), 'utf8'), 'of the build');
  // The folder of a checkout below /tmp is there for its interpreter, and empty.
  const [, ofCheckout = ''] = /^\/tmp\/([^/]+)/.exec(import.meta.dirname) ?? [];
  t.is((await shell(launcher, 'ls -A /tmp /dev/shm | grep -v :')).replace(ofCheckout, ''), '');
});

sandboxTest('descriptors that this process inherited lead nowhere', async (t) => {
  const folder = await folderOf(t, { secret: 'a-secret-value', 'open.ts': '' });
  const program = `
    import { openTestSandbox } from '${join(import.meta.dirname, '../support/sandbox.ts')}';
    import { mkdtempSync } from 'node:fs';
    const { launcher } = await openTestSandbox(mkdtempSync('${folder}/agent-'), { spares: false });
    const script = 'for fd in /proc/self/fd/*; do readlink $fd; done; cat <&7; cat /proc/self/fd/23';
    const worker = launcher.launch({ kind: 'program', command: 'sh', args: ['-c', script], env: launcher.environmentOf({}),
      assignment: { workerId: 'w', folder: '', workFolder: '/work', deviceUuids: [], memoryBytes: 0, cpuMillis: 0 } });
    worker.stdout.pipe(process.stdout);
    await worker.gone;
    await launcher.close();`;
  const secret = openSync(join(folder, 'secret'), 'r');
  try {
    const stdio = Array.from({ length: 24 }, (_, fd) => (fd === 1 ? 'pipe' : fd === 7 || fd === 23 ? secret : 'ignore'));
    const child = spawn(process.execPath, ['--input-type=module', '--eval', program], { stdio });
    const [out] = await Promise.all([text(child.stdout as NonNullable<typeof child.stdout>), once(child, 'exit')]);
    t.true(out.includes('/dev/null'), out);
    t.false(out.includes('a-secret-value'), out);
    t.false(out.includes(folder), out);
  } finally {
    closeSync(secret);
  }
});

sandboxTest('a killed worker leaves nothing, also not what cleared its environment and left its session', async (t) => {
  const launcher = await open(t);
  const mark = randomUUID();
  const script = `env -i setsid sh -c ': ${mark}; while :; do sleep 1; done' & (setsid sh -c ': ${mark}; sleep 1000' &) ; echo up; sleep 1000`;
  const worker = launcher.launch({
    kind: 'program',
    command: 'sh',
    args: ['-c', script],
    env: launcher.environmentOf({}),
    assignment: assigned(),
  });
  worker.stderr?.resume();
  if (worker.stdout !== undefined) await once(worker.stdout, 'data');
  t.true(processesWith(mark).length >= 3);
  worker.kill('it is not needed');
  t.like(await worker.gone, { kind: 'exited', reason: 'it is not needed' });
  t.deepEqual(processesWith(mark), []);
});

sandboxTest('an agent that is killed leaves no process', async (t) => {
  t.timeout(180_000);
  const folder = await folderOf(t);
  const mark = randomUUID();
  const program = `
    import { openTestSandbox } from '${join(import.meta.dirname, '../support/sandbox.ts')}';
    const { launcher } = await openTestSandbox('${folder}', { spares: true });
    const start = (assignment) => launcher.launch({ kind: 'host', command: 'sh', args: ['-c', 'setsid sleep 1000 & echo up ${mark}; sleep 1000'], pipes: 2, lifeline: true, reads: [],
      env: launcher.environmentOf({}), ...assignment });
    const assignment = { workerId: 'w', folder: '', workFolder: '/work', deviceUuids: [], memoryBytes: 0, cpuMillis: 0 };
    for (const worker of [start({ assignment }), start({})]) {
      worker.stdout.pipe(process.stdout);
      worker.stderr.pipe(process.stderr);
      void worker.gone.then((exit) => { console.error(JSON.stringify(exit)); process.exit(1); });
    }
    // It ends with the test, whatever becomes of that.
    process.stdin.on('end', () => process.exit(1)).resume();`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], { stdio: ['pipe', 'pipe', 'inherit'] });
  t.teardown(() => child.kill('SIGKILL'));
  let said = '';
  for await (const data of child.stdout) {
    said += String(data);
    if (said.split(mark).length === 3) break;
  }
  t.true(processesWith(mark).length >= 2);
  child.kill('SIGKILL');
  // The kernel ends the rest a moment after their parent, whatever else the machine does.
  await until('no process is left', () => (processesWith(mark).some((pid) => pid !== String(child.pid)) ? null : true));
  t.pass();
});

sandboxTest("a release's command is looked up inside: in the build first, then the agent's Node; never on the host", async (t) => {
  const folder = await folderOf(t, { 'node_modules/.bin/tool': '#!/bin/sh\necho from the build\n' });
  await chmod(join(folder, 'node_modules/.bin/tool'), 0o755);
  const launcher = await open(t);
  t.is((await run(launcher, ['tool'], { folder })).out, 'from the build\n');
  t.is((await run(launcher, ['node', '-p', 'process.version'])).out, `${process.version}\n`);
  const hidden = await folderOf(t, { program: '#!/bin/sh\necho from the host\n' });
  await chmod(join(hidden, 'program'), 0o755);
  await chmod(hidden, 0o755);
  for (const command of [join(hidden, 'program'), '/proc/self/root/../../' + join(hidden, 'program')]) {
    const { out, exit } = await run(launcher, [command]);
    t.is(out, '');
    t.like(exit, { kind: 'exited', code: 127 });
  }
});

sandboxTest("certificates that the host's environment names are visible; files that a release's names are not", async (t) => {
  const folder = await folderOf(t, { 'host.pem': 'of the operator', 'other.pem': 'a-secret-value' });
  await chmod(folder, 0o755);
  const launcher = await open(t, { env: { PATH: '/usr/bin:/bin', SSL_CERT_FILE: join(folder, 'host.pem') } });
  const env = { ...launcher.environmentOf({}), SSL_CERT_FILE: join(folder, 'other.pem'), NODE_EXTRA_CA_CERTS: join(folder, 'other.pem') };
  const order = { command: 'sh', args: ['-c', `cat ${folder}/*`], env, assignment: assigned() };
  for (const kind of [{ kind: 'host', pipes: 0, lifeline: false, reads: [] }, { kind: 'program' }] as const) {
    const { stdout, stderr, gone } = launcher.launch({ ...order, ...kind });
    stderr?.resume();
    t.is(stdout === undefined ? '' : await text(stdout), 'of the operator');
    await gone;
  }
});

sandboxTest("a release's environment takes effect inside only, byte for byte", async (t) => {
  const folder = await folderOf(t);
  const value = `it's "so"\n$(touch ${folder}/ran) \`touch ${folder}/ran\` \\`;
  const launcher = await open(t);
  const env = { VALUE: value, LD_PRELOAD: join(folder, 'evil.so'), BASH_ENV: join(folder, 'evil.sh'), ENV: join(folder, 'evil.sh') };
  writeFileSync(join(folder, 'evil.sh'), `touch ${folder}/ran`);
  const { out } = await run(launcher, ['node', '-p', 'JSON.stringify(process.env.VALUE)'], { env });
  t.is(JSON.parse(out), value);
  t.false(existsSync(join(folder, 'ran')));
});

sandboxTest('without a network there is nothing but loopback', async (t) => {
  const launcher = await open(t);
  t.regex(await shell(launcher, 'cat /proc/net/dev | tail -n +3', { network: 'none' }), /^\s*lo:[^\n]*$/);
});

sandboxTest('a sandbox that cannot be made says why', async (t) => {
  const launcher = await open(t);
  const { exit } = await run(launcher, ['true'], { folder: '/nonexistent/build' });
  t.is(exit.kind, 'not-started');
});

(isRoot ? sandboxTest : test.skip)('an agent without root has sandboxes, too, with spares', async (t) => {
  const folder = await folderOf(t, { 'build/file': 'of the build', 'build/sub/file': 'deeper' });
  await chmod(folder, 0o755);
  mkdirSync(join(folder, 'agent'));
  chownSync(join(folder, 'agent'), 65_534, 65_534);
  const program = `
    import { openTestSandbox } from '${join(import.meta.dirname, '../support/sandbox.ts')}';
    const { launcher, missing } = await openTestSandbox('${folder}/agent', {});
    if (launcher === undefined || !launcher.hasSpares) { console.log(JSON.stringify(missing)); process.exit(1); }
    const script = 'id -u; read -r go <&3; cat /capstan/build/file /capstan/build/sub/file; (echo x >/capstan/build/new) 2>/dev/null || echo refused; ls /proc | grep -c "^[0-9]"';
    const worker = launcher.launch({ kind: 'host', command: 'sh', args: ['-c', script], env: launcher.environmentOf({}), pipes: 1, lifeline: false, reads: [] });
    worker.stdout.pipe(process.stdout);
    worker.stderr.pipe(process.stderr);
    await worker.assign({ workerId: 'w', folder: '${folder}/build', workFolder: '/work', deviceUuids: [], memoryBytes: 0, cpuMillis: 0 });
    worker.pipes[0].write('go\\n');
    console.log(JSON.stringify(await worker.gone));
    await launcher.close();`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
    stdio: ['ignore', 'pipe', 'pipe'],
    uid: 65_534,
    gid: 65_534,
    env: { PATH: '/usr/local/bin:/usr/bin:/bin', HOME: folder },
  });
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
  if (/EACCES|Cannot find module|Permission denied/.test(err)) {
    t.log('this checkout is not readable for other users');
    t.pass();
    return;
  }
  t.regex(out, /^60000\nof the builddeeperrefused\n[1-5]\n\{"kind":"exited","code":0/, err);
});

sandboxTest(`without control groups a worker's files in memory count towards its memory limit${reason}`, async (t) => {
  const launcher = await open(t);
  for (const folder of ['/tmp', '/capstan/work', '/dev/shm']) {
    const fill = ['sh', '-c', `head -c 40000000 /dev/zero > ${folder}/file; sleep 60`] as const;
    const { exit } = await run(launcher, [...fill], { memoryBytes: 32 * 1_048_576 });
    t.regex(
      exit.kind === 'exited' ? (exit.reason ?? 'no reason') : exit.kind,
      /^memory limit exceeded: \d+ MiB resident and 3\d MiB in files in memory, the limit is 32 MiB/,
      folder,
    );
  }
});
