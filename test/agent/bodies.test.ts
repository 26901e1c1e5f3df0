/** Large inputs, outputs and chunks through the blob store (docs/borders.md, Bodies). */
import test from 'ava';

import { CapstanError } from '../../lib/errors.ts';
import { startWorker } from './fixtures.ts';

const ECHO = 'export function echo(text: string) { return { length: text.length, text }; }';

test('a large input is fetched first, a large output is stored first', async (t) => {
  const { scheduler } = await startWorker(t, ECHO, 'echo');
  const text = 'é'.repeat(300_000);
  const blob = scheduler.putBlob(Buffer.from(JSON.stringify({ text })));
  scheduler.dispatch({ jobId: 'j1', input: { body: { $case: 'blob', value: blob } } });
  const ended = await scheduler.ended('j1');
  t.is(ended.outcome, 'ATTEMPT_OUTCOME_COMPLETED');
  t.is(ended.output?.body?.$case, 'blob');
  t.deepEqual(scheduler.valueOf(ended.output), { length: 300_000, text });
});

test('an input that is not there is refused', async (t) => {
  const { scheduler } = await startWorker(t, ECHO, 'echo');
  scheduler.dispatch({ jobId: 'j1', input: { body: { $case: 'blob', value: { id: 'nowhere', size: 10 } } } });
  const refused = await scheduler.refused('j1');
  t.is(refused.reason, 'REFUSAL_REASON_INPUT_MISSING');
  t.regex(refused.detail, /nowhere/);
});

test('an input is tried again while the store is busy', async (t) => {
  const { scheduler } = await startWorker(t, ECHO, 'echo');
  const blob = scheduler.putBlob(Buffer.from('{"text":"a"}'));
  let faults = 2;
  scheduler.blobFault = (id) => (id === blob.id && faults-- > 0 ? new CapstanError('UNAVAILABLE', 'busy') : undefined);
  scheduler.dispatch({ jobId: 'j1', input: { body: { $case: 'blob', value: blob } } });
  t.is((await scheduler.ended('j1')).outcome, 'ATTEMPT_OUTCOME_COMPLETED');
});

test('an output waits for a store that is away', async (t) => {
  const { scheduler } = await startWorker(t, 'export function large() { return "x".repeat(100_000); }', 'large');
  let faults = 3;
  scheduler.putFault = () => (faults-- > 0 ? new CapstanError('UNAVAILABLE', 'away') : undefined);
  scheduler.dispatch({ jobId: 'j1' });
  const ended = await scheduler.ended('j1');
  t.is((scheduler.valueOf(ended.output) as string).length, 100_000);
  t.true(faults < 0);
});

test('an output that the store refuses fails the job with the reason', async (t) => {
  const { scheduler } = await startWorker(t, 'export function large() { return "x".repeat(100_000); }', 'large');
  scheduler.putFault = () => new CapstanError('PAYLOAD_TOO_LARGE', 'no room for it');
  scheduler.dispatch({ jobId: 'j1' });
  t.like(await scheduler.ended('j1'), { outcome: 'ATTEMPT_OUTCOME_FAILED', error: 'storing the result failed: no room for it' });
});

test('large chunks keep their order among small ones', async (t) => {
  const source = 'export function* mixed() { yield "a".repeat(100_000); yield "b"; yield "c".repeat(100_000); yield "d"; }';
  const { scheduler } = await startWorker(t, source, 'mixed');
  scheduler.dispatch({ jobId: 'j1' });
  const ended = await scheduler.ended('j1');
  t.is(ended.chunks, 4);
  const chunks = scheduler.heard.items.flatMap((event) => (event.$case === 'chunk' ? [event.value] : []));
  t.deepEqual(
    chunks.map(({ index, data }) => [index, (scheduler.valueOf(data) as string)[0]]),
    [
      [0, 'a'],
      [1, 'b'],
      [2, 'c'],
      [3, 'd'],
    ],
  );
});
