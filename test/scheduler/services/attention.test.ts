/** What operators and accounts are told needs a person (scheduler/services/attention.ts). */
import { readFileSync } from 'node:fs';

import test from 'ava';

import { Device } from '../../../proto/gen/capstan/v1/nodes.ts';
import { AttentionKind, AttentionSeverity, KeyScope, type AttentionItem } from '../../../proto/gen/capstan/v1/control.ts';
import { attention, type AttentionSources } from '../../../scheduler/services/attention.ts';
import { keyDefaults } from '../../../scheduler/core/control/keys.ts';
import { KINDS } from '../../../scheduler/incidents/incident.ts';
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
  t.regex(found?.message ?? '', /^echo: 3 consecutive starts failed.*no module named x/);
  t.deepEqual(
    found?.actions.map(({ command }) => command),
    ['capstan logs echo', 'capstan rollback echo'],
  );
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
  t.regex(found?.message ?? '', /^echo: 2 jobs wait: GPU_MISSING .+/);
});

test('a node that leaves is listed for operators at once, and one that did not return after a restart once the grace period is over', (t) => {
  const world = new FleetWorld();
  world.node('a');
  world.disconnect('a');
  const gone = { kind: AttentionKind.NODE_DISCONNECTED, nodeId: 'a', subject: 'a', severity: AttentionSeverity.CRITICAL };
  t.like(items(world, OPERATOR)[0], { ...gone, message: 'a is gone; its jobs move to other hosts if it does not return' });
  world.pass(world.image.settings.nodeGraceMs + 1_000);
  t.like(items(world, OPERATOR)[0], { ...gone, message: 'a is gone' });
  t.deepEqual(items(world, OPERATOR)[0]?.actions, [{ label: 'Remove', command: 'capstan node remove a --force' }]);
  t.deepEqual(items(world, OWNER), []);
  world.restart();
  t.deepEqual(items(world, OPERATOR), [], 'it may return');
  world.pass(world.image.settings.nodeGraceMs + 1_000);
  t.like(items(world, OPERATOR)[0], gone);
});

test('one cause is one incident: what waits because a host is gone is folded below it, with the sum of what waits', (t) => {
  const world = new FleetWorld();
  const devices = [Device.fromPartial({ uuid: 'g', model: 'NVIDIA H200', memoryBytes: 141_000_000_000n, healthy: true })];
  world.node('h200', [], { devices });
  const wants = { gpuIds: 'H200', gpuCount: 1 };
  const [one = '', two = ''] = world.deploy(queueInput('one', wants), queueInput('two', wants));
  world.disconnect('h200');
  world.pass(world.image.settings.nodeGraceMs + 1_000);
  for (const endpoint of [one, one, two]) world.submit(endpoint);
  const [found, ...others] = items(world, OPERATOR);
  t.like(found, { kind: AttentionKind.NODE_DISCONNECTED, message: 'h200 is gone: 2 endpoints, 3 jobs wait' });
  t.deepEqual(others, []);
  t.deepEqual(
    found?.effects.map(({ subject, kind, endpointId }) => [subject, kind, endpointId]),
    [
      ['one', AttentionKind.NO_CAPACITY, one],
      ['two', AttentionKind.NO_CAPACITY, two],
    ],
  );
  t.deepEqual(
    items(world, OWNER).map(({ subject, kind }) => [subject, kind]),
    [
      ['one', AttentionKind.NO_CAPACITY],
      ['two', AttentionKind.NO_CAPACITY],
    ],
    'an account does not see the host',
  );
  world.connect('h200', [], { devices });
  t.deepEqual(
    items(world, OPERATOR).filter(({ nodeId }) => nodeId !== ''),
    [],
    'it ends with its cause',
  );
});

test('hosts come before endpoints, and what fails before what may soon', (t) => {
  const world = new FleetWorld({ workerQuota: 3 });
  world.node('b', ['GPU-1']);
  const [paused = '', , waiting = ''] = world.deploy(
    queueInput('paused', { workersMax: 0 }),
    queueInput('others', { workersMax: 2 }),
    queueInput('waiting', { workersMax: 1, gpuIds: 'H200', gpuCount: 1 }),
  );
  for (const endpoint of [paused, waiting, waiting]) world.submit(endpoint);
  world.inventory('b', (inventory) => ({ ...inventory, deviceProblem: 'nvidia-smi hangs', gatewayUnknown: true }));
  t.deepEqual(
    items(world, { account: 'acc', operator: true }).map(({ kind, message }) => [kind.replace('ATTENTION_KIND_', ''), message]),
    [
      ['DEVICE_UNHEALTHY', 'b: its GPUs cannot be read: nvidia-smi hangs'],
      ['NO_CAPACITY', 'waiting: 2 jobs wait: GPU_MISSING on 1 node: b (no H200)'],
      ['GATEWAY_UNKNOWN', 'b knows no address of a gateway: functions there cannot call other endpoints'],
      ['PAUSED', 'paused: it is paused (workersMax is 0), and 1 job waits'],
      ['QUOTA_NEARLY_USED', 'account acc uses 3 of the 3 workers of its quota'],
    ],
  );
});

test('a release that fails to start is listed from its first failure on, until a start succeeds', (t) => {
  const world = new FleetWorld();
  world.node('a');
  const [endpoint = ''] = world.deploy(queueInput('echo'));
  world.submit(endpoint);
  const [worker] = world.staying(endpoint);
  world.fail(worker?.id ?? '', 1);
  const [found] = items(world, OWNER);
  t.like(found, { kind: AttentionKind.RELEASE_CRASHES, severity: AttentionSeverity.WARNING });
  t.regex(found?.message ?? '', /^echo: its present release failed to start; last error: .*no module named x/);
});

test('a key is listed two weeks before its end, unless it was made for a short time', (t) => {
  const world = new FleetWorld();
  const { wall } = world.now();
  const day = 86_400_000;
  const put = (hash: string, name: string, createdAt: number, expiresAt: number | null): unknown =>
    world.command({
      kind: 'put-key',
      key: { ...keyDefaults, hash, name, account: 'acc', scope: KeyScope.ALL, endpoints: [], createdAt, expiresAt },
    });
  put('a'.repeat(64), 'deploy bot', wall - 80 * day, wall + 10 * day);
  put('b'.repeat(64), 'later', wall - 80 * day, wall + 15 * day);
  put('c'.repeat(64), 'a day', wall, wall + day);
  put('d'.repeat(64), 'for ever', wall, null);
  t.deepEqual(
    items(world, OWNER).map(({ subject, actions }) => [subject, actions[0]?.command]),
    [['key deploy bot', "capstan keys create 'deploy bot'"]],
  );
});

test('a host below its disk reserve is listed, however large its disk is', (t) => {
  const world = new FleetWorld();
  const reserve = BigInt(world.image.settings.diskReserveBytes);
  world.node('small', [], { diskBytes: 8n * reserve, diskAvailableBytes: reserve - 1n });
  world.node('enough', [], { diskBytes: 8n * reserve, diskAvailableBytes: reserve });
  t.deepEqual(
    items(world, OPERATOR).map(({ kind, subject }) => [kind, subject]),
    [[AttentionKind.DISK_LOW, 'small']],
  );
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
    [[one, 'one: 2 webhooks failed: 1 to be retried, 1 given up']],
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
  const source = readFileSync('scheduler/incidents/incident.ts', 'utf8');
  const sections = [...source.matchAll(/'(?<page>[a-z-]+\.md)#(?<anchor>[a-z0-9-]+)'/g)];
  t.is(sections.length, KINDS.length);
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
