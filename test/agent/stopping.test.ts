/** Ends before their time: cancel, executionTimeout, drain, the end of the agent. */
import { writeFile } from 'node:fs/promises';

import test from 'ava';

import { startWorker } from './fixtures.ts';

const SOURCE = `
import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
let loads = 0;
export async function deaf() { await new Promise(() => setInterval(() => undefined, 1000)); }
export function busy() { for (;;) ; }
export async function obedient(ctx: any) { await new Promise((_, reject) => ctx.signal.addEventListener('abort', () => reject(ctx.signal.reason))); }
export async function either(busy: boolean) { while (busy) ; await new Promise(() => setInterval(() => undefined, 1000)); }
export async function gate(path: string) { while (!existsSync(path)) await sleep(5); return 'finished'; }
export function spins(busy: boolean) { while (busy) ; return 'calm'; }
`;

test('a cancelled handler that obeys ends STOPPED, and its worker goes on', async (t) => {
  const { scheduler } = await startWorker(t, SOURCE, 'obedient');
  scheduler.dispatch({ jobId: 'j1' });
  await scheduler.hear('started');
  const from = scheduler.now;
  scheduler.send({ $case: 'stop', value: { jobId: 'j1', token: 1, reason: 'STOP_REASON_CANCELLED' } });
  t.is((await scheduler.ended('j1')).outcome, 'ATTEMPT_OUTCOME_STOPPED');
  scheduler.dispatch({ jobId: 'j2' });
  await scheduler.hear('started', ({ jobId }) => jobId === 'j2');
  t.false(scheduler.heard.items.slice(from).some(({ $case }) => $case === 'workers'));
});

test('executionTimeout ends a handler that never looks up, and its worker comes back', async (t) => {
  for (const fn of ['deaf', 'busy']) {
    const { scheduler } = await startWorker(t, SOURCE, fn);
    const from = scheduler.now;
    scheduler.dispatch({ jobId: 'j1', executionTimeoutMs: 100 });
    const ended = await scheduler.ended('j1');
    t.like(ended, { outcome: 'ATTEMPT_OUTCOME_TIMED_OUT', error: 'executionTimeout exceeded', started: true });
    t.true(ended.executionMs >= 100);
    const back = await scheduler.worker('w1', ({ state }) => state === 'WORKER_STATE_IDLE', from);
    t.is(back.failures, 0);
  }
});

test('the neighbour of a handler that is stopped by force is given back', async (t) => {
  const { scheduler } = await startWorker(t, SOURCE, 'either', { maxConcurrency: 2 });
  scheduler.dispatch({ jobId: 'calm' }, { busy: false });
  await scheduler.hear('started', ({ jobId }) => jobId === 'calm');
  scheduler.dispatch({ jobId: 'wild', executionTimeoutMs: 50 }, { busy: true });
  t.is((await scheduler.ended('wild')).outcome, 'ATTEMPT_OUTCOME_TIMED_OUT');
  t.is((await scheduler.refused('calm')).reason, 'REFUSAL_REASON_NEIGHBOUR_STOPPED');
});

test('a worker whose handler was stopped by force serves on', async (t) => {
  const { scheduler } = await startWorker(t, SOURCE, 'spins');
  const from = scheduler.now;
  scheduler.dispatch({ jobId: 'j1', executionTimeoutMs: 50 }, { busy: true });
  t.is((await scheduler.ended('j1')).outcome, 'ATTEMPT_OUTCOME_TIMED_OUT');
  await scheduler.worker('w1', ({ state }) => state === 'WORKER_STATE_IDLE', from);
  scheduler.dispatch({ jobId: 'j2' }, { busy: false });
  t.is(scheduler.valueOf((await scheduler.ended('j2')).output), 'calm');
});

test('a worker taken out of the set finishes its job first', async (t) => {
  const { scheduler, agent } = await startWorker(t, SOURCE, 'gate');
  const path = `${agent.dataDir}/gate`;
  scheduler.dispatch({ jobId: 'j1' }, { path });
  await scheduler.hear('started');
  scheduler.desire([], []);
  await scheduler.worker('w1', ({ state }) => state === 'WORKER_STATE_DRAINING');
  scheduler.dispatch({ jobId: 'j2' }, { path });
  t.is((await scheduler.refused('j2')).reason, 'REFUSAL_REASON_DRAINING');

  await writeFile(path, '');
  t.is(scheduler.valueOf((await scheduler.ended('j1')).output), 'finished');
  await scheduler.hear('workers', ({ workers }) => workers.length === 0);
});

test('an agent that ends takes nothing new and lets its jobs finish', async (t) => {
  const { scheduler, agent } = await startWorker(t, SOURCE, 'gate', {}, { drainMs: 60_000 });
  const path = `${agent.dataDir}/gate`;
  scheduler.dispatch({ jobId: 'j1' }, { path });
  await scheduler.hear('started');
  const closed = agent.close();
  await scheduler.worker('w1', ({ state }) => state === 'WORKER_STATE_DRAINING');
  scheduler.dispatch({ jobId: 'j2' }, { path });
  t.is((await scheduler.refused('j2')).reason, 'REFUSAL_REASON_DRAINING');

  await writeFile(path, '');
  t.is((await scheduler.ended('j1')).outcome, 'ATTEMPT_OUTCOME_COMPLETED');
  await closed;
});

test('an agent that ends kills what does not finish in time, and says so', async (t) => {
  const { scheduler, agent } = await startWorker(t, SOURCE, 'busy', {}, { drainMs: 50 });
  scheduler.dispatch({ jobId: 'j1' });
  await scheduler.hear('started');
  await agent.close();
  t.is((await scheduler.ended('j1')).outcome, 'ATTEMPT_OUTCOME_WORKER_LOST');
});
