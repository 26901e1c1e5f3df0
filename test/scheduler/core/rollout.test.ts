/** From one release to the next: warm workers never run stale code, and no capacity is lost (scheduler/core/scaling/rollout.ts). */
import test from 'ava';

import { queueInput } from '../../support/endpoint-input.ts';
import { FleetWorld } from './fleet-world.ts';

/** An endpoint with ready workers of a first release; `next` deploys the same with another environment. */
function deployed(workers: number, more = {}): { world: FleetWorld; endpoint: string; next: (digest: string) => void } {
  const world = new FleetWorld();
  world.node('a', ['gpu-1', 'gpu-2']);
  const input = queueInput('echo', { workersMin: workers, workersMax: 4, idleTimeoutS: 60, ...more });
  const [endpoint = ''] = world.deploy(input);
  world.settle();
  return { world, endpoint, next: (envDigest) => void world.deploy({ ...input, envDigest }) };
}

function releaseOf(world: FleetWorld, job: string): string {
  const worker = world.running.find((running) => running.job === job)?.worker ?? '';
  return world.image.workers.get(worker)?.release ?? 'none';
}

test('a job submitted after a deployment waits for the new release, although old workers are free', (t) => {
  const { world, endpoint, next } = deployed(2);
  const before = world.endpoint(endpoint).config.release;
  next('2');
  const after = world.endpoint(endpoint).config.release;
  t.not(after, before);
  const job = world.submit(endpoint);
  t.is(releaseOf(world, job), 'none');
  t.is(world.staying(endpoint).filter(({ release }) => release === after).length, 2, 'as many new ones as there were old ones');
  world.settle();
  t.is(releaseOf(world, job), after);
  t.deepEqual(
    world.workers(endpoint).map(({ release }) => release),
    [after, after],
  );
});

test('what was queued before goes on with the old workers until a new one is ready, and fails nowhere', (t) => {
  const { world, endpoint, next } = deployed(2);
  const before = world.endpoint(endpoint).config.release;
  const jobs = Array.from({ length: 6 }, () => world.submit(endpoint));
  next('2');
  const after = world.endpoint(endpoint).config.release;
  world.complete(jobs[0] ?? '');
  world.complete(jobs[1] ?? '');
  t.is(releaseOf(world, jobs[2] ?? ''), before, 'the old ones go on while none of the new ones is ready');
  const fresh = world.staying(endpoint).filter(({ release }) => release === after);
  t.is(fresh.length, 2);
  world.ready(fresh[0]?.id ?? '');
  t.is(releaseOf(world, jobs[4] ?? ''), after);
  world.complete(jobs[2] ?? '');
  t.is(releaseOf(world, jobs[5] ?? ''), 'none', 'an old worker gets nothing once a new one is ready');
  world.ready(fresh[1]?.id ?? '');
  while (world.running.length > 0) world.complete(world.running[0]?.job ?? '');
  t.is(world.endpoint(endpoint).counts.completed, 6);
  t.true(world.workers(endpoint).every(({ release }) => release === after));
});

test('where the old workers hold every device, they make room one by one', (t) => {
  const { world, endpoint, next } = deployed(2, { gpuIds: 'ANY', gpuCount: 1, workersMax: 2 });
  const before = world.endpoint(endpoint).config.release;
  for (let i = 0; i < 4; i++) world.submit(endpoint);
  next('2');
  const after = world.endpoint(endpoint).config.release;
  const old = (): number => world.staying(endpoint).filter(({ release }) => release === before).length;
  t.is(old(), 1, 'one is asked to go, the other works on');
  world.pass(3_000);
  t.is(old(), 1, 'and no second one before the first is gone');
  const leaving = world.workers(endpoint).find(({ drain }) => drain)?.id;
  world.complete(world.running.find(({ worker }) => worker === leaving)?.job ?? '');
  world.pass(1_000);
  const [fresh] = world.staying(endpoint).filter(({ release }) => release === after);
  t.truthy(fresh, 'its device is used by the first new one');
  world.ready(fresh?.id ?? '');
  t.true(world.running.some(({ job }) => releaseOf(world, job) === after));
  t.is(old(), 0);
  world.complete(world.running.find(({ job }) => releaseOf(world, job) === before)?.job ?? '');
  world.pass(1_000);
  world.settle();
  while (world.running.length > 0) world.complete(world.running[0]?.job ?? '');
  t.is(world.endpoint(endpoint).counts.completed, 4);
  t.is(world.staying(endpoint).length, 2);
});

test('a second deployment leaves the workers of the first nothing to take', (t) => {
  const { world, endpoint, next } = deployed(1);
  const first = world.endpoint(endpoint).config.release;
  const running = world.submit(endpoint);
  const waiting = world.submit(endpoint);
  next('2');
  next('3');
  world.complete(running);
  t.is(releaseOf(world, waiting), 'none');
  world.settle();
  t.not(releaseOf(world, waiting), first);
  t.not(releaseOf(world, waiting), 'none');
});

test('a scheduler that starts anew still knows from which job on the new release counts', (t) => {
  const { world, endpoint, next } = deployed(1);
  for (let i = 0; i < 5; i++) world.submit(endpoint);
  next('2');
  const { releaseFrom, previousRelease } = world.endpoint(endpoint).config;
  world.restart();
  t.is(world.endpoint(endpoint).config.releaseFrom, releaseFrom);
  t.deepEqual([world.endpoint(endpoint).config.previousRelease], [previousRelease]);
  t.true(world.image.nextQueuePosition >= releaseFrom, 'no later job can be taken for an earlier one');
});

test('idle workers are replaced, too, and the replacement goes with the idle time-out', (t) => {
  const { world, endpoint, next } = deployed(0, { idleTimeoutS: 10 });
  const job = world.submit(endpoint);
  world.settle();
  world.complete(job);
  t.is(world.staying(endpoint).length, 1);
  next('2');
  t.is(world.staying(endpoint).length, 1, 'the endpoint stays warm');
  world.settle();
  t.is(world.staying(endpoint)[0]?.release, world.endpoint(endpoint).config.release);
  world.pass(12_000);
  t.is(world.staying(endpoint).length, 0);
});
