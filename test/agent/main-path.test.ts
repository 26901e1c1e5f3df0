/** The main job on a node: a lease comes over the session, a handler runs, its end goes back. */
import test from 'ava';

import { startWorker } from './fixtures.ts';

test('a handler runs and its value comes back, STARTED before ENDED', async (t) => {
  const { scheduler } = await startWorker(t, 'export function hello(name: string) { return { greeting: `hello ${name}` }; }', 'hello');
  scheduler.dispatch({ jobId: 'j1' }, { name: 'Ada' });
  const ended = await scheduler.ended('j1');
  t.is(ended.outcome, 'ATTEMPT_OUTCOME_COMPLETED');
  t.true(ended.started);
  t.deepEqual(scheduler.valueOf(ended.output), { greeting: 'hello Ada' });
  const kinds = scheduler.heard.items.filter((event) => event.$case === 'started' || event.$case === 'ended').map(({ $case }) => $case);
  t.deepEqual(kinds, ['started', 'ended']);
});

test('an error of the handler is its message; the stack goes to the log', async (t) => {
  const { scheduler } = await startWorker(
    t,
    { 'main.ts': 'export function broken(): never { throw new Error("no luck today"); }' },
    'broken',
  );
  scheduler.dispatch({ jobId: 'j1' });
  const ended = await scheduler.ended('j1');
  t.is(ended.outcome, 'ATTEMPT_OUTCOME_FAILED');
  t.is(ended.error, 'no luck today');
  scheduler.send({ $case: 'logs', value: { requestId: 7, endpointId: 'ep1', workerId: '', limit: 100, afterMs: 0n } });
  const reply = await scheduler.hear('logs', (value) => value.requestId === 7);
  t.true(reply.lines.some((line) => line.jobId === 'j1' && line.stream === 'stderr' && line.text.includes('main.ts')));
});
