/** Starts that fail: backed off, reported, tried elsewhere, and over by themselves (scheduler/core/endpoints/crash-loops.ts). */
import test from 'ava';

import { queueReason } from '../../../scheduler/core/jobs/reasons.ts';
import { queueInput } from '../../support/endpoint-input.ts';
import { FleetWorld } from './fleet-world.ts';

function reason(world: FleetWorld, endpoint: string): { reason: string; detail: string } {
  return queueReason(world.image, world.endpoint(endpoint), { wall: 0, mono: world.mono });
}

function looping(): { world: FleetWorld; endpoint: string } {
  const world = new FleetWorld();
  world.node('a');
  const [endpoint = ''] = world.deploy(queueInput('echo', { scalerType: 'REQUEST_COUNT', scalerValue: 1, workersMax: 3 }));
  for (let i = 0; i < 5; i++) world.submit(endpoint);
  for (const worker of world.staying(endpoint)) world.fail(worker.id, 1);
  return { world, endpoint };
}

test('after three failed starts in a row one worker goes on trying, and the reason is said', (t) => {
  const { world, endpoint } = looping();
  t.is(world.staying(endpoint).length, 1);
  world.pass(1_000);
  t.is(world.staying(endpoint).length, 1, 'no other is asked for');
  t.is(reason(world, endpoint).reason, 'CRASH_LOOP');
  t.regex(reason(world, endpoint).detail, /3 consecutive starts failed.*LOAD_FAILED: no module named x/);
  t.true(world.counts(endpoint).unhealthy >= 1);
  t.true(world.endpoint(endpoint).decisions.some(({ kind }) => kind === 'CRASH_LOOP'));
  t.true(world.effects.some((effect) => effect.kind === 'log' && effect.message === 'workers of the endpoint keep failing to start'));
});

test('the error itself stays in the reason, though the agent calls later failures a crash loop', (t) => {
  const { world, endpoint } = looping();
  const [probing] = world.staying(endpoint);
  world.report(probing?.id ?? '', { reason: 'CRASH_LOOP', detail: 'no module named x', failures: 2 });
  t.is(reason(world, endpoint).detail, '4 consecutive starts failed; last error: no module named x');
});

test('a good start ends it, and the endpoint grows again', (t) => {
  const { world, endpoint } = looping();
  const [probing] = world.staying(endpoint);
  world.ready(probing?.id ?? '');
  t.is(world.endpoint(endpoint).starts.failures, 0);
  world.pass(1_000);
  t.is(world.staying(endpoint).length, 3);
  t.is(reason(world, endpoint).reason, 'WORKERS_BUSY');
  t.true(world.endpoint(endpoint).decisions.some(({ kind }) => kind === 'RECOVERED'));
});

test('a new release ends it', (t) => {
  const { world, endpoint } = looping();
  world.deploy(queueInput('echo', { scalerType: 'REQUEST_COUNT', scalerValue: 1, workersMax: 3, envDigest: 'corrected' }));
  t.is(world.endpoint(endpoint).starts.failures, 0);
  t.is(world.staying(endpoint).filter(({ release }) => release === world.endpoint(endpoint).config.release).length, 3);
  world.settle();
  t.true(world.running.length >= 3);
});

test('a worker that fails on one node is tried on another', (t) => {
  const world = new FleetWorld();
  world.node('a');
  const [endpoint = ''] = world.deploy(queueInput('echo'));
  world.submit(endpoint);
  const [first] = world.staying(endpoint);
  world.node('b');
  world.fail(first?.id ?? '', 1);
  t.is(world.staying(endpoint)[0]?.node, 'a', 'once may be chance');
  world.fail(first?.id ?? '', 2);
  t.deepEqual(
    world.staying(endpoint).map(({ node }) => node),
    ['b'],
  );
  world.settle();
  t.is(world.running[0]?.node, 'b');
  t.is(world.endpoint(endpoint).starts.failures, 0);
  t.true((world.endpoint(endpoint).starts.nodes.get('a')?.avoidUntil ?? 0) > world.mono, 'the other node is avoided for a while');
});

test('where every node fails, one worker moves on with growing pauses', (t) => {
  const world = new FleetWorld();
  for (const name of ['a', 'b', 'c']) world.node(name);
  const [endpoint = ''] = world.deploy(queueInput('echo'));
  world.submit(endpoint);
  const asked = new Set<string>();
  const seen = new Map<string, number>();
  for (let second = 0; second < 600; second++) {
    for (const { id } of world.staying(endpoint)) {
      asked.add(id);
      const failures = (seen.get(id) ?? 0) + 1;
      seen.set(id, failures);
      world.fail(id, failures);
    }
    world.reap();
    t.true(world.staying(endpoint).length <= 1);
    world.pass(1_000);
    for (const { id, drain } of world.workers(endpoint)) if (drain) t.true(asked.has(id));
  }
  t.true(asked.size <= 12, `${asked.size} workers in ten minutes`);
  t.is(reason(world, endpoint).reason, 'CRASH_LOOP');
});
