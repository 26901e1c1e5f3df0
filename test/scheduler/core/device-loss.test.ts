/** Workers whose GPU is lost: drained, replaced on healthy devices, and back when the device is. */
import test from 'ava';

import type { Inventory } from '../../../proto/gen/capstan/v1/nodes.ts';
import { queueReason } from '../../../scheduler/core/jobs/reasons.ts';
import { queueInput } from '../../support/endpoint-input.ts';
import { FleetWorld } from './fleet-world.ts';

const gpuEndpoint = queueInput('model', { gpuIds: 'ANY', gpuCount: 1, workersMin: 1, workersMax: 2 });

/** The inventory in which devices are not healthy. */
function ill(problem: string, ...uuids: string[]): (inventory: Inventory) => Inventory {
  return (inventory) => ({
    ...inventory,
    devices: inventory.devices.map((device) => (uuids.includes(device.uuid) ? { ...device, healthy: false, problem } : device)),
  });
}

function well(inventory: Inventory): Inventory {
  return { ...inventory, devices: inventory.devices.map((device) => ({ ...device, healthy: true, problem: '' })), deviceProblem: '' };
}

test('a worker whose GPU is not healthy is drained and replaced on another; what it runs finishes, what waits goes elsewhere', (t) => {
  const world = new FleetWorld();
  world.node('a', ['g0', 'g1']);
  const [id = ''] = world.deploy(gpuEndpoint);
  world.settle();
  const [first] = world.staying(id);
  t.deepEqual(first?.devices, ['g0']);
  const running = world.submit(id);
  world.inventory('a', ill('fallen off the bus', 'g0'));
  const [drained, ...others] = world.workers(id).filter(({ drain }) => drain);
  t.is(drained?.id, first?.id);
  t.deepEqual(others, []);
  t.is(drained?.decision, 'g0 is unhealthy (fallen off the bus) on node a');
  t.deepEqual(
    world.staying(id).map(({ devices }) => devices),
    [['g1']],
  );
  const waiting = world.submit(id);
  t.is(
    world.running.find(({ job }) => job === waiting),
    undefined,
    'the lost GPU gets no job',
  );
  world.settle();
  t.not(world.running.find(({ job }) => job === waiting)?.worker, first?.id);
  world.complete(running);
  t.is(world.endpoint(id).counts.completed, 1);
});

test('a device that the inventory does not list is lost; before the devices were read it says nothing', (t) => {
  const world = new FleetWorld();
  world.node('a', ['g0']);
  world.node('b', ['h0']);
  const [id = ''] = world.deploy(gpuEndpoint);
  world.settle();
  const [worker] = world.staying(id);
  const node = worker?.node ?? '';
  world.connect(node, [], { devicesUnread: true, deviceProblem: 'nvidia-smi has not responded yet' });
  t.deepEqual(
    world.staying(id).map(({ id: name }) => name),
    [worker?.id],
  );
  world.inventory(node, (inventory) => ({ ...inventory, devicesUnread: false, deviceProblem: '' }));
  const [replaced] = world.staying(id);
  t.not(replaced?.node, node);
  t.regex(world.image.workers.get(worker?.id ?? '')?.decision ?? '', /is missing on node/);
});

test('a host whose driver fails gets no worker and says why; once the driver works it is used again', (t) => {
  const world = new FleetWorld();
  world.node('a', ['g0', 'g1']);
  const [id = ''] = world.deploy(queueInput('model', { ...gpuEndpoint, workersMin: 2 }));
  world.settle();
  t.is(world.staying(id).length, 2);
  const words = 'nvidia-smi: Failed to initialize NVML: Driver/library version mismatch';
  world.inventory('a', (inventory) => ({ ...ill(words, 'g0', 'g1')(inventory), deviceProblem: words }));
  t.deepEqual(world.staying(id), []);
  world.reap();
  const job = world.submit(id);
  const now = { wall: 1_700_000_000_000 + world.mono, mono: world.mono };
  const { reason, detail } = queueReason(world.image, world.endpoint(id), now);
  t.is(reason, 'NO_CAPACITY');
  t.true(detail.includes('DEVICE_PROBLEM on 1 node: a (') && detail.includes(words), detail);
  world.inventory('a', well);
  t.is(world.staying(id).length, 2);
  world.settle();
  t.is(world.running.find((running) => running.job === job)?.node, 'a');
});

test('a session that begins with a lost device retires the worker, also after the scheduler started again', (t) => {
  const world = new FleetWorld();
  world.node('a', ['g0']);
  world.node('b', ['h0']);
  const [id = ''] = world.deploy(gpuEndpoint);
  world.settle();
  const lost = world.staying(id)[0]?.node ?? '';
  const other = lost === 'a' ? 'b' : 'a';
  world.restart();
  world.connect(other, [other === 'a' ? 'g0' : 'h0']);
  world.connect(lost, []);
  t.deepEqual(
    world.staying(id).map(({ node }) => node),
    [other],
  );
});

test('workers without devices, and those on healthy neighbours, are left alone', (t) => {
  const world = new FleetWorld();
  world.node('a', ['g0', 'g1']);
  const [plain = ''] = world.deploy(queueInput('plain', { workersMin: 1, workersMax: 1 }));
  const [id = ''] = world.deploy(queueInput('model', { ...gpuEndpoint, workersMin: 2 }));
  world.settle();
  world.inventory('a', ill('requires reset', 'g1'));
  t.deepEqual(
    world.staying(id).map(({ devices }) => devices),
    [['g0']],
  );
  t.is(world.staying(plain).length, 1);
});
