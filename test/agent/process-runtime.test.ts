/** The process runtime on a node: its releases, and ends before their time with the same outcomes as in a thread. */
import test from 'ava';

import { addBuild, functionSpec, startWorker } from './fixtures.ts';

const PYTHON = `
import asyncio, os, time
def hello(name): return {"greeting": "hello " + name}
def sleeps(): time.sleep(3600)
def holds(): sum(range(10 ** 15))
async def deaf():
    while True:
        try: await asyncio.sleep(3600)
        except asyncio.CancelledError: pass
async def either(blocking):
    if blocking: time.sleep(3600)
    await asyncio.sleep(3600)
def either_thread(blocking): time.sleep(3600)
def streams():
    for i in range(100): yield i
def pid(die):
    if die: os.abort()
    return os.getpid()
`;
const files = { 'main.py': PYTHON };
const release = { runtime: 'process' };

test('a handler in Python runs and its value comes back, STARTED before ENDED', async (t) => {
  const { scheduler } = await startWorker(t, files, 'hello', release);
  scheduler.dispatch({ jobId: 'j1' }, { name: 'Ada' });
  const ended = await scheduler.ended('j1');
  t.is(ended.outcome, 'ATTEMPT_OUTCOME_COMPLETED');
  t.deepEqual(scheduler.valueOf(ended.output), { greeting: 'hello Ada' });
  const kinds = scheduler.heard.items.filter((event) => event.$case === 'started' || event.$case === 'ended').map(({ $case }) => $case);
  t.deepEqual(kinds, ['started', 'ended']);
});

test('chunks of a generator in Python go past its first credits', async (t) => {
  const { scheduler } = await startWorker(t, files, 'streams', release);
  scheduler.dispatch({ jobId: 'j1' });
  const ended = await scheduler.ended('j1');
  t.is(ended.chunks, 100);
  t.deepEqual(scheduler.valueOf(ended.output), [...Array(100).keys()]);
});

test('executionTimeout ends a handler whatever it does, and its worker comes back', async (t) => {
  for (const fn of ['sleeps', 'holds', 'deaf']) {
    const { scheduler } = await startWorker(t, files, fn, release);
    const from = scheduler.now;
    scheduler.dispatch({ jobId: 'j1', executionTimeoutMs: 100 });
    const ended = await scheduler.ended('j1');
    t.like(ended, { outcome: 'ATTEMPT_OUTCOME_TIMED_OUT', error: 'executionTimeout exceeded', started: true });
    // One that could be interrupted has not cost its worker anything.
    if (fn === 'sleeps') t.false(scheduler.heard.items.slice(from).some(({ $case }) => $case === 'workers'));
    else t.is((await scheduler.worker('w1', ({ state }) => state === 'WORKER_STATE_IDLE', from)).failures, 0);
  }
});

test('the neighbour of a handler that is stopped by force is given back', async (t) => {
  for (const fn of ['either', 'either_thread']) {
    const { scheduler } = await startWorker(t, files, fn, { ...release, maxConcurrency: 2 });
    scheduler.dispatch({ jobId: 'calm' }, { blocking: false });
    await scheduler.hear('started', ({ jobId }) => jobId === 'calm');
    scheduler.dispatch({ jobId: 'wild', executionTimeoutMs: 50 }, { blocking: true });
    t.is((await scheduler.ended('wild')).outcome, 'ATTEMPT_OUTCOME_TIMED_OUT', fn);
    t.is((await scheduler.refused('calm')).reason, 'REFUSAL_REASON_NEIGHBOUR_STOPPED');
  }
});

test('a worker that dies by a signal is WORKER_LOST with it, and starts again', async (t) => {
  const { scheduler } = await startWorker(t, files, 'pid', release);
  const from = scheduler.now;
  scheduler.dispatch({ jobId: 'j1' }, { die: true });
  const lost = await scheduler.ended('j1');
  t.like(lost, { outcome: 'ATTEMPT_OUTCOME_WORKER_LOST', started: true });
  t.regex(lost.error, /killed by SIGABRT/);
  await scheduler.worker('w1', ({ state }) => state === 'WORKER_STATE_IDLE', from);
  scheduler.dispatch({ jobId: 'j2' }, { die: false });
  t.is((await scheduler.ended('j2')).outcome, 'ATTEMPT_OUTCOME_COMPLETED');
});

test('a module in Python that never finishes loading is a start that took too long', async (t) => {
  const { scheduler } = await startWorker(t, files, 'hello', release);
  const slow = await addBuild(t, scheduler, { 'main.py': 'while True: pass' });
  scheduler.desire(
    [{ workerId: 'w2', releaseId: 'slow' }],
    [{ ...slow, ...release, releaseId: 'slow', startTimeoutMs: 200, functions: [functionSpec('f')] }],
  );
  const sick = await scheduler.worker('w2', ({ state }) => state === 'WORKER_STATE_UNHEALTHY');
  t.like(sick, { reason: 'START_TIMEOUT' });
});
