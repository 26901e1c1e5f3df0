/** The life of a node: it joins with a token, is drained and resumed, is lost, comes back, is removed. */
import test from 'ava';

import { CapstanError } from '../../../lib/errors.ts';
import type { CommandResult } from '../../../scheduler/core/effects.ts';
import { tokenId } from '../../../scheduler/core/fleet/nodes.ts';
import { queueInput } from '../../support/endpoint-input.ts';
import { FleetWorld } from './fleet-world.ts';

function refusal(answer: CommandResult | CapstanError): string {
  return answer instanceof CapstanError ? `${answer.code} ${answer.message}` : 'none';
}

function join(world: FleetWorld, hash: string, id: string): string {
  return refusal(world.command({ kind: 'join', tokenHash: hash, node: { id, name: id, secretHash: '' } }));
}

test('a join token lets as many nodes join as it says, until it expires or is revoked', (t) => {
  const world = new FleetWorld();
  t.regex(join(world, 'unknown', 'x'), /^UNAUTHENTICATED the join token is not valid/);
  const expiresInMs = 60_000;
  world.command({ kind: 'put-join-token', hash: 'two-uses-hash', name: 'rack 1', expiresInMs, maxUses: 2 });
  const { createdAt = 0, expiresAt } = world.image.joinTokens.get('two-uses-hash') ?? {};
  t.is(expiresAt, createdAt + expiresInMs);
  t.is(join(world, 'two-uses-hash', 'a'), 'none');
  world.restart();
  t.is(join(world, 'two-uses-hash', 'b'), 'none');
  t.regex(join(world, 'two-uses-hash', 'c'), /UNAUTHENTICATED .*was already used 2 times/);
  world.command({ kind: 'put-join-token', hash: 'short-lived-hash', name: '', expiresInMs, maxUses: null });
  world.pass(expiresInMs);
  t.regex(join(world, 'short-lived-hash', 'd'), /has expired/);
  world.command({ kind: 'put-join-token', hash: 'revoked-hash', name: '' });
  t.is(refusal(world.command({ kind: 'revoke-join-token', id: tokenId('revoked-hash') })), 'none');
  t.regex(join(world, 'revoked-hash', 'e'), /is not valid/);
  t.regex(refusal(world.command({ kind: 'revoke-join-token', id: tokenId('revoked-hash') })), /NOT_FOUND/);
  t.deepEqual([...world.image.nodes.keys()], ['a', 'b']);
});

test('a join token admits nodes at a bounded rate', (t) => {
  const world = new FleetWorld();
  world.command({ kind: 'put-join-token', hash: 'leaked-hash', maxUses: 2_000 });
  world.command({ kind: 'put-join-token', hash: 'other-hash' });
  for (let n = 0; n < 1_000; n += 1) t.is(join(world, 'leaked-hash', `node-${n}`), 'none');
  t.regex(join(world, 'leaked-hash', 'more'), /^RATE_LIMITED at most 10 nodes per second/);
  t.is(join(world, 'other-hash', 'other'), 'none');
  world.pass(1_000);
  t.is(join(world, 'leaked-hash', 'more'), 'none');
  t.is(world.image.nodes.size, 1_002);
});

test('the token of the data folder that is used up is not renewed by the next start', (t) => {
  const world = new FleetWorld();
  const put = (): void => void world.command({ kind: 'put-join-token', hash: 'of-folder-hash', maxUses: 1, isOfFolder: true });
  put();
  t.is(join(world, 'of-folder-hash', 'a'), 'none');
  world.command({ kind: 'put-join-token', hash: 'another-hash' });
  world.restart();
  put();
  t.regex(join(world, 'of-folder-hash', 'b'), /was already used once, the maximum/);
});

test('a revoked token stays revoked, also when it is put again at the next start', (t) => {
  const world = new FleetWorld();
  world.command({ kind: 'revoke-join-token', id: tokenId('t') });
  world.restart();
  world.command({ kind: 'put-join-token', hash: 't' });
  t.regex(join(world, 't', 'a'), /is not valid/);
});

test('a drained node gets nothing new; its jobs finish, and its workers are replaced elsewhere', (t) => {
  const world = new FleetWorld();
  world.node('a');
  const [endpoint = ''] = world.deploy(queueInput('echo', { workersMin: 2, workersMax: 4 }));
  world.settle();
  const running = world.submit(endpoint);
  world.node('b');
  world.command({ kind: 'drain-node', node: 'a' });
  t.deepEqual(
    world.staying(endpoint).map(({ node }) => node),
    ['b', 'b'],
    'asked for at once',
  );
  const waiting = world.submit(endpoint);
  t.false(
    world.running.some(({ job }) => job === waiting),
    'the free worker of the drained node gets nothing',
  );
  world.settle();
  t.is(world.running.find(({ job }) => job === waiting)?.node, 'b');
  t.true(
    world.workers(endpoint).some(({ node }) => node === 'a'),
    'what runs there goes on',
  );
  world.complete(running);
  t.is(world.image.nodes.get('a')?.workers.size, 0);
  t.is(world.endpoint(endpoint).counts.completed, 1);
  world.restart();
  world.connect('a');
  world.connect('b');
  t.true(world.image.nodes.get('a')?.config.draining, 'and it stays drained');
});

test('a resumed node is used again, by what waited for a place at once', (t) => {
  const world = new FleetWorld();
  world.node('a');
  const [endpoint = ''] = world.deploy(queueInput('echo'));
  world.command({ kind: 'drain-node', node: 'a' });
  world.submit(endpoint);
  t.is(world.staying(endpoint).length, 0);
  t.is(world.endpoint(endpoint).rejections[0]?.reason, 'NODE_DRAINING');
  t.is(world.counts(endpoint).throttled, 1);
  world.command({ kind: 'resume-node', node: 'a' });
  t.is(world.staying(endpoint).length, 1);
});

test('a node with workers is removed by force alone, and its jobs go elsewhere', (t) => {
  const world = new FleetWorld();
  world.node('a');
  const [endpoint = ''] = world.deploy(queueInput('echo'));
  const job = world.submit(endpoint);
  world.settle();
  world.node('b');
  t.regex(refusal(world.command({ kind: 'remove-node', node: 'a', force: false })), /^CONFLICT node: a has 1 workers/);
  t.true(world.image.nodes.has('a'));
  t.is(refusal(world.command({ kind: 'remove-node', node: 'a', force: true })), 'none');
  t.true(world.effects.some((effect) => effect.kind === 'close-session' && effect.node === 'a'));
  world.settle();
  t.is(world.running.filter((running) => running.job === job).at(-1)?.node, 'b');
  t.regex(refusal(world.command({ kind: 'drain-node', node: 'a' })), /NOT_FOUND/);
  world.restart();
  t.false(world.image.nodes.has('a'));
  t.is(world.image.removedNodes.get('a')?.name, 'a', 'its agent is still told why');
});

test('the workers of a lost node are asked for elsewhere at once, not one after the other', (t) => {
  const world = new FleetWorld({ nodeGraceMs: 15_000 });
  world.node('a');
  const [endpoint = ''] = world.deploy(queueInput('echo', { workersMax: 4, idleTimeoutS: 60, scalerValue: 3_600, workersMin: 3 }));
  world.settle();
  world.deploy(queueInput('echo', { workersMax: 4, idleTimeoutS: 60, scalerValue: 3_600 }));
  for (let i = 0; i < 3; i++) world.submit(endpoint);
  world.node('b');
  world.disconnect('a');
  world.pass(16_000);
  t.deepEqual(
    world.staying(endpoint).map(({ node }) => node),
    ['b', 'b', 'b'],
  );
});

test('a node that comes back within the grace period keeps its workers; after it they are drained', (t) => {
  const world = new FleetWorld({ nodeGraceMs: 15_000 });
  world.node('a');
  const [endpoint = ''] = world.deploy(queueInput('echo', { workersMin: 1, workersMax: 1 }));
  world.settle();
  const [worker] = world.staying(endpoint);
  world.disconnect('a');
  world.pass(10_000);
  world.connect('a');
  t.deepEqual(world.staying(endpoint), [worker as never], 'adopted');
  world.disconnect('a');
  world.pass(16_000);
  t.is(world.workers(endpoint).length, 0);
  world.effects.length = 0;
  world.connect('a');
  const desired = world.effects.filter((effect) => effect.kind === 'send-desired').at(-1);
  if (desired?.kind !== 'send-desired') return t.fail('the node was told nothing');
  t.false(
    desired.workers.some(({ id }) => id === worker?.id),
    'what it still runs is not wanted: it drains it',
  );
  t.is(desired.workers.length, 1, 'and another one is');
});

test('a node that claims to hold the attempt of a job on another node does not lose it with a restart, nor with its removal', (t) => {
  const world = new FleetWorld();
  world.node('honest');
  const [endpoint = ''] = world.deploy(queueInput('echo'));
  const job = world.submit(endpoint);
  world.settle();
  const held = world.running.find((running) => running.job === job);
  t.is(held?.node, 'honest');
  world.node('hostile');
  world.command({ kind: 'drain-node', node: 'honest' });
  const [own] = world.workers(endpoint).filter(({ node }) => node === 'hostile');
  if (held === undefined || own === undefined) return void t.fail('no worker');
  const claim = { jobId: job, token: held.token, workerId: own.id, started: true, startedAgoMs: 1 };
  for (const [n, incarnation] of ['hostile-1', 'hostile-2', 'hostile-3'].entries()) {
    const workers = { epoch: 0, workers: [] };
    const hello = { protocol: 1, incarnation, agentVersion: 'test', workers, attempts: [claim] };
    world.event({ kind: 'session-opened', node: 'hostile', session: 100 + n, hello });
    t.is(world.image.jobs.get(job)?.lease?.node, 'honest', incarnation);
  }
  world.command({ kind: 'remove-node', node: 'hostile', force: true });
  t.is(world.image.jobs.get(job)?.lease?.node, 'honest');
  t.is(world.image.jobs.get(job)?.pastAttempts, null);
  world.complete(job);
  t.is(world.endpoint(endpoint).counts.completed, 1);
});
