/** Workers that a node would isolate too little are refused by the agent itself. */
import test from 'ava';

import { defaultNetworksOf, isolationRefusal, networkOf, unreachable } from '../../agent/engine/isolation-guard.ts';
import type { NodeIsolation } from '../../proto/gen/capstan/v1/nodes.ts';
import { addBuild, functionSpec, startAgent, startScheduler } from './fixtures.ts';

const node: NodeIsolation = {
  processes: 'sandbox',
  containers: '',
  processNetworks: ['host', 'none'],
  defaultNetwork: 'host',
  closedNetwork: 'none',
  containerNetworks: [],
  missing: [],
};

const cases: readonly (readonly [release: Parameters<typeof isolationRefusal>[0], runtime: string, refusal: RegExp | undefined])[] = [
  [{}, 'thread', undefined],
  [{ leastIsolation: 'none', network: 'host' }, 'process', undefined],
  [{ leastIsolation: 'sandbox', network: 'none' }, 'process', undefined],
  [{ leastIsolation: 'container' }, 'process', /requires the level of isolation container; this node has sandbox/],
  [{ leastIsolation: 'user' }, 'container', /this node has none for the runtime container/],
  [{ leastIsolation: 'vault' }, 'thread', /does not know the level of isolation "vault"/],
  [{ network: 'outbound' }, 'thread', /no network "outbound" for the runtime thread/],
  [{ network: 'moon' }, 'thread', /no network "moon"/],
];
for (const [release, runtime, refusal] of cases) {
  test(`${runtime} ${JSON.stringify(release)}: ${refusal === undefined ? 'starts' : 'refused'}`, (t) => {
    const said = isolationRefusal(release, runtime, node);
    if (refusal === undefined) t.is(said, undefined);
    else t.regex(said ?? '', refusal);
  });
}

test('a node that reports nothing isolates nothing', (t) => {
  t.regex(isolationRefusal({ leastIsolation: 'user' }, 'thread', undefined) ?? '', /this node has none/);
  t.is(isolationRefusal({}, 'thread', undefined), undefined);
});

test('a release without a network has the usual one of its runtime', (t) => {
  const networks = { usual: 'outbound', closed: 'outbound' } as const;
  t.is(networkOf({}, 'process', networks), 'outbound');
  t.is(networkOf({}, 'container', networks), 'host');
  t.is(networkOf({ network: 'none' }, 'thread', networks), 'none');
});

test("an account that may not have the host's network never gets it by default", (t) => {
  const networks = defaultNetworksOf('host', 'auto');
  t.deepEqual(networks, { usual: 'host', closed: 'none' }, '`outbound` does not work here');
  t.deepEqual(defaultNetworksOf('outbound', 'auto'), { usual: 'outbound', closed: 'outbound' });
  t.deepEqual(defaultNetworksOf('host', 'host'), { usual: 'host', closed: 'host' }, 'the operator chose it');
  t.is(networkOf({ closedNetwork: false }, 'thread', networks), 'host');
  for (const runtime of ['thread', 'process']) t.is(networkOf({ closedNetwork: true }, runtime, networks), 'none');
  t.is(networkOf({ closedNetwork: true }, 'container', networks), 'host', "the container's own");
  t.is(networkOf({ closedNetwork: true, network: 'outbound' }, 'thread', networks), 'outbound');
  t.is(unreachable('none', { functions: [functionSpec('fn')] }), undefined);
  t.is(unreachable('host', { functions: [] }), undefined);
  t.regex(unreachable('none', { functions: [] }) ?? '', /reached over its network .* may not have the host's/);
});

test('an agent refuses a worker whose account requires more than it has', async (t) => {
  const scheduler = await startScheduler(t);
  const build = await addBuild(t, scheduler, { 'main.js': 'export const fn = () => 1;' });
  await startAgent(t, scheduler);
  await scheduler.hello();
  scheduler.desire([{}], [{ ...build, functions: [functionSpec('fn')], leastIsolation: 'sandbox' }]);
  const { detail } = await scheduler.worker('w1', (worker) => worker.detail !== '');
  t.regex(detail, /requires the level of isolation sandbox; this node has none/);
});
