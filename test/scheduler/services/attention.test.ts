/** What operators and accounts are told needs a person (scheduler/services/attention.ts). */
import { readFileSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';

import test from 'ava';

import { Device } from '../../../proto/gen/capstan/v1/nodes.ts';
import { AttentionKind, AttentionSeverity, KeyScope, type AttentionItem } from '../../../proto/gen/capstan/v1/control.ts';
import { NO_FIGURES, RecentFigures } from '../../../scheduler/incidents/figures.ts';
import { incidents, type IncidentSources } from '../../../scheduler/incidents/incidents.ts';
import { attention } from '../../../scheduler/services/attention.ts';
import { keyDefaults } from '../../../scheduler/core/control/keys.ts';
import type { Write } from '../../../scheduler/core/effects.ts';
import { emptyBucket, encode, note } from '../../../scheduler/history/bucket.ts';
import { KINDS } from '../../../scheduler/incidents/incident.ts';
import type { DeliveryHead } from '../../../scheduler/core/ports/store.ts';
import { queueInput } from '../../support/endpoint-input.ts';
import { FleetWorld } from '../core/fleet-world.ts';

const OWNER = { account: 'acc', operator: false };
const OPERATOR = { account: 'default', operator: true };
const ROOM = { space: { free: 50, total: 100 }, minFreePercent: 5 };

function items(world: FleetWorld, reader: IncidentSources['reader'], more: Partial<IncidentSources> = {}): readonly AttentionItem[] {
  const sources = { state: world.image, now: world.now(), deliveries: [], disk: ROOM, figures: NO_FIGURES, certificates: [] };
  return attention(incidents({ ...sources, reader, ...more })).items;
}

function delivery(endpoint: string, state: DeliveryHead['state'], tries: number): DeliveryHead {
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
  t.deepEqual(items(world, OWNER, { deliveries: [delivery(endpoint, 'PENDING', 0)] }), [], 'a first try is no failure');
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
  const deliveries = [
    delivery(one, 'PENDING', 2),
    delivery(one, 'FAILED', 9),
    delivery(two, 'PENDING', 0),
    delivery('deleted', 'FAILED', 9),
  ];
  const found = items(world, OWNER, { deliveries });
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
  const deliveries = ids.map((id) => delivery(id, 'FAILED', 9));
  const sources = { state: world.image, now: world.now(), disk: ROOM, figures: NO_FIGURES, certificates: [] };
  const { items: listed, omitted } = attention(incidents({ ...sources, reader: OWNER, deliveries }));
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

/** Figures over the world's state, with a history of an hour whose jobs waited for the given times, ms. */
function figuresOf(world: FleetWorld, delaysMs: readonly number[] = []): RecentFigures {
  const bucket = emptyBucket();
  for (const ms of delaysMs) note(bucket.delay, ms);
  const rows = delaysMs.length === 0 ? [] : [{ at: 0, value: encode(bucket) }];
  const history = { read: () => Promise.resolve(rows) };
  return new RecentFigures({ state: () => world.image, wall: () => world.now().wall, history, log: { warn() {} } });
}

function ended(endpoint: string, state: 'COMPLETED' | 'FAILED' | 'TIMED_OUT' | 'CANCELLED'): Write {
  return { subject: { endpoint, trace: null }, op: { kind: 'finish', state } } as unknown as Write;
}

test('jobs that fail are listed with their number, from a fifth of at least five on, until the failures are five minutes old', (t) => {
  const world = new FleetWorld();
  const figures = figuresOf(world);
  const [endpoint = ''] = world.deploy(queueInput('echo'));
  const end = (...states: Parameters<typeof ended>[1][]): void =>
    figures.committed(
      states.map((state) => ended(endpoint, state)),
      states.map(() => ({ kind: 'ok' })),
    );
  end('FAILED', 'TIMED_OUT', 'CANCELLED', 'CANCELLED', 'COMPLETED', 'COMPLETED');
  t.deepEqual(items(world, OWNER, { figures }), [], 'too few ended');
  const since = world.now().wall;
  end('COMPLETED');
  const [found] = items(world, OWNER, { figures });
  t.like(found, { kind: AttentionKind.FAILURE_RATE, severity: AttentionSeverity.WARNING, endpointId: endpoint, sinceMs: BigInt(since) });
  t.is(found?.message, 'echo: 2 of 5 jobs failed, in the last 5 minutes');
  t.deepEqual(
    found?.actions.map(({ command }) => command),
    ['capstan logs echo', 'capstan rollback echo', 'capstan jobs retry echo --failed'],
  );
  end('FAILED');
  t.is(items(world, OWNER, { figures })[0]?.severity, AttentionSeverity.CRITICAL, 'half of them');
  t.deepEqual(items(world, { account: 'team', operator: false }, { figures }), []);
  world.pass(310_000);
  t.deepEqual(items(world, OWNER, { figures }), []);
});

test('a route that fails is named, and others of its endpoint do not hide it', (t) => {
  const world = new FleetWorld();
  const figures = figuresOf(world);
  const routes = { 'GET /bad': 'bad', 'GET /good': 'good' };
  const [endpoint = ''] = world.deploy({ ...queueInput('web'), kind: 'LOAD_BALANCED', scalerType: 'REQUEST_COUNT', routes });
  const count = (route: string, requests: number, errors: number): void =>
    figures.requestsEnded({ endpointId: endpoint, route, requests, refused: 0, errors, classes: [], classCounts: [] });
  count('GET /good', 1_000, 0);
  count('GET /bad', 4, 4);
  t.deepEqual(items(world, OWNER, { figures }), []);
  count('GET /bad', 1, 1);
  const [found] = items(world, OWNER, { figures });
  t.like(found, { kind: AttentionKind.FAILURE_RATE, severity: AttentionSeverity.CRITICAL });
  t.is(found?.message, 'web: 5 of 5 requests of GET /bad ended with a status from 500, in the last 5 minutes');
});

test('a job that waits longer than its target is listed once; the target is set, or derived from the usual delay', async (t) => {
  const world = new FleetWorld();
  world.node('a');
  const [set = '', usual = ''] = world.deploy(
    queueInput('set', { workersMax: 1, delayTargetS: 10 }),
    queueInput('usual', { workersMax: 1 }),
  );
  for (const endpoint of [set, usual]) world.submit(endpoint);
  world.settle();
  for (const endpoint of [set, usual]) world.submit(endpoint);
  const figures = figuresOf(world, [40_000, 40_000]);
  world.pass(11_000);
  const [late] = items(world, OWNER, { figures });
  t.like(late, { kind: AttentionKind.QUEUE_DELAY, endpointId: set, severity: AttentionSeverity.WARNING });
  t.is(late?.message, 'set: the oldest job has waited for 11 s; the target is 10 s (delayTarget)');
  t.is(late?.actions[0]?.command, 'capstan endpoints set set workersMax=2');
  world.pass(54_000);
  const delayed = (): readonly string[] =>
    items(world, OWNER, { figures })
      .filter(({ kind }) => kind === AttentionKind.QUEUE_DELAY)
      .map(({ subject }) => subject);
  t.deepEqual(delayed(), ['set'], 'the history is being read');
  await setImmediate();
  t.deepEqual(delayed(), ['set'], 'three times 40 s');
  world.pass(80_000);
  t.deepEqual(delayed().toSorted(), ['set', 'usual']);
  t.regex(items(world, OWNER, { figures }).find(({ subject }) => subject === 'usual')?.message ?? '', /three times its usual delay/);
  world.pass(3_700_000);
  figures.sample();
  t.deepEqual(delayed().toSorted(), ['set', 'usual'], 'what was known serves while the history is read again');
});

test('a job that ran for long and returned to the queue has waited since then alone', (t) => {
  const world = new FleetWorld();
  world.node('a');
  const [endpoint = ''] = world.deploy(queueInput('train', { workersMax: 1, delayTargetS: 60 }));
  const job = world.submit(endpoint);
  world.settle();
  world.enter(job);
  world.pass(3_600_000);
  world.lose(job, false);
  t.deepEqual(
    items(world, OWNER).filter(({ kind }) => kind === AttentionKind.QUEUE_DELAY),
    [],
  );
});

test('GPUs that their workers have not used for half an hour are listed, one incident an endpoint', (t) => {
  const world = new FleetWorld();
  const devices = ['a', 'b'].map((uuid) =>
    Device.fromPartial({ uuid, model: 'NVIDIA H200', memoryBytes: 141_000_000_000n, healthy: true, utilizationPercent: 0 }),
  );
  world.node('h200', [], { devices });
  const [endpoint = ''] = world.deploy(queueInput('warm', { gpuIds: 'H200', gpuCount: 2, workersMin: 1 }));
  world.settle();
  const figures = figuresOf(world);
  const pass = (ms: number): void => {
    figures.sample();
    world.pass(ms);
    figures.sample();
  };
  pass(1_799_000);
  t.deepEqual(items(world, OWNER, { figures }), []);
  pass(2_000);
  const [found] = items(world, OWNER, { figures });
  t.like(found, { kind: AttentionKind.GPU_IDLE, endpointId: endpoint, message: 'warm: 2 GPUs on h200 are allocated and idle' });
  t.is(found?.actions[0]?.command, 'capstan endpoints set warm workersMin=0');
  world.inventory('h200', (inventory) => ({
    ...inventory,
    devices: inventory.devices.map((each) => ({ ...each, utilizationPercent: 40 })),
  }));
  figures.sample();
  t.deepEqual(items(world, OWNER, { figures }), []);
});

test('quotas of builds and bodies are listed with that of workers, one incident an account', (t) => {
  const world = new FleetWorld({ buildQuotaBytes: 1, bodyQuotaBytes: 100, workerQuota: 3 });
  world.deploy(queueInput('echo', { workersMax: 3 }));
  world.image.bodyUse.set('acc', { stored: 89, pending: 1 });
  const [found, ...others] = items(world, OWNER);
  t.is(
    found?.message,
    'account acc uses 3 of the 3 workers of its quota; uses 1 B of 1 B of its quota of builds; uses 90 B of 100 B of its quota of bodies',
  );
  t.deepEqual(
    found?.actions.map(({ command }) => command),
    ['capstan account set acc --workers 6', 'capstan account set acc --build-bytes 2', 'capstan account set acc --body-bytes 200'],
  );
  t.deepEqual(others, []);
});

test('a certificate is listed two weeks before its end, for operators', (t) => {
  const world = new FleetWorld();
  const { wall } = world.now();
  const day = 86_400_000;
  const certificates = [
    { owner: 'host gpu-a', endsAt: wall + 13 * day },
    { owner: 'the CA', endsAt: wall + 15 * day },
    { owner: 'the scheduler', endsAt: wall - day },
  ];
  t.deepEqual(
    items(world, OPERATOR, { certificates }).map(({ kind, subject, severity }) => [kind, subject, severity]),
    [
      [AttentionKind.CERTIFICATE_EXPIRES, 'the certificate of the scheduler', AttentionSeverity.CRITICAL],
      [AttentionKind.CERTIFICATE_EXPIRES, 'the certificate of host gpu-a', AttentionSeverity.WARNING],
    ],
  );
  t.deepEqual(items(world, OWNER, { certificates }), []);
});
