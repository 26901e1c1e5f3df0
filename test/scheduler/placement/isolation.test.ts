/** Rules of accounts for the isolation of their workers: where workers go, what nodes say, and what a new rule does. */
import test from 'ava';

import { CallStyle, type Inventory, type NodeIsolation } from '../../../proto/gen/capstan/v1/nodes.ts';
import type { IsolationRules } from '../../../scheduler/core/events.ts';
import type { EndpointInput } from '../../../scheduler/core/state/endpoints.ts';
import { explainRejections } from '../../../scheduler/core/state/rejections.ts';
import { isolationRuleOf } from '../../../scheduler/core/fleet/placement/isolation-rule.ts';
import { queueInput } from '../../support/endpoint-input.ts';
import { FleetWorld } from '../core/fleet-world.ts';

const python = { functions: [{ name: 'f', module: 'm.py', parameters: [], callStyle: CallStyle.WHOLE }] };
const all = { runtimes: ['thread', 'process', 'container'], pythonVersion: '3.12.0' };

function isolated(processes: string, containers = '', networks: readonly string[] = ['host'], closedNetwork = ''): Partial<Inventory> {
  const isolation: NodeIsolation = {
    processes,
    containers,
    processNetworks: [...networks],
    containerNetworks: [...networks],
    missing: [],
    defaultNetwork: 'host',
    closedNetwork,
  };
  return { ...all, isolation };
}

/** A world whose account has these rules. */
function ruled(rules: IsolationRules): FleetWorld {
  const world = new FleetWorld();
  world.command({ kind: 'put-account', account: 'acc', quotas: {}, rules: { leastIsolation: 'none', ...rules }, create: true });
  return world;
}

/** Deploys an endpoint with one worker. Returns `<node> <runtime>`, or why there is no place. */
function outcome(world: FleetWorld, input: Partial<EndpointInput> = python): string {
  const [id = ''] = world.deploy(queueInput('e', { workersMin: 1, workersMax: 1, ...input }));
  const [worker] = world.workers(id);
  return worker === undefined ? explainRejections(world.endpoint(id).rejections) : `${worker.node} ${worker.runtime}`;
}

test('an account without rules takes any node, also one that does not report its isolation', (t) => {
  const world = new FleetWorld();
  world.node('old', [], all);
  t.is(outcome(world), 'old process');
});

test('a new account gets the level of the settings, and a rule that it is given instead', (t) => {
  const world = new FleetWorld();
  const rule = (account: string): unknown => isolationRuleOf(world.image, account, { network: '', functions: [] });
  world.command({ kind: 'put-account', account: 'new', quotas: {}, create: true });
  t.like(rule('new'), { least: 'sandbox', network: undefined });
  world.command({ kind: 'put-account', account: 'own', quotas: {}, rules: { leastIsolation: 'user', network: 'outbound' }, create: true });
  t.like(rule('own'), { least: 'user', network: 'outbound' });
  t.like(rule('default'), { least: 'none', network: undefined });
});

test('weaker nodes are passed over, and say how weak they are', (t) => {
  const world = ruled({ leastIsolation: 'sandbox' });
  world.node('old', [], all);
  world.node('user', [], isolated('user'));
  t.is(
    outcome(world),
    'ISOLATION_TOO_WEAK on 2 nodes: old (isolation none for the runtime process; the account requires sandbox), user (isolation user for the runtime process; the account requires sandbox)',
  );
  world.node('boxed', [], isolated('sandbox'));
  t.is(outcome(world, { ...python, name: 'f' }), 'boxed process');
});

test('a runtime that the account allows is chosen, where the endpoint forces none', (t) => {
  const contained = ruled({ leastIsolation: 'container' });
  contained.node('a', [], isolated('sandbox', 'container'));
  t.is(outcome(contained), 'a container');
  const processes = ruled({ runtimes: ['process'] });
  processes.node('a', [], isolated('sandbox', 'container'));
  t.is(outcome(processes, {}), 'a process');
  const weakHost = ruled({ leastIsolation: 'sandbox' });
  weakHost.node('a', [], isolated('none', 'container'));
  t.is(outcome(weakHost), 'a container');
  t.regex(outcome(weakHost, { ...python, name: 'g', runtime: 'process' }), /^ISOLATION_TOO_WEAK .*isolation none for the runtime process/);
  const stronger = ruled({ leastIsolation: 'gvisor' });
  stronger.node('a', [], isolated('sandbox', 'container'));
  t.regex(outcome(stronger), /isolation container for the runtime container; the account requires gvisor/);
});

test('the narrower of the endpoint’s and the account’s network is needed', (t) => {
  const world = ruled({ network: 'outbound' });
  world.node('a', [], isolated('sandbox'));
  t.regex(outcome(world), /^ISOLATION_TOO_WEAK on 1 node: a \(no network outbound for the runtime process\)/);
  t.regex(outcome(world, { ...python, name: 'f', network: 'none' }), /no network none/);
  t.regex(outcome(world, { ...python, name: 'g', network: 'host' }), /no network outbound/);
  world.node('b', [], isolated('sandbox', '', ['host', 'outbound']));
  t.is(outcome(world, { ...python, name: 'h', network: 'host' }), 'b process');
});

test('an account that may not have the host’s network gets no worker that listens where there is no other', (t) => {
  const server = { ...python, functions: [], imageName: '', command: ['serve'] };
  const world = ruled({ network: 'auto' });
  world.node('closed', [], isolated('sandbox', '', ['host', 'none'], 'none'));
  t.is(
    outcome(world, server),
    "ISOLATION_TOO_WEAK on 1 node: closed (no network but the host's for the runtime process; the account may not have that, and the endpoint is reached over its network)",
  );
  t.is(outcome(world, { ...python, name: 'f' }), 'closed process', 'a function needs no network');
  world.node('open', [], isolated('sandbox', '', ['host', 'outbound', 'none'], 'outbound'));
  t.is(outcome(world, { ...server, name: 'g' }), 'open process');
  // Without a sandbox there is one network only; an account gets there if its least level says so.
  for (const level of ['user', 'none']) {
    const weak = ruled({ network: 'auto' });
    weak.node(level, [], isolated(level, '', ['host'], 'host'));
    t.is(outcome(weak, server), `${level} process`);
  }
  const free = ruled({ network: 'host' });
  free.node('closed', [], isolated('sandbox', '', ['host', 'none'], 'none'));
  t.is(outcome(free, server), 'closed process');
});

for (const [rule, networks, closed, drained] of [
  ['auto', ['host', 'none'], 'none', true],
  ['auto', ['host', 'outbound', 'none'], 'outbound', true],
  ['auto', ['host'], 'host', false],
  ['outbound', ['host', 'outbound', 'none'], 'outbound', true],
  ['none', ['host', 'none'], 'none', true],
  ['host', ['host', 'none'], 'none', false],
] as const)
  test(`the rule ${rule} on a node whose workers get ${closed} then ${drained ? 'replaces' : 'keeps'} workers with the host's network`, (t) => {
    const world = ruled({ network: 'host' });
    world.node('a', [], isolated('sandbox', '', networks, closed));
    const [id = ''] = world.deploy(queueInput('e', { workersMin: 1, workersMax: 2, ...python }));
    world.settle();
    world.command({ kind: 'put-account', account: 'acc', quotas: {}, rules: { network: rule }, create: false });
    world.pass(100);
    t.deepEqual(
      world.workers(id).map(({ node, drain }) => `${node} ${drain}`),
      drained ? ['a true', 'a false'] : ['a false'],
    );
    if (drained) return;
    // A looser rule replaces none.
    world.command({ kind: 'put-account', account: 'acc', quotas: {}, rules: { network: 'host' }, create: false });
    world.pass(100);
    t.is(world.workers(id).filter(({ drain }) => drain).length, 0);
  });

for (const [former, rule, drained] of [
  ['host', 'auto', true],
  ['host', 'outbound', true],
  ['host', 'none', true],
  ['auto', 'outbound', true],
  ['auto', 'none', true],
  ['outbound', 'none', true],
  ['host', 'host', false],
  ['none', 'outbound', false],
  ['auto', 'host', false],
] as const)
  test(`the rule ${rule} after ${former} ${drained ? 'replaces' : 'keeps'} workers of a node that has not reported since the start`, (t) => {
    const world = ruled({ network: former });
    const facts = isolated('sandbox', '', ['host', 'outbound', 'none'], 'outbound');
    world.node('a', [], facts);
    const [id = ''] = world.deploy(queueInput('e', { workersMin: 1, workersMax: 2, ...python }));
    world.settle();
    world.disconnect('a');
    world.restart();
    world.command({ kind: 'put-account', account: 'acc', quotas: {}, rules: { network: rule }, create: false });
    // The next scheduler knows it, too.
    world.restart();
    world.connect('a', [], facts);
    world.pass(100);
    t.deepEqual(
      world.workers(id).map(({ node, drain }) => `${node} ${drain}`),
      drained ? ['a true', 'a false'] : ['a false'],
    );
  });

test('a stricter rule drains the workers that it forbids, and others start where it holds', (t) => {
  const world = ruled({});
  world.node('a', [], isolated('none'));
  const [id = ''] = world.deploy(queueInput('e', { workersMin: 1, workersMax: 2, ...python }));
  world.settle();
  world.node('b', [], isolated('sandbox'));
  world.command({ kind: 'put-account', account: 'acc', quotas: {}, rules: { leastIsolation: 'sandbox' }, create: false });
  world.pass(100);
  t.deepEqual(
    world
      .workers(id)
      .map(({ node, drain }) => `${node} ${drain}`)
      .sort(),
    ['a true', 'b false'],
  );
});

test('a looser rule finds the place that was missing', (t) => {
  const world = ruled({ leastIsolation: 'sandbox' });
  world.node('a', [], isolated('none'));
  t.regex(outcome(world), /^ISOLATION_TOO_WEAK/);
  const [endpoint] = [...world.image.endpoints.keys()];
  world.command({ kind: 'put-account', account: 'acc', quotas: {}, rules: { leastIsolation: 'none' }, create: false });
  world.pass(100);
  t.is(world.workers(endpoint ?? '').length, 1);
});

test('a node that comes back weaker loses the workers that need more', (t) => {
  const world = ruled({ leastIsolation: 'sandbox' });
  world.node('a', [], isolated('sandbox'));
  const [id = ''] = world.deploy(queueInput('e', { workersMin: 1, workersMax: 1, ...python }));
  world.settle();
  world.inventory('a', (known) => ({ ...known, ...isolated('none') }));
  world.pass(100);
  t.deepEqual(
    world.workers(id).map(({ drain }) => drain),
    [true],
  );
  t.regex(explainRejections(world.endpoint(id).rejections), /^ISOLATION_TOO_WEAK/);
});
