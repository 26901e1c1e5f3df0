/** Where workers go, and what nodes say that cannot take them. */
import test from 'ava';

import { CallStyle, Device, type Inventory } from '../../../proto/gen/capstan/v1/nodes.ts';
import type { EndpointInput } from '../../../scheduler/core/state/endpoints.ts';
import { place, type Plan } from '../../../scheduler/core/fleet/placement.ts';
import { explainRejections } from '../../../scheduler/core/state/rejections.ts';
import { queueReason } from '../../../scheduler/core/jobs/reasons.ts';
import { requestWorker } from '../../../scheduler/core/fleet/workers.ts';
import { nodeInfo } from '../../../scheduler/services/fleet-view.ts';
import { queueInput } from '../../support/endpoint-input.ts';
import { FleetWorld } from '../core/fleet-world.ts';

const GIGABYTE = 1024n ** 3n;
const gpu = (uuid: string, model = 'NVIDIA RTX A5000', memoryGb = 24, more: Partial<Device> = {}): Device =>
  Device.fromPartial({ uuid, model, memoryBytes: BigInt(memoryGb) * 1_000_000_000n, healthy: true, ...more });
const slice = (uuid: string, profile: string, memoryGb: number): Device =>
  gpu(uuid, `NVIDIA A100-SXM4-80GB MIG ${profile}`, memoryGb, { parentUuid: 'card' });

/** Deploys an endpoint that wants `workers` at once, and gives their places: `<node> <devices>`. */
function placed(world: FleetWorld, input: Partial<EndpointInput>, workers = 1): string[] {
  const [id = ''] = world.deploy(queueInput('e', { workersMin: workers, workersMax: workers, ...input }));
  return world.workers(id).map(({ node, devices }) => [node, ...devices].join(' '));
}

/** What the nodes say when there is no place. */
function refused(
  input: Partial<EndpointInput>,
  nodes: Readonly<Record<string, Partial<Inventory>>>,
  prepare = (_world: FleetWorld): void => undefined,
): string {
  const world = new FleetWorld();
  for (const [name, inventory] of Object.entries(nodes)) world.node(name, [], inventory);
  prepare(world);
  const [id = ''] = world.deploy(queueInput('e', { workersMin: 1, workersMax: 1, ...input }));
  return explainRejections(world.endpoint(id).rejections);
}

test('the workers of an endpoint are spread over the nodes', (t) => {
  const world = new FleetWorld();
  for (const name of ['a', 'b', 'c']) world.node(name);
  t.deepEqual(placed(world, {}, 6).sort(), ['a', 'a', 'b', 'b', 'c', 'c']);
});

test('different endpoints are packed, so that whole nodes stay free', (t) => {
  const world = new FleetWorld();
  for (const name of ['a', 'b']) world.node(name, [], { devices: [gpu(`${name}0`), gpu(`${name}1`)] });
  t.deepEqual(placed(world, { name: 'x', gpuIds: 'ANY', gpuCount: 1 }), ['a a0']);
  t.deepEqual(placed(world, { name: 'y', gpuIds: 'ANY', gpuCount: 1 }), ['a a1']);
  t.deepEqual(placed(world, { name: 'z', gpuIds: 'ANY', gpuCount: 2 }), ['b b0 b1']);
});

test('CPU work goes to nodes without GPUs first', (t) => {
  const world = new FleetWorld();
  world.node('a', [], { devices: [gpu('a0')] });
  world.node('b');
  t.deepEqual(placed(world, {}, 3), ['b', 'b', 'b']);
});

test('a worker goes where a core is free before cores are given twice', (t) => {
  const world = new FleetWorld();
  world.node('a', [], { cpuCount: 2 });
  world.node('b', [], { cpuCount: 2 });
  t.deepEqual(placed(world, { name: 'x', cpu: 'cpu3c-2-4' }), ['a']);
  t.deepEqual(placed(world, { name: 'y', cpu: 'cpu3c-2-4' }), ['b']);
  t.deepEqual(placed(world, { name: 'z', cpu: 'cpu3c-2-4' }), ['a']);
});

test('a node that has the build is taken first', (t) => {
  const world = new FleetWorld();
  world.node('a');
  world.node('b', [], { builds: ['d'] });
  t.deepEqual(placed(world, {}), ['b']);
});

test('the first entry of gpuIds that can be had wins', (t) => {
  const world = new FleetWorld();
  world.node('a', [], { devices: [gpu('t4', 'Tesla T4', 16)] });
  world.node('b', [], { devices: [gpu('l4', 'NVIDIA L4')] });
  t.deepEqual(placed(world, { name: 'x', gpuIds: 'ADA_24,NVIDIA L4,ANY', gpuCount: 1 }), ['b l4']);
  t.deepEqual(placed(world, { name: 'y', gpuIds: 'ADA_24,NVIDIA L4,ANY', gpuCount: 1 }), ['a t4']);
});

test('among equals the smallest device is taken', (t) => {
  const world = new FleetWorld();
  world.node('a', [], { devices: [gpu('h200', 'NVIDIA H200', 141)] });
  world.node('b', [], { devices: [gpu('a5000'), gpu('t4', 'Tesla T4', 16)] });
  t.deepEqual(placed(world, { gpuIds: 'ANY', gpuCount: 1 }), ['b t4']);
});

test('several GPUs come from one node, of one model where there are enough', (t) => {
  const world = new FleetWorld();
  world.node('a', [], { devices: [gpu('a0'), gpu('a1', 'NVIDIA L4')] });
  world.node('b', [], { devices: [gpu('b0', 'NVIDIA L4'), gpu('b1'), gpu('b2')] });
  t.deepEqual(placed(world, { name: 'x', gpuIds: 'AMPERE_24', gpuCount: 2 }), ['b b1 b2']);
  t.deepEqual(placed(world, { name: 'y', gpuIds: 'AMPERE_24', gpuCount: 2 }), ['a a1 a0']);
  t.deepEqual(placed(world, { name: 'z', gpuIds: 'AMPERE_24', gpuCount: 2 }), []);
});

test('slices are taken by name and, when big, by ANY; several at once never', (t) => {
  const devices = [slice('s10', '1g.10gb', 10), slice('s40', '3g.40gb', 40), slice('s41', '3g.40gb', 40)];
  const world = new FleetWorld();
  world.node('a', [], { devices });
  t.deepEqual(placed(world, { name: 'x', gpuIds: 'MIG 1g.10gb', gpuCount: 1 }), ['a s10']);
  t.deepEqual(placed(world, { name: 'y', gpuIds: 'ANY', gpuCount: 1 }), ['a s40']);
  t.is(refused({ gpuIds: 'ANY', gpuCount: 2 }, { a: { devices } }), 'GPU_MISSING on 1 node: a (no ANY)');
});

test('a device is given once, and comes back when its worker is gone', (t) => {
  const world = new FleetWorld();
  world.node('a', ['g0']);
  t.deepEqual(placed(world, { name: 'x', gpuIds: 'ANY', gpuCount: 1 }), ['a g0']);
  world.settle();
  t.deepEqual(placed(world, { name: 'y', gpuIds: 'ANY', gpuCount: 1 }), []);
  const [x = ''] = world.deploy(queueInput('x', { workersMin: 0, workersMax: 0, gpuIds: 'ANY', gpuCount: 1 }));
  t.is(world.workers(x)[0]?.drain, true);
  world.reap();
  world.pass(1_100);
  t.deepEqual(
    [...world.image.workers.values()].map(({ devices }) => devices),
    [['g0']],
  );
  t.deepEqual(world.workers(x), []);
});

test('each node says what it lacks, and the reasons that came closest stand first', (t) => {
  const python = { functions: [{ name: 'f', module: 'm.py', parameters: [], callStyle: CallStyle.WHOLE }] };
  const hosts = {
    none: { runtimes: ['thread'] },
    old: { runtimes: ['process'], pythonVersion: '3.7.3' },
    without: { runtimes: ['process'], pythonVersion: '3.12.0' },
    engine: { runtimes: ['process', 'container'], pythonVersion: '3.12.0' },
  };
  t.is(
    refused({ ...python, packages: ['torch'] }, hosts),
    'PACKAGE_MISSING on 2 nodes: engine (torch; its engine does not have capstan/base-python:latest), without (torch); ' +
      'PYTHON_TOO_OLD on 1 node: old (Python 3.7.3, needs 3.8); ' +
      'RUNTIME_MISSING on 1 node: none (the node does not offer the runtime process)',
  );
  const compiled = { ...python, python: '3.12' };
  t.is(
    refused(compiled, {
      newer: { runtimes: ['process'], pythonVersion: '3.13.1', arch: 'x64' },
      arm: { runtimes: ['process'], pythonVersion: '3.12.4', arch: 'arm64' },
    }),
    "PYTHON_MISMATCH on 2 nodes: arm (arm64, but the build's packages are for x86_64), " +
      "newer (Python 3.13.1, but the build's packages are for 3.12 (build --python 3.13))",
  );
  t.is(refused(compiled, { a: { runtimes: ['process'], pythonVersion: '3.12.4', arch: 'x64' } }), '');
  t.is(refused({ ...compiled, imageName: 'acme/model' }, { a: { runtimes: ['container'] } }), '', 'an image has its own Python');
  // A command whose build has packages for Python needs the same of a host.
  const command = { functions: [], command: ['uvicorn', 'main:app'] };
  const host = { a: { runtimes: ['process'], pythonVersion: '3.13.1', arch: 'x64' } };
  t.is(
    refused({ ...command, python: '3.12' }, host),
    "PYTHON_MISMATCH on 1 node: a (Python 3.13.1, but the build's packages are for 3.12 (build --python 3.13))",
  );
  t.is(refused({ ...command, packages: ['numpy'] }, host), 'PACKAGE_MISSING on 1 node: a (numpy)');
  t.is(
    refused({ ...command, command: ['python3', 'serve.py'] }, { a: { runtimes: ['process'] } }),
    'RUNTIME_MISSING on 1 node: a (no Python)',
  );
  t.is(refused(command, { a: { runtimes: ['process'] } }), '', 'a program of another kind needs none');
  t.is(refused({ imageName: 'acme/model' }, { a: {} }), 'RUNTIME_MISSING on 1 node: a (no container engine)');
  t.is(refused({ cpu: 'cpu3c-16-2' }, { a: { cpuCount: 2 } }), 'CPU on 1 node: a (0 of 8 vCPU reserved, needs 16)');
  t.is(refused({ cpu: 'cpu3c-1-8' }, { a: { memoryBytes: 4n * GIGABYTE } }), 'MEMORY on 1 node: a (0 of 3.5 GB reserved, needs 8)');
  t.is(refused({}, { a: { diskBytes: 10n * GIGABYTE, diskAvailableBytes: GIGABYTE / 4n } }), 'DISK on 1 node: a (0.3 GB free, needs 0.5)');
  t.is(
    refused({}, { a: {}, b: {} }, (world) => world.disconnect('b')),
    '',
    'a node that can take it takes it, whatever others say',
  );
});

test('no GPU, a busy one and a sick one are told apart', (t) => {
  const gpus = { gpuIds: 'AMPERE_24', gpuCount: 1 };
  t.is(refused(gpus, { a: {} }), 'GPU_MISSING on 1 node: a (no AMPERE_24)');
  t.is(refused(gpus, { a: { devices: [gpu('t4', 'Tesla T4', 16)] } }), 'GPU_MISSING on 1 node: a (no AMPERE_24)');
  t.is(refused({ ...gpus, gpuCount: 2 }, { a: { devices: [gpu('g0')] } }), 'GPU_MISSING on 1 node: a (only 1 AMPERE_24)');
  t.is(refused(gpus, { a: { deviceProblem: 'nvidia-smi hangs' } }), 'DEVICE_PROBLEM on 1 node: a (nvidia-smi hangs)');
  t.is(
    refused(gpus, { a: { devices: [gpu('g0', undefined, 24, { healthy: false, problem: 'Xid 79' })] } }),
    'DEVICE_PROBLEM on 1 node: a (1 of 1 unhealthy: Xid 79)',
  );
  t.is(
    refused(gpus, { a: { devices: [gpu('g0')] } }, (world) => void placed(world, { ...gpus, name: 'other' })),
    'GPU_BUSY on 1 node: a (0 of 1 free)',
  );
});

test('a host is not blamed for its faults when it would not have the wanted GPU anyway', (t) => {
  const gpus = { gpuIds: 'H200', gpuCount: 1 };
  const h200 = (uuid: string, more: Partial<Device> = {}): Device => gpu(uuid, 'NVIDIA H200', 141, more);
  const t4 = { devices: [gpu('t4', 'Tesla T4', 16)] };
  const broken = 'nvidia-smi: Driver/library version mismatch';
  const breakDriver = (world: FleetWorld, node: string, how: 'listed' | 'absent'): void =>
    world.inventory(node, (known) => ({
      ...known,
      deviceProblem: broken,
      devices: how === 'absent' ? [] : known.devices.map((device) => ({ ...device, healthy: false, problem: broken })),
    }));
  const gone = 'NODE_DISCONNECTED on 1 node: h200; GPU_MISSING on 1 node: t4 (no H200)';
  for (const how of ['listed', 'absent'] as const)
    t.is(
      refused(gpus, { t4, h200: { devices: [h200('h0')] } }, (world) => {
        breakDriver(world, 't4', how);
        world.disconnect('h200');
      }),
      gone,
      how,
    );
  t.is(
    refused(gpus, { t4, h200: { devices: [h200('h0')] } }, (world) => {
      for (const name of ['t4', 'h200']) world.disconnect(name);
    }),
    gone,
    'a host that is gone is known by its GPUs',
  );
  t.is(
    refused(gpus, { a: { devices: [h200('a0')] }, b: { devices: [h200('b0')] } }, (world) => {
      breakDriver(world, 'a', 'absent');
      world.disconnect('b');
    }),
    `NODE_DISCONNECTED on 1 node: b; DEVICE_PROBLEM on 1 node: a (${broken})`,
    'a host that is gone comes before a broken driver',
  );
  t.is(
    refused({ ...gpus, gpuCount: 2 }, { a: { devices: [h200('a0')] } }, (world) => world.disconnect('a')),
    'GPU_MISSING on 1 node: a (only 1 H200)',
  );
  t.is(refused(gpus, { a: { deviceProblem: broken } }), `DEVICE_PROBLEM on 1 node: a (${broken})`, 'nothing is known of its GPUs');
  t.is(
    refused(gpus, { a: { devices: [gpu('UNIDENTIFIED-1', '', 0)], deviceProblem: broken } }),
    `DEVICE_PROBLEM on 1 node: a (${broken})`,
    'a GPU without a name may be any',
  );
});

test('a fleet of many nodes is told by reason, with some of them by name', (t) => {
  const nodes = Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`n${String(i).padStart(2, '0')}`, {}]));
  t.is(
    refused({ gpuIds: 'H200', gpuCount: 1 }, nodes),
    `GPU_MISSING on 30 nodes: ${Array.from({ length: 8 }, (_, i) => `n0${i} (no H200)`).join(', ')} and 22 more`,
  );
});

test('a job that waits for a place says which one', (t) => {
  const world = new FleetWorld();
  world.node('a', ['g0']);
  placed(world, { name: 'other', gpuIds: 'ANY', gpuCount: 1 });
  const [id = ''] = world.deploy(queueInput('e', { gpuIds: 'ANY', gpuCount: 1 }));
  world.submit(id);
  t.deepEqual(queueReason(world.image, world.endpoint(id), { wall: 0, mono: world.mono }), {
    reason: 'NO_CAPACITY',
    detail: 'GPU_BUSY on 1 node: a (0 of 1 free)',
  });
});

test('a device that an agent still holds for a worker nobody wants is not given out', (t) => {
  const world = new FleetWorld({ nodeGraceMs: 1_000 });
  world.node('a', ['g0']);
  t.deepEqual(placed(world, { name: 'x', gpuIds: 'ANY', gpuCount: 1 }), ['a g0']);
  const [worker] = [...world.image.workers.values()];
  world.report(worker?.id ?? '', { deviceUuids: ['g0'] });
  world.disconnect('a');
  world.pass(2_000);
  t.is(world.image.workers.size, 0);
  world.connect('a', ['g0']);
  t.is(world.image.workers.size, 0, 'the stray worker has the device');
  world.reap();
  world.pass(1_100);
  t.deepEqual(
    [...world.image.workers.values()].map(({ node, devices }) => [node, ...devices]),
    [['a', 'g0']],
  );
});

/** A plan for an endpoint that wants one GPU of node `a`, made before `change`; why it is refused after it. */
function stale(change: (world: FleetWorld, plan: Plan) => void): string | null {
  const world = new FleetWorld();
  world.node('a', ['g0', 'g1']);
  const [id = ''] = world.deploy(queueInput('e', { gpuIds: 'ANY', gpuCount: 1 }));
  const endpoint = world.endpoint(id);
  const release = world.image.releases.get(endpoint.config.release);
  if (release === undefined) throw new Error('no release');
  const { plan } = place(world.image, endpoint, release);
  if (plan === null) throw new Error('no plan');
  change(world, plan);
  const asked = requestWorker({ state: world.image, now: { wall: 0, mono: 0 } }, world.endpoint(id), plan, 'test');
  return 'reason' in asked ? asked.reason : null;
}

test('a plan is refused when what it was made on has changed', (t) => {
  const devices = (world: FleetWorld, change: (device: Device) => Device[]): void =>
    world.inventory('a', (known) => ({ ...known, devices: known.devices.flatMap(change) }));
  t.is(
    stale(() => undefined),
    null,
  );
  t.is(
    stale((world) => world.disconnect('a')),
    'NODE_DISCONNECTED',
  );
  t.is(
    stale((world) => devices(world, (device) => (device.uuid === 'g0' ? [] : [device]))),
    'GPU_MISSING',
  );
  t.is(
    stale((world) => devices(world, (device) => [{ ...device, healthy: device.uuid !== 'g0' }])),
    'DEVICE_PROBLEM',
  );
  t.is(
    stale((world) => void placed(world, { name: 'other', gpuIds: 'ANY', gpuCount: 1 })),
    'GPU_BUSY',
  );
  t.is(
    stale((world) => world.inventory('a', (known) => ({ ...known, runtimes: [] }))),
    'RUNTIME_MISSING',
  );
  t.is(
    stale((world) => void world.deploy(queueInput('e', { gpuIds: 'ANY', gpuCount: 2 }))),
    'NODE_DISCONNECTED',
  );
});

test('nodes tell what is set aside on them, of what may be', (t) => {
  const world = new FleetWorld();
  world.node('a', ['g0', 'g1'], { cpuCount: 4, memoryBytes: 8n * GIGABYTE });
  placed(world, { name: 'x', gpuIds: 'ANY', gpuCount: 1 });
  placed(world, { name: 'y', cpu: 'cpu3c-2-4' });
  placed(world, { name: 'z' });
  const node = world.image.nodes.get('a');
  if (node === undefined) throw new Error('no node');
  t.like(nodeInfo(world.image, node), {
    cpuMillisAllocated: 2_100,
    cpuMillisAllocatable: 16_000,
    memoryBytesAllocated: 4n * GIGABYTE + GIGABYTE / 8n,
    memoryBytesAllocatable: 8n * GIGABYTE - GIGABYTE / 2n,
    devicesAllocated: 1,
  });
});

const driven = (uuid: string, cudaVersion: string, driverVersion: string): Device =>
  gpu(uuid, 'NVIDIA H100 80GB HBM3', 80, { cudaVersion, driverVersion, computeCapability: '9.0' });

test('a GPU whose driver is older than the endpoint requires is not used, and the reason names the newest', (t) => {
  const nodes = {
    a: { devices: [driven('a0', '12.2', '535.104.05'), driven('a1', '12.3', '545.23.08')] },
    b: { devices: [driven('b0', '', '')] },
  };
  t.is(
    refused({ gpuIds: 'ANY', gpuCount: 1, minCuda: '12.4' }, nodes),
    'CUDA_TOO_OLD on 2 nodes: a (CUDA 12.3, driver 545.23.08; needs CUDA 12.4), b (CUDA unknown, driver unknown; needs CUDA 12.4)',
  );
  t.is(
    refused({ gpuIds: 'ANY', gpuCount: 1, minDriver: '550.54' }, { a: nodes.a }),
    'CUDA_TOO_OLD on 1 node: a (CUDA 12.3, driver 545.23.08; needs driver 550.54)',
  );
  const world = new FleetWorld();
  world.node('a', [], { devices: [driven('old', '12.2', '535.104.05'), driven('new', '12.10', '600.1')] });
  t.deepEqual(placed(world, { gpuIds: 'ANY', gpuCount: 1, minCuda: '12.4', minDriver: '550' }), ['a new'], 'versions are numbers');
});

test('a driver that is upgraded makes room', (t) => {
  const world = new FleetWorld();
  world.node('a', [], { devices: [driven('a0', '12.2', '535.104.05')] });
  const [id = ''] = world.deploy(queueInput('e', { workersMin: 1, workersMax: 1, gpuIds: 'ANY', gpuCount: 1, minCuda: '12.4' }));
  t.deepEqual(world.workers(id), []);
  world.inventory('a', (inventory) => ({ ...inventory, devices: [driven('a0', '12.4', '550.54.15')] }));
  world.pass(60_000);
  t.is(world.workers(id).length, 1);
});

test('what a node reports of an image does not keep the image from nodes that have it, nor from others if they disagree', (t) => {
  const image = { imageName: 'registry.example/model:1', gpuIds: 'ANY', gpuCount: 1 };
  const has = { runtimes: ['container'], images: ['registry.example/model:1'] };
  const hostile = { ...has, imageRequirements: [{ image: 'registry.example/model:1', expressions: ['cuda>=99'] }] };
  const world = new FleetWorld();
  world.node('a', [], { ...hostile, devices: [driven('a0', '12.4', '550.54.15')] });
  world.node('b', [], { ...has, devices: [driven('b0', '12.4', '550.54.15')] });
  t.deepEqual(placed(world, image), ['b b0']);
  const others = new FleetWorld();
  others.node('a', [], { ...hostile, devices: [driven('a0', '12.4', '550.54.15')] });
  others.node('b', [], { ...has, devices: [] });
  others.node('c', [], { runtimes: ['container'], devices: [driven('c0', '12.4', '550.54.15')] });
  t.deepEqual(placed(others, image), ['c c0']);
});

test('what an image requires of the driver holds for containers of it, on every node', (t) => {
  const image = { imageName: 'registry.example/model:1', gpuIds: 'ANY', gpuCount: 1 };
  const requirement = 'cuda>=12.4 brand=tesla,driver>=470,driver<471 brand=nvidia,driver>=470,driver<471';
  const has = {
    runtimes: ['container'],
    images: ['registry.example/model:1'],
    imageRequirements: [{ image: 'registry.example/model:1', expressions: [requirement] }],
  };
  t.is(
    refused(image, {
      a: { ...has, devices: [driven('a0', '12.2', '535.104.05')] },
      b: { runtimes: ['container'], devices: [driven('b0', '12.3', '545.23.08')] },
    }),
    'CUDA_TOO_OLD on 2 nodes: a (CUDA 12.2, driver 535.104.05; needs cuda>=12.4 for the image), b (CUDA 12.3, driver 545.23.08; needs cuda>=12.4 for the image)',
  );
  for (const [cuda, driver] of [
    ['12.4', '550.54.15'],
    ['11.4', '470.82.01'],
  ] as const) {
    const world = new FleetWorld();
    world.node('a', [], { ...has, devices: [driven('a0', cuda, driver)] });
    t.deepEqual(placed(world, image), ['a a0'], driver);
  }
});
