/** What operators and accounts are told needs a person (scheduler/services/attention.ts). */
import { readFileSync } from 'node:fs';

import test from 'ava';

import { AttentionKind, type AttentionItem } from '../../../proto/gen/capstan/v1/control.ts';
import { attention, type AttentionSources } from '../../../scheduler/services/attention.ts';
import type { HookHead } from '../../../scheduler/store/store.ts';
import { queueInput } from '../../support/endpoint-input.ts';
import { FleetWorld } from '../core/fleet-world.ts';

const OWNER = { account: 'acc', operator: false };
const OPERATOR = { account: 'default', operator: true };
const ROOM = { space: { free: 50, total: 100 }, minFreePercent: 5 };

function items(world: FleetWorld, reader: AttentionSources['reader'], more: Partial<AttentionSources> = {}): readonly AttentionItem[] {
  return attention({ state: world.image, now: world.now(), reader, hooks: [], disk: ROOM, ...more }).items;
}

function hook(endpoint: string, state: HookHead['state'], tries: number): HookHead {
  const url = 'https://hooks.example/secret-path';
  return { id: `${endpoint}-${state}-${tries}`, account: 'acc', endpoint, url, host: 'hooks.example', state, dueAt: 0, tries, error: 'x' };
}

test('a service that works needs no attention', (t) => {
  const world = new FleetWorld();
  world.node('a', ['GPU-1']);
  const [endpoint = ''] = world.deploy(queueInput('echo'));
  world.submit(endpoint);
  world.settle();
  t.deepEqual(items(world, OPERATOR), []);
  t.deepEqual(items(world, OWNER, { hooks: [hook(endpoint, 'PENDING', 0)] }), [], 'a first try is no failure');
});

test('a crash loop is listed with its error and the time of its start, for its account and operators only', (t) => {
  const world = new FleetWorld();
  world.node('a');
  const [endpoint = ''] = world.deploy(queueInput('echo', { scalerType: 'REQUEST_COUNT', scalerValue: 1, workersMax: 3 }));
  for (let i = 0; i < 5; i++) world.submit(endpoint);
  for (const worker of world.staying(endpoint)) world.fail(worker.id, 1);
  const [found, ...others] = items(world, OWNER);
  t.like(found, { kind: AttentionKind.CRASH_LOOP, endpointId: endpoint, accountId: 'acc', nodeId: '' });
  t.regex(found?.message ?? '', /3 consecutive starts failed.*no module named x/);
  const started = world.endpoint(endpoint).decisions.find(({ kind }) => kind === 'CRASH_LOOP');
  t.is(found?.sinceMs, BigInt(Math.trunc(started?.at ?? -1)));
  t.deepEqual(others, [], 'its waiting jobs are not listed again');
  t.is(items(world, OPERATOR).length, 1);
  t.deepEqual(items(world, { account: 'team', operator: false }), []);
});

test('jobs that no node can run are listed with the reason, since the oldest of them', (t) => {
  const world = new FleetWorld();
  world.node('a');
  const [endpoint = ''] = world.deploy({ ...queueInput('echo'), gpuIds: 'ANY', gpuCount: 1 });
  const submittedAt = world.now().wall;
  world.submit(endpoint);
  world.pass(60_000);
  world.submit(endpoint);
  const [found] = items(world, OWNER);
  t.like(found, { kind: AttentionKind.NO_CAPACITY, endpointId: endpoint, sinceMs: BigInt(Math.trunc(submittedAt)) });
  t.regex(found?.message ?? '', /^2 waiting: .+/);
});

test('a node that stays away is listed for operators once the grace period is over', (t) => {
  const world = new FleetWorld();
  world.node('a');
  world.disconnect('a');
  t.deepEqual(items(world, OPERATOR), []);
  world.pass(world.image.settings.nodeGraceMs + 1_000);
  t.like(items(world, OPERATOR)[0], { kind: AttentionKind.NODE_DISCONNECTED, nodeId: 'a' });
  t.deepEqual(items(world, OWNER), []);
});

test('an unhealthy GPU is listed for operators and for accounts with workers on its node', (t) => {
  const world = new FleetWorld();
  world.node('a', ['GPU-1', 'GPU-2']);
  const [endpoint = ''] = world.deploy(queueInput('echo'));
  world.submit(endpoint);
  world.settle();
  world.inventory('a', (inventory) => ({
    ...inventory,
    devices: inventory.devices.map((device) => (device.uuid === 'GPU-2' ? { ...device, healthy: false, problem: 'XID 79' } : device)),
  }));
  for (const reader of [OPERATOR, OWNER]) {
    const [found] = items(world, reader);
    t.like(found, { kind: AttentionKind.DEVICE_UNHEALTHY, nodeId: 'a' });
    t.regex(found?.message ?? '', /XID 79/);
    t.false(found?.message.includes('GPU-2'), 'accounts do not see which');
  }
  t.deepEqual(items(world, { account: 'team', operator: false }), []);
});

test('failed webhooks are counted by endpoint, without their urls', (t) => {
  const world = new FleetWorld();
  const [one = '', two = ''] = world.deploy(queueInput('one'), queueInput('two'));
  const hooks = [hook(one, 'PENDING', 2), hook(one, 'FAILED', 9), hook(two, 'PENDING', 0), hook('deleted', 'FAILED', 9)];
  const found = items(world, OWNER, { hooks });
  t.deepEqual(
    found.map(({ endpointId, message }) => [endpointId, message]),
    [[one, 'failed webhooks: 1 to be retried, 1 given up']],
  );
});

test('full disks are listed first, for operators', (t) => {
  const world = new FleetWorld();
  world.node('a', [], { diskBytes: 100n, diskAvailableBytes: 4n });
  const disk = { space: { free: 4, total: 100 }, minFreePercent: 5 };
  t.deepEqual(
    items(world, OPERATOR, { disk }).map(({ kind, nodeId }) => [kind, nodeId]),
    [
      [AttentionKind.DISK_LOW, ''],
      [AttentionKind.DISK_LOW, 'a'],
    ],
  );
  t.deepEqual(items(world, OWNER, { disk }), []);
});

test('the list is bounded and says how many it omits', (t) => {
  const world = new FleetWorld();
  const names = Array.from({ length: 510 }, (_, index) => `e${index}`);
  const ids = world.deploy(...names.map((name) => queueInput(name, { workersMax: 0 })));
  const hooks = ids.map((id) => hook(id, 'FAILED', 9));
  const { items: listed, omitted } = attention({ state: world.image, now: world.now(), reader: OWNER, hooks, disk: ROOM });
  t.deepEqual([listed.length, omitted], [500, 10]);
});

test('every runbook section exists', (t) => {
  const source = readFileSync('scheduler/services/attention.ts', 'utf8');
  const sections = [...source.matchAll(/'(?<page>[a-z-]+\.md)#(?<anchor>[a-z0-9-]+)'/g)];
  t.is(sections.length, 7);
  for (const { groups } of sections) {
    const titles = readFileSync(`docs/${groups?.['page'] ?? ''}`, 'utf8').match(/^## .+$/gm) ?? [];
    const anchors = titles.map((title) =>
      title
        .slice(3)
        .toLowerCase()
        .replaceAll(/[^a-z0-9 -]/g, '')
        .replaceAll(' ', '-'),
    );
    t.true(anchors.includes(groups?.['anchor'] ?? ''), groups?.['anchor']);
  }
});
