/** What operators and other accounts are told of hosts and workers (scheduler/services/fleet-view.ts, shared-hosts.ts). */
import test from 'ava';

import { baseImages } from '../../../lib/base-images.ts';
import { WorkerState } from '../../../proto/gen/capstan/v1/common.ts';
import { nodeInfo, workerInfos } from '../../../scheduler/services/fleet-view.ts';
import { machineTypes } from '../../../scheduler/services/machine-types.ts';
import { sharedNodeInfo } from '../../../scheduler/services/shared-hosts.ts';
import { queueInput } from '../../support/endpoint-input.ts';
import { FleetWorld } from '../core/fleet-world.ts';

test('a worker of a queue endpoint is RUNNING while it has a job, whatever its agent said last', (t) => {
  const world = new FleetWorld();
  world.node('a');
  const [endpoint = ''] = world.deploy(queueInput('echo'));
  const { account } = world.endpoint(endpoint).config;
  const shown = (): (WorkerState | undefined)[] =>
    workerInfos(world.image, { account, all: true, sees: () => true }, endpoint).map(({ status }) => status?.state);
  const job = world.submit(endpoint);
  t.deepEqual(shown(), [WorkerState.INITIALIZING]);
  world.settle();
  t.is(world.running.length, 1);
  t.deepEqual(shown(), [WorkerState.RUNNING]);
  // Agents tell of all their workers when one of them changes: a RUNNING of that moment is old when the job has ended.
  world.report(world.running[0]?.worker ?? '', { state: WorkerState.RUNNING });
  world.complete(job);
  t.deepEqual(shown(), [WorkerState.IDLE]);
});

test('an account sees what a shared host offers and its own work there, and nothing of the others', (t) => {
  const world = new FleetWorld();
  const images = [`${baseImages[0]?.name ?? ''}:1`, 'registry.example/secret-product:7'];
  world.node('a', ['GPU-1', 'GPU-2'], { images, builds: ['d'], cpuPercent: 50, packages: { numpy: '2.0' }, cpuModel: 'EPYC' });
  const [endpoint = ''] = world.deploy({ ...queueInput('echo'), gpuIds: 'ANY', gpuCount: 1 });
  world.submit(endpoint);
  world.settle();
  const node = world.image.nodes.get('a');
  if (node === undefined) throw new Error('the node is gone');
  t.like(nodeInfo(world.image, node), { workers: 1, jobs: 1, devicesAllocated: 1 });

  const own = sharedNodeInfo(world.image, node, 'acc');
  const [worker] = world.image.workers.values();
  t.deepEqual(
    own.inventory?.devices.map(({ uuid }) => uuid).filter((uuid) => uuid !== ''),
    [...(worker?.devices ?? [])],
    'the device of its own worker is known by its id',
  );
  t.true(own.offerOnly);
  t.false(nodeInfo(world.image, node).offerOnly);
  t.like(own, { workers: 1, jobs: 1, devicesAllocated: 1, cpuMillisAllocated: node.usage.cpuMillis });
  const seen = sharedNodeInfo(world.image, node, 'team');
  t.like(seen, { name: 'a', connected: true, workers: 0, jobs: 0, devicesAllocated: 0, cpuMillisAllocated: 0, memoryBytesAllocated: 0n });
  t.is(seen.cpuMillisAllocatable, own.cpuMillisAllocatable);
  t.like(seen.inventory, { cpuCount: 64, cpuModel: 'EPYC', packages: { numpy: '2.0' }, images: images.slice(0, 1) });
  t.deepEqual(
    seen.inventory?.devices.map(({ model, healthy, uuid }) => ({ model, healthy, uuid })),
    [1, 2].map(() => ({ model: 'NVIDIA RTX A5000', healthy: true, uuid: '' })),
  );
  for (const hidden of ['GPU-1', 'secret-product', '"builds":["d"]', '"cpuPercent":50'])
    t.false(
      JSON.stringify(seen.inventory, (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value)).includes(hidden),
      hidden,
    );
});

test('machine types count equal nodes that are connected and not drained, and name none of them', (t) => {
  const world = new FleetWorld();
  const images = [`${baseImages[0]?.name ?? ''}:1`, 'registry.example/secret-product:7'];
  const cpu = { packages: { torch: '2.9', numpy: '2.0' }, images, hostname: 'secret-name' };
  const types = () =>
    machineTypes(world.image).map(({ nodes, devices }) => [nodes, devices.map(({ model, count }) => `${count} ${model}`)]);
  world.node('a', [], cpu);
  // A few kilobytes less, and the packages in another order: the same machine.
  world.node('b', [], { ...cpu, packages: { numpy: '2.0', torch: '2.9' }, memoryBytes: 511_999_900_000n });
  world.node('c', ['GPU-1', 'GPU-2']);
  t.deepEqual(types(), [
    [2, []],
    [1, ['2 NVIDIA RTX A5000']],
  ]);
  const text = JSON.stringify(machineTypes(world.image), (_key, value: unknown) => (typeof value === 'bigint' ? String(value) : value));
  for (const hidden of ['GPU-1', 'secret-name', 'secret-product', '"a"', '"c"']) t.false(text.includes(hidden), hidden);
  t.like(machineTypes(world.image)[0], { packages: { torch: '2.9', numpy: '2.0' }, images: images.slice(0, 1), cpus: 64 });
  world.inventory('c', (inventory) => ({
    ...inventory,
    devices: inventory.devices.map((device, index) => ({ ...device, healthy: index === 0 })),
  }));
  world.command({ kind: 'drain-node', node: 'a' });
  t.deepEqual(types(), [
    [1, []],
    [1, ['1 NVIDIA RTX A5000']],
  ]);
  world.disconnect('b');
  t.deepEqual(types(), [[1, ['1 NVIDIA RTX A5000']]]);
});
