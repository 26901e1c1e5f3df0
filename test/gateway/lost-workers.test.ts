/** What becomes of the requests of a worker that one of them has ended, or may have ended. */
import test, { type ExecutionContext } from 'ava';

import { Pools, type PoolWorker, type WorkerHost } from '../../gateway/lb/pools.ts';
import { CapstanError } from '../../lib/errors.ts';
import { WorkerEnd } from '../../proto/gen/capstan/v1/invoke.ts';
import { FakeAgent, type Taken } from './fake-agent.ts';
import { caller, type Setup } from './harness.ts';
import { HOST, setupLb } from './lb-harness.ts';

/** The request of this name as the agent gets it for the nth time. */
async function nth(agent: FakeAgent, name: string, n: number): Promise<Taken> {
  const isNamed = ({ begin }: Taken): boolean => begin.target === `/fn?${name}`;
  await agent.taken.next(() => agent.taken.items.filter(isNamed).length >= n);
  return agent.taken.items.filter(isNamed)[n - 1] ?? Promise.reject(new Error(name));
}

/** Each request has a connection of its own. */
function getter(t: ExecutionContext, url: string): (name: string) => ReturnType<Setup['call']> {
  return (name) => caller(t, url)('GET', `/fn?${name}`, { headers: { host: HOST } });
}

function lose(taken: Taken, workerEnd: WorkerEnd, message = 'died'): void {
  taken.send({ $case: 'abort', value: { code: 'WORKER_LOST', message, untouched: true, workerEnd } });
}

test('a neighbour of what ended a worker gets another one, the second time for itself, and fails with the fourth', async (t) => {
  const { gateway, invokeAddress } = await setupLb(t);
  const get = getter(t, gateway.url);
  const agent = new FakeAgent(t, invokeAddress).serve('web', { w1: 4 });
  const served = async (name: string): Promise<void> => {
    const answer = get(name);
    (await nth(agent, name, 1)).answer(200, '');
    t.is((await answer).status, 200);
  };
  const innocent = get('innocent');
  lose(await nth(agent, 'innocent', 1), WorkerEnd.NEIGHBOUR);
  const second = await nth(agent, 'innocent', 2);
  const beside = get('beside');
  const besideTaken = await nth(agent, 'beside', 1);
  lose(second, WorkerEnd.NEIGHBOUR);
  await served('passes');
  t.is(agent.taken.items.filter(({ begin }) => begin.target === '/fn?innocent').length, 2, 'another request is on the worker');
  besideTaken.answer(200, '');
  t.is((await beside).status, 200);
  const third = await nth(agent, 'innocent', 3);
  const waits = get('waits');
  third.answer(200, '"served"');
  t.is((await innocent).text, '"served"');
  (await nth(agent, 'waits', 1)).answer(200, '');
  t.is((await waits).status, 200);

  const unlucky = get('unlucky');
  for (let n = 1; n <= 4; n += 1) lose(await nth(agent, 'unlucky', n), WorkerEnd.NEIGHBOUR);
  t.like(await unlucky, { status: 500, json: { detail: 'died' } });
});

test('each of those that may have ended a worker is tried once more without the others, and the culprit alone fails', async (t) => {
  const { gateway, invokeAddress } = await setupLb(t);
  const get = getter(t, gateway.url);
  const agent = new FakeAgent(t, invokeAddress).serve('web', { w1: 4 });
  const calls = new Map(['one', 'two', 'three'].map((name) => [name, get(name)]));
  const taken = await Promise.all([...calls.keys()].map((name) => nth(agent, name, 1)));
  for (const each of taken) lose(each, WorkerEnd.SUSPECT);
  for (const count of [4, 5, 6]) {
    await agent.taken.next(() => agent.taken.items.length >= count);
    t.is(agent.taken.items.length, count, 'the others wait');
    const alone = agent.taken.items[count - 1];
    if (alone?.begin.target === '/fn?two') lose(alone, WorkerEnd.SUSPECT, 'died again');
    else alone?.answer(200, '');
    await calls.get(alone?.begin.target.slice('/fn?'.length) ?? '');
  }
  t.is((await calls.get('one'))?.status, 200);
  t.like(await calls.get('two'), { status: 500, json: { detail: 'died again' } });
  t.is((await calls.get('three'))?.status, 200);
});

test('a worker that always has requests takes no others once a suspect has waited for a second', (t) => {
  let now = 0;
  const pools = new Pools<WorkerHost>({ now: () => now, maxHeld: 10, holdMs: 60_000, releaseOf: () => 'r1', onChange: () => undefined });
  const placed: [string, PoolWorker<WorkerHost>][] = [];
  const names = (): string[] => placed.map(([name]) => name);
  const requestWorker = (name: string, alone = false): void =>
    void pools.requestWorker('web', {
      functionName: 'fn',
      waitingSince: undefined,
      alone,
      hasKey: true,
      aloneSince: undefined,
      placed: (worker) => placed.push([name, worker]),
      refused: () => undefined,
    });
  const end = (name: string): void => {
    for (const [each, worker] of placed) if (each === name) pools.release(worker, false);
  };
  pools.setServing({ node: 'n' }, [{ workerId: 'w1', endpointId: 'web', releaseId: 'r1', slots: 2, functions: ['fn'] }]);
  requestWorker('a');
  requestWorker('suspect', true);
  requestWorker('b');
  t.deepEqual(names(), ['a', 'b'], 'others pass it at first');
  now = 1_000;
  end('a');
  requestWorker('c');
  t.deepEqual(names(), ['a', 'b']);
  end('b');
  t.deepEqual(names(), ['a', 'b', 'suspect']);
  end('suspect');
  t.deepEqual(names(), ['a', 'b', 'suspect', 'c']);
  pools.close(new CapstanError('UNAVAILABLE', 'over'));
});

test('a request that looks for a worker in the moment before it may be tried again does not wait for another event', async (t) => {
  // The clock goes on with each look at it: of some of these beginnings it passes the end of the pause between two looks of a request.
  for (let looks = 1; looks <= 12; looks += 1) {
    let now = 0;
    let tick = 0;
    const pools = new Pools<WorkerHost>({
      now: () => (now += tick),
      maxHeld: 10,
      holdMs: 60_000,
      releaseOf: () => 'r1',
      onChange: () => undefined,
    });
    t.teardown(() => pools.close(new CapstanError('UNAVAILABLE', 'over')));
    pools.setServing({ node: 'n' }, [{ workerId: 'w1', endpointId: 'web', releaseId: 'r1', slots: 2, functions: ['fn'] }]);
    const requestWorker = (): Promise<PoolWorker<WorkerHost>> =>
      new Promise((placed, reject) =>
        pools.requestWorker('web', {
          functionName: 'fn',
          waitingSince: undefined,
          alone: false,
          hasKey: true,
          aloneSince: undefined,
          placed,
          refused: reject,
        }),
      );
    const worker = await requestWorker();
    pools.release(worker, true);
    tick = 0.01;
    now = worker.notBefore - tick * looks;
    t.is(await requestWorker(), worker, `${looks} looks before it`);
  }
});

/** Pools whose clock stands, requests by name, and where they were placed. */
function standing(releases: Readonly<Record<string, string>>) {
  const clock = { now: 0 };
  const pools = new Pools<WorkerHost>({
    now: () => clock.now,
    maxHeld: 10,
    holdMs: 60_000,
    releaseOf: () => 'r2',
    onChange: () => undefined,
  });
  const placed: string[] = [];
  const workers = new Map<string, PoolWorker<WorkerHost>>();
  const requestWorker = (name: string, alone = false): void =>
    void pools.requestWorker('web', {
      functionName: 'fn',
      waitingSince: undefined,
      alone,
      hasKey: true,
      aloneSince: undefined,
      placed: (worker) => {
        placed.push(`${name} ${worker.id}`);
        workers.set(name, worker);
      },
      refused: () => undefined,
    });
  const served = Object.entries(releases).map(([workerId, releaseId]) => ({
    ...{ workerId, releaseId, endpointId: 'web' },
    ...{ slots: 2, functions: ['fn'] },
  }));
  pools.setServing({ node: 'n' }, served);
  const workerOf = (name: string): PoolWorker<WorkerHost> => workers.get(name) ?? ({} as never);
  return { pools, clock, placed, requestWorker, workerOf };
}

test('a response that goes on shares its worker again', (t) => {
  const { pools, placed, requestWorker, workerOf } = standing({ w1: 'r2' });
  requestWorker('socket', true);
  requestWorker('other');
  t.deepEqual(placed, ['socket w1']);
  pools.share(workerOf('socket'));
  t.deepEqual(placed, ['socket w1', 'other w1']);
  pools.close(new CapstanError('UNAVAILABLE', 'over'));
});

test('a worker that never empties is kept for a suspect for a bounded time', (t) => {
  const { pools, clock, placed, requestWorker } = standing({ w1: 'r2' });
  requestWorker('socket');
  requestWorker('suspect', true);
  clock.now = 5_000;
  requestWorker('a');
  t.deepEqual(placed, ['socket w1'], 'it is kept');
  clock.now = 11_000;
  pools.serve('web');
  t.deepEqual(placed, ['socket w1', 'a w1']);
  pools.close(new CapstanError('UNAVAILABLE', 'over'));
});

test('a suspect waits for a worker of the present release, not for one that it does not get', (t) => {
  const { pools, clock, placed, requestWorker, workerOf } = standing({ old: 'r1', new: 'r2' });
  requestWorker('a');
  t.deepEqual(placed, ['a new']);
  requestWorker('suspect', true);
  clock.now = 2_000;
  requestWorker('b');
  pools.release(workerOf('a'), false);
  t.deepEqual(placed, ['a new', 'suspect new']);
  pools.close(new CapstanError('UNAVAILABLE', 'over'));
});
