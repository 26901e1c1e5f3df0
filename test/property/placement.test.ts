/** What placement and preemption never do, whatever the fleet and whatever happens to it (invariant 7). */
import { fc, testProp } from '@fast-check/ava';

import { Device, type Inventory } from '../../proto/gen/capstan/v1/nodes.ts';
import type { EndpointInput } from '../../scheduler/core/state/endpoints.ts';
import { usageWithout } from '../../scheduler/core/fleet/placement/claims.ts';
import { capacityOf, fitOn, wanted } from '../../scheduler/core/fleet/placement/feasible.ts';
import { recount } from '../../scheduler/core/fleet/placement/node-usage.ts';
import { place } from '../../scheduler/core/fleet/placement.ts';
import type { WorkerRecord } from '../../scheduler/core/state/fleet.ts';
import { queueInput } from '../support/endpoint-input.ts';
import { FleetWorld } from '../scheduler/core/fleet-world.ts';

const GIGABYTE = 1024 ** 3;
const QUOTA = 12;

const cards = [
  { model: 'NVIDIA RTX A5000', memoryGb: 24 },
  { model: 'NVIDIA L4', memoryGb: 24 },
  { model: 'NVIDIA H200', memoryGb: 141 },
  { model: 'Tesla T4', memoryGb: 16 },
  { model: 'NVIDIA A100-SXM4-80GB MIG 3g.40gb', memoryGb: 40 },
] as const;

interface Host {
  readonly cpus: number;
  readonly memoryGb: number;
  readonly cards: readonly number[];
  readonly builds: boolean;
}

const hosts: fc.Arbitrary<Host[]> = fc.array(
  fc.record({
    cpus: fc.integer({ min: 1, max: 8 }),
    memoryGb: fc.integer({ min: 1, max: 24 }),
    cards: fc.array(fc.integer({ min: 0, max: cards.length - 1 }), { maxLength: 4 }),
    builds: fc.boolean(),
  }),
  { minLength: 1, maxLength: 5 },
);

const sizes: fc.Arbitrary<Partial<EndpointInput>> = fc.oneof(
  fc.constant({}),
  fc.constantFrom('cpu3c-1-2', 'cpu3c-2-4', 'cpu5c-8-16').map((cpu) => ({ cpu })),
  fc.record({
    gpuIds: fc.constantFrom('ANY', 'AMPERE_24', 'HOPPER_141,ANY', 'ANY,-NVIDIA L4', 'MIG 3g.40gb'),
    gpuCount: fc.integer({ min: 1, max: 3 }),
  }),
);

type Happening =
  | { readonly what: 'deploy'; readonly name: number; readonly workers: number; readonly size: Partial<EndpointInput> }
  | { readonly what: 'disconnect' | 'connect' | 'break' | 'mend'; readonly node: number }
  | { readonly what: 'pass'; readonly ms: number }
  | { readonly what: 'settle' }
  | { readonly what: 'restart' };

const happenings: fc.Arbitrary<Happening[]> = fc.array(
  fc.oneof(
    fc.record({
      what: fc.constant('deploy' as const),
      name: fc.integer({ min: 0, max: 3 }),
      workers: fc.integer({ min: 0, max: 6 }),
      size: sizes,
    }),
    fc.record({
      what: fc.constantFrom('disconnect' as const, 'connect' as const, 'break' as const, 'mend' as const),
      node: fc.nat({ max: 4 }),
    }),
    fc.record({ what: fc.constant('pass' as const), ms: fc.constantFrom(10, 1_100, 20_000) }),
    fc.constantFrom<Happening>({ what: 'settle' }, { what: 'restart' }),
  ),
  { minLength: 1, maxLength: 25 },
);

function inventoryOf(name: string, host: Host): Partial<Inventory> {
  return {
    cpuCount: host.cpus,
    memoryBytes: BigInt(host.memoryGb * GIGABYTE),
    builds: host.builds ? ['d'] : [],
    devices: host.cards.map((card, i) =>
      Device.fromPartial({
        uuid: `${name}-gpu-${i}`,
        model: cards[card]?.model ?? '',
        memoryBytes: BigInt((cards[card]?.memoryGb ?? 0) * 1_000_000_000),
        parentUuid: (cards[card]?.model ?? '').includes(' MIG ') ? `${name}-card-${i}` : '',
        healthy: true,
      }),
    ),
  };
}

function fleet(all: readonly Host[], order: readonly number[] = all.map((_, i) => i)): FleetWorld {
  const world = new FleetWorld({ workerQuota: QUOTA });
  for (const i of order) world.node(`n${i}`, [], inventoryOf(`n${i}`, all[i] as Host));
  return world;
}

function health(world: FleetWorld, node: string, healthy: boolean): void {
  world.inventory(node, (known) => ({ ...known, devices: known.devices.map((device, i) => (i === 0 ? { ...device, healthy } : device)) }));
}

function happen(world: FleetWorld, all: readonly Host[], event: Happening): void {
  if (event.what === 'pass') return world.pass(event.ms);
  if (event.what === 'settle') return world.settle();
  if (event.what === 'restart') {
    world.restart();
    for (const [i, host] of all.entries()) world.connect(`n${i}`, [], inventoryOf(`n${i}`, host));
    return;
  }
  if (event.what === 'deploy') {
    const input = queueInput(`e${event.name}`, { workersMin: event.workers, workersMax: event.workers, ...event.size });
    world.command({ kind: 'put-build', account: 'acc', digest: 'd', size: 1 });
    world.command({ kind: 'deploy', account: 'acc', environment: 'default', build: 'd', endpoints: [input] });
    return;
  }
  const i = event.node % all.length;
  const node = `n${i}`;
  if (event.what === 'break' || event.what === 'mend') health(world, node, event.what === 'mend');
  else if (event.what === 'disconnect') world.disconnect(node);
  else if (world.image.nodes.get(node)?.session === null) world.connect(node, [], inventoryOf(node, all[i] as Host));
}

/** What must hold after every step; null when it does. */
function violation({ image }: FleetWorld): string | null {
  let staying = 0;
  for (const worker of image.workers.values()) if (!worker.drain) staying++;
  if (staying > QUOTA) return `${staying} workers, the quota is ${QUOTA}`;
  for (const node of image.nodes.values()) {
    const workers = [...node.workers].flatMap((id) => image.workers.get(id) ?? []);
    const given = workers.flatMap(({ devices }) => devices);
    if (new Set(given).size < given.length) return `${node.config.id} gave a device twice: ${given.join()}`;
    const there = new Set(node.inventory?.devices.map(({ uuid }) => uuid) ?? given);
    const foreign = given.find((uuid) => !there.has(uuid));
    if (foreign !== undefined) return `${node.config.id} gave ${foreign}, which it does not have`;
    for (const { id, release, devices } of workers) {
      const { gpuIds = '', gpuCount = 0 } = image.releases.get(release) ?? {};
      if (devices.length !== (gpuIds === '' ? 0 : gpuCount))
        return `worker ${id} has ${devices.length} devices, wants ${gpuCount} ${gpuIds}`;
    }
    const counted = recount(image, node);
    if (counted.cpuMillis !== node.usage.cpuMillis || counted.memoryBytes !== node.usage.memoryBytes) return `${node.config.id} miscounts`;
    if (node.facts === null) continue;
    const all = capacityOf(node.facts, image.settings);
    if (counted.cpuMillis > all.cpuMillis) return `${node.config.id} gave ${counted.cpuMillis} of ${all.cpuMillis} mCPU`;
    if (counted.memoryBytes > all.memoryBytes) return `${node.config.id} gave ${counted.memoryBytes} of ${all.memoryBytes} bytes`;
  }
  return null;
}

testProp('never over inventory, never over quota', [hosts, happenings], (t, all, events) => {
  const world = fleet(all);
  for (const event of events) {
    happen(world, all, event);
    t.is(violation(world), null);
  }
});

/** Where the workers are, whatever they are called. */
function places({ image }: FleetWorld): string[] {
  return [...image.workers.values()]
    .map(({ endpoint, node, devices }) => `${image.endpoints.get(endpoint)?.config.name ?? ''} ${node} ${devices.join()}`)
    .sort();
}

const wishes = fc.array(fc.record({ workers: fc.integer({ min: 1, max: 3 }), size: sizes }), { minLength: 1, maxLength: 4 });

testProp(
  'equal fleets give equal placements, in whatever order the nodes came',
  [
    hosts.chain((all) =>
      fc.tuple(
        fc.constant(all),
        fc.shuffledSubarray(
          all.map((_, i) => i),
          { minLength: all.length },
        ),
      ),
    ),
    wishes,
  ],
  (t, [all, order], wanted) => {
    const inputs = wanted.map(({ workers, size }, i) => queueInput(`e${i}`, { workersMin: workers, workersMax: workers, ...size }));
    const [first, second] = [fleet(all), fleet(all, order)].map((world) => {
      for (const input of inputs) world.deploy(input);
      return places(world);
    });
    t.deepEqual(first, second);
  },
);

testProp('a plan changes nothing, and is the same when it is made again', [hosts, sizes], (t, all, size) => {
  const world = fleet(all);
  const [id = ''] = world.deploy(queueInput('e', { workersMin: 0, workersMax: 1, ...size }));
  const endpoint = world.endpoint(id);
  const release = world.image.releases.get(endpoint.config.release);
  if (release === undefined) throw new Error('no release');
  const before = places(world);
  const first = place(world.image, endpoint, release);
  t.deepEqual(place(world.image, endpoint, release), first);
  t.deepEqual(places(world), before);
});

const holders = fc.array(
  fc.record({ workersMin: fc.integer({ min: 0, max: 1 }), keepIdle: fc.boolean(), busy: fc.boolean(), size: sizes }),
  { minLength: 1, maxLength: 6 },
);

/** The endpoints that were deployed first have a worker each, as far as there is room: idle, or with a job. */
function held(
  all: readonly Host[],
  wishesOfHolders: readonly { workersMin: number; keepIdle: boolean; busy: boolean; size: Partial<EndpointInput> }[],
) {
  const world = fleet(all);
  const ids = wishesOfHolders.map(({ workersMin, keepIdle, size }, i) => {
    const [id = ''] = world.deploy(queueInput(`h${i}`, { workersMin, workersMax: 1, keepIdle, idleTimeoutS: 600, ...size }));
    return id;
  });
  for (const [i, id] of ids.entries()) {
    const job = world.submit(id);
    world.settle();
    if (world.running.some((running) => running.job === job)) {
      if (wishesOfHolders[i]?.busy !== true) world.complete(job);
    } else world.cancel(id, job);
  }
  world.pass(3_000);
  return world;
}

testProp('idle workers make room if they can, the fewest that suffice, and no others', [hosts, holders, sizes], (t, all, holding, size) => {
  const world = held(all, holding);
  const { image } = world;
  const [id = ''] = world.deploy(queueInput('wants', { workersMax: 1, ...size }));
  const endpoint = world.endpoint(id);
  const release = image.releases.get(endpoint.config.release);
  if (release === undefined) throw new Error('no release');
  const want = wanted(image, endpoint.config, release);
  const mayLeave = ({ endpoint: owner, attempts, drain }: WorkerRecord): boolean => {
    const { workersMin = 1, keepIdle = true } = image.endpoints.get(owner)?.config ?? {};
    return attempts.size === 0 && !drain && workersMin === 0 && !keepIdle;
  };
  const fitsWithout = (node: string, leaving: readonly WorkerRecord[]): boolean => {
    const record = image.nodes.get(node);
    return record !== undefined && !('reason' in fitOn(want, record, usageWithout(image, record, leaving)));
  };
  const spare = [...image.workers.values()].filter(mayLeave);
  const nodes = [...image.nodes.keys()];
  const isPlaced = nodes.some((node) => fitsWithout(node, []));
  const couldBe = nodes.some((node) =>
    fitsWithout(
      node,
      spare.filter((worker) => worker.node === node),
    ),
  );
  const oneSuffices = spare.some((worker) => fitsWithout(worker.node, [worker]));
  world.submit(id);
  const ended = spare.filter(({ drain }) => drain);
  t.is(ended.length > 0, !isPlaced && couldBe);
  t.is([...image.workers.values()].filter(({ decision }) => decision.includes('makes room')).length, ended.length);
  if (ended.length === 0) return;
  const [{ node } = { node: '' }] = ended;
  t.true(ended.every((worker) => worker.node === node));
  // Without the claim, which holds what the job is to get.
  const claimed = image.nodes.get(node);
  if (claimed !== undefined) claimed.claims = [];
  t.true(fitsWithout(node, ended));
  for (const worker of ended)
    t.false(
      fitsWithout(
        node,
        ended.filter((each) => each !== worker),
      ),
      'one less suffices',
    );
  if (oneSuffices) t.is(ended.length, 1);
});
