/** What the agent asks of a container engine, and what it makes of the answers, where no real engine could show it. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';
import type Docker from 'dockerode';

import { podmanRequest } from '../../agent/runtimes/container/create-podman.ts';
import { createRequest, type ContainerSpec } from '../../agent/runtimes/container/create-request.ts';
import { systemCallProfile } from '../../agent/runtimes/container/system-calls.ts';
import { checkContainerRuntime, ContainerEngine } from '../../agent/runtimes/container/engine.ts';
import { incarnationName } from '../../agent/runtimes/container/leftovers.ts';
import { OutputFrames } from '../../agent/runtimes/reading/output-frames.ts';
import { PullProgress } from '../../agent/runtimes/container/pull-progress.ts';
import { credentialsFor, registryOf } from '../../agent/runtimes/container/registry-credentials.ts';
import { containerRuntime } from '../conformance/runtime/container-under-test.ts';
import { startWorkerOf, type TestWorker } from '../conformance/runtime/worker-under-test.ts';
import type { WorkerStart } from '../../agent/runtimes/runtime.ts';
import { FakeEngine } from '../support/container/fake-engine.ts';
import { startAgent, startScheduler } from './fixtures.ts';
import { until } from '../support/until.ts';
import { folderOf } from '../support/folder.ts';

const GIB = 1024 ** 3;
const rules = { gpus: 'nvidia', pids: 512, tmpBytes: 64 * 1024 * 1024, shmBytes: GIB } as const;

async function fakeEngine(t: ExecutionContext): Promise<FakeEngine> {
  const engine = new FakeEngine(join(await folderOf(t), 'engine.sock'));
  await engine.listen();
  t.teardown(() => engine.close());
  return engine;
}

/** Starts workers in Python whose containers the engine refuses to start. */
async function refusedWorkers(
  t: ExecutionContext,
  engine: FakeEngine,
  authFile?: string,
): Promise<(more: Partial<WorkerStart>) => TestWorker> {
  const folder = await folderOf(t, { 'main.py': 'def fn(): pass' });
  const runtime = await containerRuntime(t, engine.socket, { rules, registryAuthFile: authFile });
  return (more) => startWorkerOf(runtime, folder, 'fn', more);
}

async function refusedWorker(t: ExecutionContext, engine: FakeEngine, more: Partial<WorkerStart>, authFile?: string): Promise<TestWorker> {
  return (await refusedWorkers(t, engine, authFile))(more);
}

interface Profile {
  readonly syscalls: readonly {
    readonly names: readonly string[];
    readonly action: string;
    readonly args?: readonly { readonly index: number; readonly value: number; readonly valueTwo: number }[];
  }[];
}

test('a worker gets its devices, its limits, and nothing else of the host', async (t) => {
  const engine = await fakeEngine(t);
  engine.images.add('capstan/base-python-cuda:latest');
  engine.startFailure = 'could not select device driver "nvidia" with capabilities: [[gpu]]';
  const deviceUuids = ['GPU-3f0e', 'MIG-77aa'];
  const env = { API_TOKEN: 'a-secret', PYTHONHASHSEED: '7' };
  const worker = await refusedWorker(t, engine, { deviceUuids, env, memoryBytes: 2 * GIB, cpuMillis: 1_500 });
  const { detail } = await worker.hear('exited');
  t.is(detail, `starting the container failed: ${engine.startFailure}`);

  const [request] = engine.created;
  t.is(request?.Image, 'capstan/base-python-cuda:latest');
  t.deepEqual(request?.Entrypoint, ['python3', '/capstan/bootstrap/agent/runtimes/container/init/init.py']);
  t.deepEqual(request?.Env?.toSorted(), [
    'HOME=/tmp',
    'NVIDIA_VISIBLE_DEVICES=GPU-3f0e,MIG-77aa',
    'PYTHONHASHSEED=7',
    'PYTHONUNBUFFERED=1',
  ]);
  t.like(request?.Labels, { 'capstan.node': 'test-node', 'capstan.worker': 'worker-1', 'capstan.endpoint': 'endpoint-1' });
  const { Mounts: mounts, ...host } = request?.HostConfig ?? {};
  t.deepEqual(host, {
    ReadonlyRootfs: true,
    Tmpfs: { '/tmp': 'rw,exec,nosuid,nodev,mode=1777,size=67108864' },
    CapDrop: ['ALL'],
    SecurityOpt: ['no-new-privileges'],
    PidsLimit: 512,
    Memory: 2 * GIB,
    MemorySwap: 2 * GIB,
    NanoCpus: 1_500_000_000,
    ShmSize: GIB,
    Ulimits: [{ Name: 'core', Soft: 0, Hard: 0 }],
    NetworkMode: 'none',
    ExtraHosts: ['worker:127.0.0.1'],
    DeviceRequests: [{ Driver: 'nvidia', DeviceIDs: deviceUuids, Capabilities: [['gpu']] }],
    Init: false,
    LogConfig: { Type: 'none', Config: {} },
    RestartPolicy: { Name: 'no' },
  });
  t.deepEqual(
    (mounts as Docker.MountSettings[]).map(({ Type, Target, ReadOnly }) => [Type, Target, ReadOnly]),
    ['bootstrap', 'channel', 'build'].map((name) => ['bind', `/capstan/${name}`, true]),
  );
  t.false(JSON.stringify(engine.asked.items).includes('a-secret'));
});

test('the operator’s runtime makes the containers, and says which level they have', async (t) => {
  const engine = await fakeEngine(t);
  engine.images.add('capstan/base-python:latest');
  engine.runtimes = { runc: { path: 'runc' }, strong: { path: '/usr/local/bin/runsc' }, shim: { runtimeType: 'io.containerd.runsc.v1' } };
  for (const [runtime, level] of [
    [undefined, 'container'],
    ['runc', 'container'],
    ['strong', 'gvisor'],
    ['shim', 'gvisor'],
  ] as const) {
    const container = await containerRuntime(t, engine.socket, { rules: { ...rules, runtime } });
    t.is((await container.probe())?.level, level, runtime);
    await startWorkerOf(container, await folderOf(t, { 'main.py': 'def fn(): pass' }), 'fn', {}).hear('exited');
    t.is(engine.created.at(-1)?.HostConfig?.Runtime, runtime);
  }
  t.like(podmanRequest(order, { ...rules, runtime: 'runsc' }), { oci_runtime: 'runsc' });
  t.false('oci_runtime' in podmanRequest(order, rules));
});

test('an agent does not start with a runtime that its engine does not have', async (t) => {
  const engine = await fakeEngine(t);
  engine.runtimes = { runc: { path: 'runc' }, nvidia: { path: 'nvidia-container-runtime' } };
  const client = new ContainerEngine(engine.socket);
  await t.notThrowsAsync(checkContainerRuntime(client, undefined));
  await t.notThrowsAsync(checkContainerRuntime(client, 'nvidia'));
  await t.throwsAsync(checkContainerRuntime(client, 'runsc'), {
    code: 'CONFIG',
    message: /^CAPSTAN_CONTAINER_RUNTIME: the container engine has no runtime runsc; it has: nvidia, runc\. Add it to/,
  });
  await t.notThrowsAsync(checkContainerRuntime(new ContainerEngine('none'), 'runsc'), 'an engine may come later');
});

test('a worker has the network that it asks for, or a narrower one', async (t) => {
  const engine = await fakeEngine(t);
  engine.gateway = '10.1.0.1';
  engine.images.add('capstan/base-python:latest').add('acme/web:1');
  const folder = await folderOf(t, { 'main.py': 'def fn(): pass' });
  const asked = async (network: string, outboundNetwork: string | undefined, more: Partial<WorkerStart>): Promise<string | undefined> => {
    const container = await containerRuntime(t, engine.socket, { rules, network, outboundNetwork });
    const before = engine.created.length;
    const { detail } = await startWorkerOf(container, folder, 'fn', more).hear('exited');
    return engine.created.length > before ? engine.created.at(-1)?.HostConfig?.NetworkMode : detail;
  };
  t.is(await asked('auto', undefined, {}), 'bridge');
  t.is(await asked('auto', undefined, { network: 'host' }), 'bridge');
  t.is(await asked('host', undefined, { network: 'host' }), 'host');
  t.is(await asked('auto', undefined, { network: 'none' }), 'none');
  t.is(await asked('host', undefined, { network: 'none' }), 'none');
  t.is(await asked('auto', undefined, { network: 'outbound' }), 'bridge');
  t.is(await asked('host', 'bridge', { network: 'outbound' }), 'bridge');
  t.regex(
    (await asked('host', undefined, { network: 'outbound' })) ?? '',
    /this worker's network is `outbound`, but this node offers only the host's/,
  );
  const server = { image: 'acme/web:1', functions: [], servesHttp: true };
  t.regex((await asked('auto', undefined, { ...server, network: 'none' })) ?? '', /the worker's network is `none`/);
});

test('the engine’s bridge is no network of the kind `outbound`', async (t) => {
  const engine = await fakeEngine(t);
  engine.gateway = '10.1.0.1';
  const networks = async (outboundNetwork?: string): Promise<readonly string[] | undefined> =>
    (await (await containerRuntime(t, engine.socket, { rules, outboundNetwork })).probe())?.networks;
  t.deepEqual(await networks(), ['host', 'none']);
  t.deepEqual(await networks('filtered'), ['host', 'outbound', 'none']);
});

const order: ContainerSpec = {
  image: 'someone/image:1',
  entrypoint: undefined,
  command: undefined,
  env: {},
  deviceUuids: [],
  memoryBytes: 0,
  cpuMillis: 0,
  mounts: [],
  readOnlyRoot: false,
  network: 'bridge',
  hostAddress: '172.17.0.1',
  init: true,
  labels: { agent: 'a', incarnation: 'i', start: 's', node: 'n', worker: 'w', endpoint: 'e' },
};

test('a bridge that does not tell its gateway, as Docker’s before its second start, has it at its first address', async (t) => {
  const engine = await fakeEngine(t);
  engine.gateway = '10.1.0.0/16';
  engine.images.add('capstan/base-python:latest');
  await (await refusedWorker(t, engine, {})).hear('exited');
  t.deepEqual(engine.created[0]?.HostConfig?.ExtraHosts, ['host.docker.internal:10.1.0.1']);
});

test('an image that listens itself has its ports to itself on a network, and shows them to this host alone', async (t) => {
  const engine = await fakeEngine(t);
  engine.gateway = '10.1.0.1';
  engine.images.add('acme/web:1');
  const runtime = await containerRuntime(t, engine.socket);
  const started = (env: Readonly<Record<string, string>>, container = runtime): TestWorker =>
    startWorkerOf(container, '', '', { image: 'acme/web:1', functions: [], servesHttp: true, env });
  await started({}).hear('exited');
  await started({ PORT: '8000', PORT_HEALTH: '9000' }).hear('exited');
  const [plain, chosen] = engine.created;
  t.deepEqual(
    plain?.Env?.filter((each) => each.startsWith('PORT')),
    ['PORT=80', 'PORT_HEALTH=80'],
  );
  t.deepEqual(plain?.HostConfig?.PortBindings, { '80/tcp': [{ HostIp: '127.0.0.1', HostPort: '' }] });
  t.like(plain, { ExposedPorts: { '80/tcp': {} }, HostConfig: { NetworkMode: 'bridge', CapDrop: ['ALL'] } });
  t.deepEqual(Object.keys(chosen?.HostConfig?.PortBindings as object), ['8000/tcp', '9000/tcp']);

  t.is((await started({ PORT: 'http' }).hear('exited')).detail, 'starting the worker failed: env.PORT: must be a port, 1 to 65535');
  const alone = await containerRuntime(t, engine.socket, { network: 'none' });
  t.regex((await started({}, alone).hear('exited')).detail, /CAPSTAN_CONTAINER_NETWORK is `none`/);
});

test('a command in a container has its own values, and its build at a path of its own', async (t) => {
  const engine = await fakeEngine(t);
  engine.gateway = '10.1.0.1';
  engine.images.add('acme/web:1');
  const runtime = await containerRuntime(t, engine.socket);
  const build = await folderOf(t, { 'serve.py': '' });
  const command = ['python3', '$CAPSTAN_BUILD/serve.py', '--bind', '${CAPSTAN_HOST}:$PORT'];
  await startWorkerOf(runtime, build, '', { image: 'acme/web:1', functions: [], servesHttp: true, command, maxConcurrency: 7 }).hear(
    'exited',
  );
  const [request] = engine.created;
  t.deepEqual(request?.Entrypoint, ['python3', '/capstan/build/serve.py', '--bind', '0.0.0.0:80']);
  t.true(request?.Env?.includes('CAPSTAN_MAX_CONCURRENCY=7'));
});

test('a container without devices sees none, whatever its image asks for', (t) => {
  const request = createRequest(order, rules);
  t.deepEqual(request.Env, ['NVIDIA_VISIBLE_DEVICES=void']);
  t.deepEqual(request.HostConfig?.DeviceRequests, []);
  t.deepEqual(request.HostConfig?.ExtraHosts, ['host.docker.internal:172.17.0.1']);
  for (const key of ['Memory', 'NanoCpus', 'Tmpfs']) t.false(key in (request.HostConfig ?? {}), key);
  for (const key of ['Entrypoint', 'Cmd']) t.false(key in request, key);
});

test('a container has the image’s user unless it is given one, and the engine’s filter of system calls unless that is', (t) => {
  t.false('User' in createRequest(order, rules));
  t.deepEqual(createRequest(order, rules).HostConfig?.SecurityOpt, ['no-new-privileges']);
  t.is(createRequest({ ...order, user: '60000:60000' }, rules, '{}').User, '60000:60000');
  t.deepEqual(createRequest(order, rules, '{}').HostConfig?.SecurityOpt, ['no-new-privileges', 'seccomp={}']);
  t.like(podmanRequest({ ...order, user: '60000:60000' }, rules), { user: '60000:60000' });
});

test('the profile of system calls compares the low half of arguments, and is none for other architectures', (t) => {
  t.is(systemCallProfile('riscv64'), undefined);
  const { syscalls } = JSON.parse(systemCallProfile('x64') ?? '') as Profile;
  const passes = (name: string, index: number, value: bigint): boolean =>
    syscalls.some(
      ({ names, action, args = [] }) =>
        names.includes(name) &&
        action === 'SCMP_ACT_ALLOW' &&
        args.every((each) => each.index !== index || (value & BigInt(each.value)) === BigInt(each.valueTwo)),
    );
  const upper = 1n << 40n;
  for (const command of [0x5401n, 0x5411n, 0x5413n, 0xc0_20_46_2an]) t.true(passes('ioctl', 1, command), String(command));
  for (const command of [0x5412n, upper | 0x5412n]) t.false(passes('ioctl', 1, command), String(command));
  for (const family of [1n, 2n, 10n, 16n]) t.true(passes('socket', 0, family), String(family));
  for (const family of [17n, 38n, 40n, upper | 40n]) t.false(passes('socket', 0, family), String(family));
  t.true(passes('clone', 0, 0x3d_0f_00n));
  for (const flag of [0x1000_0000n, 0x0002_0000n, upper | 0x4000_0000n]) t.false(passes('clone', 0, flag), String(flag));
  for (const name of ['io_uring_setup', 'bpf', 'add_key', 'mount', 'unshare', 'setns', 'userfaultfd']) t.false(passes(name, 0, 0n), name);
});

test('an engine without the NVIDIA driver gets its devices by CDI name, or by the environment', (t) => {
  const gpu = { ...order, deviceUuids: ['GPU-1', 'GPU-2'] };
  const cdi = createRequest(gpu, { ...rules, gpus: 'cdi' });
  t.deepEqual(cdi.HostConfig?.DeviceRequests, [{ Driver: 'cdi', DeviceIDs: ['nvidia.com/gpu=GPU-1', 'nvidia.com/gpu=GPU-2'] }]);
  const environment = createRequest(gpu, { ...rules, gpus: 'environment' });
  t.deepEqual(environment.HostConfig?.DeviceRequests, []);
  t.deepEqual(environment.Env, ['NVIDIA_VISIBLE_DEVICES=GPU-1,GPU-2']);
});

test('an image that is not there is pulled, with credentials and its progress, once for all that wait', async (t) => {
  const engine = await fakeEngine(t);
  const image = 'registry.test:5000/team/model:2';
  const auth = Buffer.from('user:pass:word').toString('base64');
  const authFile = join(await folderOf(t), 'config.json');
  await writeFile(authFile, JSON.stringify({ auths: { 'https://registry.test:5000': { auth } } }));
  const { promise: wanted, resolve: isWanted } = Promise.withResolvers<void>();
  engine.onPull = (_image, answer) => {
    answer.write('{"status":"Pulling from team/model","id":"2"}\n{"status":"Downloading","progressDetail":{"cur');
    answer.write('rent":420000000,"total":1000000000},"id":"layer"}\n');
    void wanted.then(() => {
      engine.images.add(image);
      answer.end('{"status":"Download complete","progressDetail":{},"id":"layer"}\n');
    });
  };
  const start = await refusedWorkers(t, engine, authFile);
  const first = start({ image });
  const pulling = await first.hear('preparing', ({ detail }) => detail.includes('%'));
  t.deepEqual(pulling, { say: 'preparing', reason: 'IMAGE_PULL', detail: `${image}: 42% of 1.0 GB` });
  const second = start({ image });
  await second.hear('preparing', ({ detail }) => detail.includes('42%'));
  isWanted();
  for (const worker of [first, second]) {
    await worker.hear('preparing', ({ reason }) => reason === 'STARTING');
    await worker.hear('exited');
  }
  t.is(engine.calls('POST /images/create').length, 1);
  const header = engine.calls('POST /images/create')[0]?.headers['x-registry-auth'];
  const shown = JSON.parse(Buffer.from(String(header), 'base64url').toString()) as unknown;
  t.like(shown, { username: 'user', password: 'pass:word', serveraddress: 'https://registry.test:5000' });
});

test('a pull that fails is a failure of its own kind, in the registry’s words', async (t) => {
  const engine = await fakeEngine(t);
  engine.onPull = (image, answer) => answer.end(`{"error":"manifest for ${image} not found"}\n`);
  const worker = await refusedWorker(t, engine, { image: 'nobody/nothing' });
  t.deepEqual(await worker.hear('start-failed'), {
    say: 'start-failed',
    reason: 'IMAGE_PULL_FAILED',
    detail: 'nobody/nothing: manifest for nobody/nothing:latest not found',
  });
  await worker.hear('exited');
  t.is(engine.created.length, 1);
});

test('a worker that is ended while its image comes ends at once, and the pull with it', async (t) => {
  const engine = await fakeEngine(t);
  const { promise: hungUp, resolve } = Promise.withResolvers<void>();
  engine.onPull = (_image, answer) => {
    answer.write('{"status":"Pulling"}\n');
    answer.once('close', resolve);
  };
  const worker = await refusedWorker(t, engine, { image: 'slow/image' });
  await engine.asked.next(({ call }) => call === 'POST /images/create');
  worker.worker.end(true);
  t.is((await worker.hear('exited')).detail, 'the worker was killed');
  await hungUp;
  t.false(worker.said.items.some(({ say }) => say === 'start-failed'));
});

test('a file of credentials that is broken says so without what is in it', async (t) => {
  const engine = await fakeEngine(t);
  const authFile = join(await folderOf(t), 'config.json');
  await writeFile(authFile, 'a-secret, and no JSON');
  const worker = await refusedWorker(t, engine, { image: 'some/image' }, authFile);
  const { detail } = await worker.hear('start-failed');
  t.is(detail, `CAPSTAN_REGISTRY_AUTH_FILE: the file is not JSON: ${authFile}`);
});

test('credentials are found by the registry of the image', async (t) => {
  const file = join(await folderOf(t), 'config.json');
  const auth = Buffer.from('me:secret').toString('base64');
  await writeFile(file, JSON.stringify({ auths: { 'https://index.docker.io/v1/': { auth }, 'ghcr.io': { auth } } }));
  for (const [image, registry] of [
    ['ubuntu', 'docker.io'],
    ['someone/image:1', 'docker.io'],
    ['ghcr.io/someone/image', 'ghcr.io'],
    ['localhost/image', 'localhost'],
    ['host:5000/image@sha256:00', 'host:5000'],
  ] as const) {
    t.is(registryOf(image), registry);
    const found = await credentialsFor(image, file);
    t.is(found?.username, registry === 'docker.io' || registry === 'ghcr.io' ? 'me' : undefined, image);
  }
  t.is(await credentialsFor('ubuntu', undefined), undefined);
});

test('progress counts what is known of all layers; nonsense in between does no harm', (t) => {
  const progress = new PullProgress();
  t.is(progress.text, '');
  for (const line of [
    'no JSON',
    '[]',
    '{"id":"a","status":"Downloading","progressDetail":{"current":10000000,"total":40000000}}',
    '{"id":"b","status":"Downloading","progressDetail":{"current":"x"}}',
    '{"id":"b","status":"Downloading","progressDetail":{"current":0,"total":60000000}}',
    '{"id":"a","status":"Pull complete","progressDetail":{}}',
  ]) {
    t.is(progress.take(line), undefined);
  }
  t.is(progress.text, '40% of 100 MB');
  t.is(progress.take('{"error":"disk full"}'), 'disk full');
});

test('the output of a container is cut into its streams wherever the bytes are broken', (t) => {
  const frame = (stream: number, text: string): Buffer => {
    const header = Buffer.alloc(8);
    header[0] = stream;
    header.writeUInt32BE(Buffer.byteLength(text), 4);
    return Buffer.concat([header, Buffer.from(text)]);
  };
  const all = Buffer.concat([frame(1, 'out'), frame(2, 'err'), frame(1, ''), frame(1, 'more')]);
  for (let size = 1; size <= all.length; size += 1) {
    const said = { stdout: '', stderr: '' };
    const frames = new OutputFrames((stream, piece) => (said[stream] += piece.toString()));
    for (let at = 0; at < all.length; at += size) frames.push(all.subarray(at, at + size));
    t.deepEqual(said, { stdout: 'outmore', stderr: 'err' });
  }
});

test('the inventory has the engine while it answers, with its images, base images first', async (t) => {
  const engine = new FakeEngine(join(await folderOf(t), 'engine.sock'));
  engine.images.add('someone/else:1').add('docker.io/capstan/base-node:latest').add('<none>:<none>');
  const scheduler = await startScheduler(t);
  await startAgent(t, scheduler, { containerSocket: engine.socket, inventoryMs: 20 });
  const hello = await scheduler.hello();
  t.like(hello.inventory, { containerEngine: '', images: [] });
  t.false(hello.inventory?.runtimes.includes('container'));
  await engine.listen();
  t.teardown(() => engine.close());
  const there = await scheduler.hear('inventory', ({ containerEngine }) => containerEngine !== '');
  t.is(there.containerEngine, 'docker 24.0.7');
  t.deepEqual(there.images, ['capstan/base-node:latest', 'someone/else:1']);
  t.true(there.runtimes.includes('container'));
  const from = scheduler.now;
  await engine.close();
  const gone = await scheduler.hear('inventory', ({ containerEngine }) => containerEngine === '', from);
  t.false(gone.runtimes.includes('container'));
});

test('containers of an earlier agent go; those of a living one, and of other nodes, stay', async (t) => {
  const engine = await fakeEngine(t);
  const runtime = await containerRuntime(t, engine.socket);
  // Its own first sweep tells under which name it looks.
  const { query } = await engine.asked.next(({ call }) => call === 'GET /containers/json');
  const [label = ''] = (JSON.parse(query.get('filters') ?? '{}') as { label: string[] }).label;
  t.regex(label, /^capstan\.agent=[0-9a-f-]{36}$/);
  const labels = (incarnation: string): Record<string, string> => ({ 'capstan.incarnation': incarnation, 'capstan.start': 'unknown' });
  engine.containers = [
    { Id: 'dead', Labels: labels('999999999:1') },
    { Id: 'recycled', Labels: labels(`${process.pid}:1`) },
    { Id: 'lost', Labels: labels(incarnationName()) },
    { Id: 'other', Labels: labels(await otherIncarnation()) },
  ];
  await engine.close();
  await runtime.probe();
  await engine.listen();
  // A connection that was kept may break with the first request.
  await until('the engine is back', () => runtime.probe());
  for (const id of ['dead', 'recycled', 'lost']) await engine.asked.next(({ call }) => call === `DELETE /containers/${id}`);
  await runtime.close();
  t.deepEqual(
    engine.containers.map(({ Id }) => Id),
    ['other'],
  );
});

/** That of the process which started this one: it lives as long as the test does. */
async function otherIncarnation(): Promise<string> {
  const stat = await readFile(`/proc/${process.ppid}/stat`, 'utf8');
  return `${process.ppid}:${stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? ''}`;
}
