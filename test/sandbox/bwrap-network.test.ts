/** The network `outbound`: what a worker in a sandbox reaches, what not, who reaches it, and what is left afterwards. */
import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { chmod, chown, mkdir, rm } from 'node:fs/promises';
import { connect, createServer, type Server } from 'node:net';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';

import test, { type ExecutionContext } from 'ava';

import { ProxiedRequest } from '../../agent/runtimes/server/proxied-request.ts';
import { ServerAgent } from '../../agent/runtimes/server/server-agent.ts';
import type { NetworkOptions } from '../../agent/sandbox/bwrap/open-sandbox.ts';
import type { SandboxLauncher } from '../../agent/sandbox/bwrap/sandbox-launcher.ts';
import type { Assignment, LaunchSpec } from '../../agent/sandbox/launcher.ts';
import { folderOf } from '../support/folder.ts';
import { freePort } from '../support/free-port.ts';
import { ownFolder } from '../support/own-folder.ts';
import { openTestSandbox } from '../support/sandbox.ts';
import { until } from '../support/until.ts';

const OUTBOUND: NetworkOptions = { setting: 'auto', allowed: [], spares: 1 };
const tried = await ownFolder('capstan-network');
const { launcher: first, networks = [], missing } = await openTestSandbox(tried, { spares: false, network: OUTBOUND });
await first?.close();
await rm(tried, { recursive: true, force: true });
const works = networks.includes('outbound');
const isRoot = process.getuid?.() === 0;
const NOBODY = 65_534;
const networkTest = works ? test : test.skip;
const reason = works ? '' : ` (skipped: ${missing.map((each) => each.reason).join('; ') || 'no sandbox'})`;

async function open(t: ExecutionContext, network: Partial<NetworkOptions> = {}, spares = false): Promise<SandboxLauncher> {
  const { launcher } = await openTestSandbox(await folderOf(t), { spares, network: { ...OUTBOUND, ...network } });
  if (launcher === undefined) throw new Error('the sandbox worked a moment ago');
  t.teardown(() => launcher.close());
  return launcher;
}

function assigned(more: Partial<Assignment> = {}): Assignment {
  return { workerId: 'w', folder: '', workFolder: '/work', deviceUuids: [], memoryBytes: 0, cpuMillis: 0, network: 'outbound', ...more };
}

async function listen(t: ExecutionContext, at: { host: string; port: number } | { path: string }): Promise<number> {
  const server: Server = createServer((socket) => socket.end('host'));
  t.teardown(() => server.close());
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(at, resolve));
  const address = server.address();
  return typeof address === 'object' ? (address?.port ?? 0) : 0;
}

/** Connects from inside to each address, and prints how that went. */
const TRY = `
const { connect } = require('node:net');
const tried = JSON.parse(process.argv[1]).map((at) => new Promise((resolve) => {
  const socket = connect(at);
  socket.setTimeout(10000, () => resolve('silence')).on('connect', () => { socket.destroy(); resolve('connected'); }).on('error', ({ code }) => resolve(code));
}));
Promise.all(tried).then((all) => { console.log(JSON.stringify(all)); process.exit(); });`;

async function tryFromInside(launcher: SandboxLauncher, targets: readonly object[], order: Partial<LaunchSpec> = {}): Promise<string[]> {
  const worker = launcher.launch({
    kind: 'program',
    command: 'node',
    args: ['-e', TRY, JSON.stringify(targets)],
    env: launcher.environmentOf({}),
    assignment: assigned(),
    ...order,
  } as LaunchSpec);
  if (worker.stdout === undefined || worker.stderr === undefined) throw new Error('it was not started');
  const [out, err] = await Promise.all([text(worker.stdout), text(worker.stderr)]);
  await worker.gone;
  if (out === '') throw new Error(err);
  return JSON.parse(out) as string[];
}

/** Processes of pasta that lead to a port of this host: other tests have their own. */
function pastas(port: number): string[] {
  return readdirSync('/proc').filter((name) => {
    try {
      return /^\d+$/.test(name) && readFileSync(`/proc/${name}/cmdline`, 'latin1').includes(`\0--tcp-ns\0${port}\0`);
    } catch {
      return false;
    }
  });
}

networkTest(`a worker reaches the gateway’s port and no other one of this host, no private address, no socket${reason}`, async (t) => {
  const launcher = await open(t);
  const port = await listen(t, { host: '127.0.0.1', port: 0 });
  const other = await listen(t, { host: '0.0.0.0', port: 0 });
  const socket = `\0capstan-network-${process.pid}`;
  await listen(t, { path: socket });
  launcher.setGateway(`http://127.0.0.1:${port}`);
  const own = Object.values(networkInterfaces())
    .flatMap((list) => list ?? [])
    .filter(({ internal, family }) => !internal && family === 'IPv4')
    .map(({ address }) => ({ host: address, port: other }));
  const [gateway, ...refused] = await tryFromInside(launcher, [
    { host: '127.0.0.1', port },
    { host: '127.0.0.1', port: other },
    { host: '::1', port: other },
    { host: '::ffff:127.0.0.1', port: other },
    { host: '10.0.0.1', port: 80 },
    { host: '::ffff:10.0.0.1', port: 80 },
    { host: '100.64.0.1', port: 80 },
    { host: '169.254.169.254', port: 80 },
    { host: '192.168.0.1', port: 80 },
    { host: 'fd00::1', port: 80 },
    { path: socket },
    ...own,
  ]);
  t.is(gateway, 'connected');
  t.deepEqual(
    refused.filter((outcome) => outcome === 'connected' || outcome === 'silence'),
    [],
    JSON.stringify(refused),
  );
});

networkTest('workers do not meet: each has a loopback address of its own', async (t) => {
  const launcher = await open(t);
  launcher.setGateway('');
  const server = launcher.launch({
    kind: 'program',
    command: 'node',
    args: ['-e', "require('node:net').createServer().listen(7001, () => console.log('up'))"],
    env: launcher.environmentOf({}),
    assignment: assigned(),
  });
  await new Promise((resolve) => server.stdout?.once('data', resolve));
  t.deepEqual(await tryFromInside(launcher, [{ host: '127.0.0.1', port: 7001 }]), ['ECONNREFUSED']);
  server.kill();
  await server.gone;
});

networkTest('a server is reached at its ports, and a program reaches those of the agent that it was given', async (t) => {
  const launcher = await open(t);
  launcher.setGateway('');
  const api = await listen(t, { host: '127.0.0.1', port: 0 });
  t.deepEqual(await tryFromInside(launcher, [{ host: '127.0.0.1', port: api }], { ports: { reached: [api], published: [] } }), [
    'connected',
  ]);
  const port = await freePort();
  const server = launcher.launch({
    kind: 'program',
    command: 'node',
    args: ['-e', `require('node:net').createServer((s) => s.end('inside')).listen(${port}, '127.0.0.1', () => console.log('up'))`],
    env: launcher.environmentOf({}),
    assignment: assigned(),
    ports: { reached: [], published: [port] },
  });
  await new Promise((resolve) => server.stdout?.once('data', resolve));
  t.true(server.listens?.(port));
  t.false(server.listens?.(port + 1));
  const answer = await text(connect(port, '127.0.0.1'));
  t.is(answer, 'inside');
  server.kill();
  await server.gone;
});

networkTest('a request that is accepted in place of a server that has ended goes to another worker', async (t) => {
  const launcher = await open(t);
  launcher.setGateway('');
  const port = await freePort();
  const server = launcher.launch({
    kind: 'program',
    command: 'node',
    args: ['-e', "console.log('up'); setInterval(() => {}, 1000)"],
    env: launcher.environmentOf({}),
    assignment: assigned(),
    ports: { reached: [], published: [port] },
  });
  await new Promise((resolve) => server.stdout?.once('data', resolve));
  const get = { function: '', method: 'GET', url: 'http://h.test/', headers: [], pathValues: {}, body: Buffer.alloc(0), ended: true };
  for (const order of [get, { ...get, upgrade: true, ended: false }, { ...get, method: 'POST', body: Buffer.from('body') }]) {
    const doubts: string[] = [];
    let looks = 0;
    // Its server ends just after the agent has looked whether it listens.
    const isRefused = (): boolean => (looks += 1) > 1 && server.listens?.(port) === false;
    const failed = await new Promise((resolve) => {
      const events = { head: () => undefined, body: () => undefined, credit: () => undefined };
      const request: ProxiedRequest = new ProxiedRequest(
        { host: '127.0.0.1', port, healthPort: port },
        order,
        { ...events, failed: (code, _message, untouched) => resolve({ code, untouched }) },
        {
          agent: new ServerAgent(isRefused),
          isRefused,
          onRefused: () => doubts.push('refused'),
          onInvalid: (line) => t.fail(line),
          holdMs: 0,
          workerEndOf: () => undefined,
          onOver: () => request.credit(0),
        },
      );
    });
    t.deepEqual(failed, { code: 'UNAVAILABLE', untouched: true });
    t.deepEqual(doubts, ['refused']);
  }
  server.kill();
  await server.gone;
});

networkTest('destinations that the operator allows are not refused', async (t) => {
  const launcher = await open(t, {
    allowed: [
      { family: 4, address: '127.1.2.3', prefix: 32 },
      { family: 4, address: '198.51.100.7', prefix: 32, port: 9 },
    ],
  });
  launcher.setGateway('');
  // No host has this address: an allowed connection gets no answer, a refused one an error at once.
  const outcomes = await tryFromInside(launcher, [
    { host: '198.51.100.7', port: 10 },
    { host: '198.51.100.8', port: 9 },
  ]);
  t.deepEqual(
    outcomes.filter((outcome) => outcome === 'connected'),
    [],
  );
  t.true(
    outcomes.every((outcome) => outcome === 'EHOSTUNREACH' || outcome === 'EACCES'),
    outcomes.join(),
  );
});

networkTest('with the end of a worker its network is gone, and with the launcher all of them', async (t) => {
  const { launcher } = await openTestSandbox(await folderOf(t), { spares: false, network: OUTBOUND });
  if (launcher === undefined) throw new Error('the sandbox worked a moment ago');
  const port = await listen(t, { host: '127.0.0.1', port: 0 });
  launcher.setGateway(`http://127.0.0.1:${port}`);
  t.deepEqual(await tryFromInside(launcher, [{ host: '127.0.0.1', port }]), ['connected']);
  // One is made in advance.
  await until('one is left', () => (pastas(port).length === 1 ? true : null));
  await launcher.close();
  t.deepEqual(pastas(port), []);
});

(works && isRoot ? test : test.skip)(
  'an agent without root has the network, too, with spares, where it may open the device for it',
  async (t) => {
    const folder = await folderOf(t);
    await chmod(folder, 0o755);
    await mkdir(join(folder, 'agent'));
    await chown(join(folder, 'agent'), NOBODY, NOBODY);
    const open = await listen(t, { host: '127.0.0.1', port: 0 });
    const shut = await listen(t, { host: '127.0.0.1', port: 0 });
    const targets = JSON.stringify([open, shut].map((port) => ({ host: '127.0.0.1', port })));
    const program = `
    import { openTestSandbox } from '${join(import.meta.dirname, '../support/sandbox.ts')}';
    const { launcher, networks, defaultNetwork } = await openTestSandbox('${folder}/agent', { network: { setting: 'auto', allowed: [], spares: 1 } });
    console.log(networks.join(), defaultNetwork, launcher.hasSpares);
    launcher.setGateway('http://127.0.0.1:${open}');
    const assignment = { workerId: 'w', folder: '', workFolder: '/work', deviceUuids: [], memoryBytes: 0, cpuMillis: 0, network: 'outbound' };
    const end = async (worker) => {
      worker.stdout.pipe(process.stdout);
      worker.stderr.pipe(process.stderr);
      await worker.gone;
    };
    const args = ['-e', ${JSON.stringify(TRY)}, ${JSON.stringify(targets)}];
    const env = launcher.environmentOf({});
    await end(launcher.launch({ kind: 'program', command: 'node', args, env, assignment }));
    console.log(launcher.takesSpare(assignment));
    const waits = { command: 'sh', args: ['-c', 'read -r go <&3; exec "$@"', 'sh', 'node', ...args] };
    const spare = launcher.launch({ kind: 'host', ...waits, env, pipes: 1, lifeline: false, reads: [] });
    await spare.assign(assignment);
    spare.pipes[0].write('go\\n');
    await end(spare);
    const rules = ['-c', 'nft list ruleset 2>&1 | head -1; grep CapEff /proc/self/status; echo 1 2>/dev/null >/proc/sys/net/ipv4/ip_forward || echo refused'];
    await end(launcher.launch({ kind: 'program', command: 'sh', args: rules, env, assignment }));
    await launcher.close();`;
    const asNobody = [`--reuid=${NOBODY}`, `--regid=${NOBODY}`, '--clear-groups'];
    const script = 'mount -t tmpfs tun /dev/net && mknod -m 0666 /dev/net/tun c 10 200 && exec setpriv "$@"';
    const child = spawn(
      'unshare',
      [
        ...['--mount', '--propagation', 'private', 'sh', '-c', script, 'sh', ...asNobody],
        ...[process.execPath, '--input-type=module', '--eval', program],
      ],
      { stdio: ['ignore', 'pipe', 'pipe'], env: { PATH: '/usr/local/bin:/usr/bin:/bin', HOME: folder } },
    );
    t.teardown(() => child.kill('SIGKILL'));
    const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)]);
    if (/EACCES|Cannot find module|Permission denied/.test(err)) {
      t.log('this checkout is not readable for other users');
      t.pass();
      return;
    }
    const reached = '["connected","ECONNREFUSED"]';
    const [first, ...rest] = out.trim().split('\n');
    t.is(first, 'host,outbound,none outbound true', err);
    t.deepEqual(rest.slice(0, 3), [reached, 'true', reached], err);
    t.regex(rest.slice(3).join('\n'), /CapEff:\t0+\nrefused$/);
  },
);

(works && isRoot ? test : test.skip)('names are resolved where the host’s resolver has a loopback address', async (t) => {
  const folder = await folderOf(t, { 'resolv.conf': 'nameserver 127.0.0.53\n' });
  const program = join(import.meta.dirname, 'resolver-program.ts');
  const script = 'mount --bind "$1" /etc/resolv.conf && exec "$2" "$3" "$4"';
  const child = spawn(
    'unshare',
    [
      '--mount',
      '--propagation',
      'private',
      'sh',
      '-c',
      script,
      'sh',
      join(folder, 'resolv.conf'),
      process.execPath,
      program,
      join(folder, 'agent'),
    ],
    { stdio: ['ignore', 'pipe', 'pipe'] },
  );
  t.teardown(() => child.kill('SIGKILL'));
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)]);
  t.is(out.trim(), '192.0.2.77', err);
});

(works && isRoot ? test : test.skip)(
  'a spare of an agent as root has the network of its worker; one from before a new gateway is refused',
  async (t) => {
    const launcher = await open(t, {}, true);
    t.true(launcher.takesSpare(assigned()));
    t.false(launcher.takesSpare(assigned({ network: 'host' })));
    const port = await listen(t, { host: '127.0.0.1', port: 0 });
    const spare = (args: readonly string[]) =>
      launcher.launch({
        kind: 'host',
        command: 'node',
        args,
        env: launcher.environmentOf({}),
        pipes: 0,
        lifeline: false,
        reads: [],
      });
    const waiting = spare(['-e', TRY, JSON.stringify([{ host: '127.0.0.1', port }])]);
    // It does not wait for its assignment.
    const said = text(waiting.stdout ?? process.stdin);
    launcher.setGateway(`http://127.0.0.1:${port}`);
    await waiting.started;
    await waiting.assign(assigned());
    t.is((await said).trim(), '["connected"]');
    await waiting.gone;
    const old = spare(['-e', 'setTimeout(() => undefined, 60_000)']);
    await old.started;
    launcher.setGateway('http://127.0.0.1:1');
    await t.throwsAsync(old.assign(assigned()), { message: /address of the gateway has changed/ });
    old.kill();
    await old.gone;
    await until('no network leads to the former gateway', () => (pastas(port).length === 0 ? true : null));
  },
);
