/** The checker accepts what the service promises, and each rule refuses a history that breaks it, and no other rule does. */
import test from 'ava';

import { check } from './core/check.ts';
import type { HistoryRecord, Made } from './core/record.ts';
import { reduce } from './core/reduce.ts';
import { completedJob, ENDPOINT, LINE, made, MadeHistory } from './made-history.ts';

const output = made('x', 'i#0');

function rulesBroken(records: readonly HistoryRecord[]): string[] {
  return [...new Set(check(records).map(({ rule }) => rule))];
}

function refuses(title: string, rule: string, records: () => readonly HistoryRecord[]): void {
  test(`${rule}: refuses ${title}`, (t) => t.deepEqual(rulesBroken(records()), [rule]));
}

function accepts(title: string, records: () => readonly HistoryRecord[]): void {
  test(`accepts ${title}`, (t) => t.deepEqual(check(records()), []));
}

/** Three chunks, executed and seen as the output. */
function streamed(): MadeHistory {
  const history = new MadeHistory().submit('i#0', 'j1').enter('j1', 'i#0', 'x');
  for (const index of [0, 1, 2]) history.add({ kind: 'chunk', execution: 'x', index });
  return history.exit('x');
}
const chunks = (...indexes: number[]): Made[] => indexes.map((index) => made('x', 'i#0', index));

accepts('a job that is submitted, executed, seen and delivered', () => completedJob().end().records);
accepts('a job without an end in a history that was cut off', () => new MadeHistory().submit('i#0', 'j1').records);
accepts('a submission without a key whose answer is lost, and that is a job all the same', () => {
  const history = new MadeHistory().fault(1);
  const call = history.leave('run', { input: 'i#0' });
  return history.add({ kind: 'lost', call, reason: 'reset', timedOut: false }).enter('j1', 'i#0', 'x').exit('x').heal(1).end().records;
});
accepts(
  'a failed job that is retried',
  () =>
    new MadeHistory()
      .submit('i#0', 'j1')
      .enter('j1', 'i#0', 'x')
      .exit('x', 'failed')
      .see('j1', { status: 'FAILED', error: 'fails on purpose in x' })
      .add({ kind: 'call', call: 50, operation: 'retry', endpoint: ENDPOINT, via: 'gateway-1', job: 'j1' })
      .add({ kind: 'return', call: 50, status: 200, job: { id: 'j1', status: 'IN_QUEUE', rest: '{}' } })
      .enter('j1', 'i#0', 'y')
      .exit('y')
      .see('j1', { output: made('y', 'i#0') })
      .end().records,
);
accepts(
  'a second execution after a fault',
  () =>
    new MadeHistory()
      .submit('i#0', 'j1')
      .enter('j1', 'i#0', 'w')
      .fault(1)
      .heal(1)
      .enter('j1', 'i#0', 'x', 2)
      .exit('x')
      .see('j1', { output })
      .end().records,
);
accepts('a job that is gone after its retention', () => completedJob().later(2_000_000).refused('status', 'j1', 404).end().records);

const LOST = 'nothing acknowledged is lost';
refuses(
  'an acknowledged job that never ends',
  LOST,
  () => new MadeHistory().submit('i#0', 'j1').see('j1', { status: 'IN_QUEUE' }).end().records,
);
refuses('an acknowledged job that was never seen again', LOST, () => new MadeHistory().submit('i#0', 'j1').end().records);
refuses('a job that is not found before its retention is over', LOST, () => completedJob().refused('status', 'j1', 404).end().records);

const OUTPUT = 'one output, of its own';
refuses(
  'the output of another job',
  OUTPUT,
  () => completedJob().submit('i2#0', 'j2').enter('j2', 'i2#0', 'y').exit('y').see('j2', { output }).end().records,
);
refuses('an output that no handler made', OUTPUT, () => completedJob().records.filter((record) => record.kind !== 'enter'));
refuses('the output of an execution that never returned', OUTPUT, () => completedJob().records.filter((record) => record.kind !== 'exit'));
refuses(
  'an output with other bytes',
  OUTPUT,
  () =>
    new MadeHistory()
      .submit('i#0', 'j1')
      .enter('j1', 'i#0', 'x')
      .exit('x')
      .see('j1', { output: { ...output, intact: false } })
      .end().records,
);
refuses(
  'an output that lacks a chunk',
  OUTPUT,
  () =>
    streamed()
      .see('j1', { output: chunks(0, 1) })
      .end().records,
);
refuses(
  'two executions recorded, one seen by clients and one by the receiver',
  OUTPUT,
  () =>
    new MadeHistory()
      .submit('i#0', 'j1', { webhook: true })
      .fault(1)
      .enter('j1', 'i#0', 'x')
      .enter('j1', 'i#0', 'y', 2)
      .heal(1)
      .exit('x')
      .exit('y')
      .see('j1', { output })
      .webhook('j1_2', 'j1', 'i#0', { output: made('y', 'i#0') }).records,
);

const FINAL = 'terminal is final';
refuses(
  'a completed job that is in the queue again',
  FINAL,
  () => completedJob().see('j1', { status: 'IN_QUEUE' }).see('j1', { output }).end().records,
);
refuses('an end whose document changes', FINAL, () => completedJob().see('j1', { output, rest: '{"executionTime":7}' }).end().records);
refuses(
  'a cancellation of a job whose end was seen',
  FINAL,
  () =>
    new MadeHistory()
      .submit('i#0', 'j1')
      .enter('j1', 'i#0', 'x')
      .exit('x', 'failed')
      .see('j1', { status: 'FAILED', error: 'fails on purpose in x' })
      .add({ kind: 'call', call: 50, operation: 'cancel', endpoint: ENDPOINT, via: 'gateway-1', job: 'j1' })
      .add({ kind: 'return', call: 50, status: 200, job: { id: 'j1', status: 'CANCELLED', rest: '{}' } }).records,
);
refuses(
  'a retry of a failed job that is refused',
  FINAL,
  () =>
    new MadeHistory()
      .submit('i#0', 'j1')
      .enter('j1', 'i#0', 'x')
      .exit('x', 'failed')
      .see('j1', { status: 'FAILED', error: 'fails on purpose in x' })
      .refused('retry', 'j1', 409)
      .end().records,
);
refuses(
  'a job that runs on after a cancellation was refused because it had ended',
  FINAL,
  () => new MadeHistory().submit('i#0', 'j1').refused('cancel', 'j1', 409).see('j1', { status: 'IN_PROGRESS' }).records,
);

test('cancelled is never completed: refuses a cancelled job that is completed later', (t) => {
  const history = new MadeHistory().submit('i#0', 'j1').enter('j1', 'i#0', 'x').exit('x');
  const call = history.leave('cancel', { job: 'j1' });
  history.add({ kind: 'return', call, status: 200, job: { id: 'j1', status: 'CANCELLED', rest: '{}' } }).see('j1', { output });
  t.deepEqual(rulesBroken(history.records), [FINAL, 'cancelled is never completed']);
});
refuses('a cancelled job whose webhook says COMPLETED', 'cancelled is never completed', () => {
  const history = new MadeHistory().submit('i#0', 'j1', { webhook: true }).enter('j1', 'i#0', 'x').exit('x');
  const call = history.leave('cancel', { job: 'j1' });
  history.add({ kind: 'return', call, status: 200, job: { id: 'j1', status: 'CANCELLED', rest: '{}' } });
  return history.webhook('j1_1', 'j1', 'i#0', { output }).records;
});

const KEY = 'one job per key';
refuses(
  'two jobs of one key',
  KEY,
  () =>
    completedJob()
      .submit('i#0', 'j2', { key: 'k' })
      .see('j2', { output: undefined, status: 'IN_QUEUE' } as object).records,
);
refuses('one job of two inputs', KEY, () => completedJob().submit('other#0', 'j1').records);
refuses('an input that a handler got under two ids', KEY, () => completedJob().enter('j2', 'i#0', 'y').records);
refuses(
  'a key that is accepted again with another body',
  KEY,
  () => completedJob().submit('i#0', 'j1', { key: 'k', conflicting: true }).records,
);

const CHUNKS = 'chunks in order';
accepts(
  'a stream read by cursor',
  () =>
    streamed()
      .read('j1', chunks(0, 1), 'IN_PROGRESS', '0.0')
      .read('j1', chunks(2), 'COMPLETED', '1.2')
      .see('j1', { output: chunks(0, 1, 2) })
      .end().records,
);
accepts('a chunk that is missing after a lost answer to a reader without a cursor', () => {
  const history = streamed().read('j1', chunks(0), 'IN_PROGRESS').fault(1);
  const call = history.leave('stream', { job: 'j1' });
  history.add({ kind: 'lost', call, reason: 'reset', timedOut: false }).heal(1).read('j1', chunks(2), 'COMPLETED');
  return history.see('j1', { output: chunks(0, 1, 2) }).end().records;
});
refuses('a gap', CHUNKS, () => streamed().read('j1', chunks(0, 2), 'IN_PROGRESS').records);
refuses('chunks in another order', CHUNKS, () => streamed().read('j1', chunks(1, 0), 'IN_PROGRESS', '0.0').records);
refuses(
  'a chunk that a reader by cursor sees twice',
  CHUNKS,
  () => streamed().read('j1', chunks(0), 'IN_PROGRESS', '0.0').read('j1', chunks(0, 1), 'IN_PROGRESS', '1.1').records,
);
refuses('a chunk that was never yielded', CHUNKS, () => streamed().read('j1', chunks(0, 1, 2, 3), 'IN_PROGRESS', '0.0').records);
refuses(
  'a stream by cursor that ends before its last chunk',
  CHUNKS,
  () =>
    streamed()
      .read('j1', chunks(0, 1), 'COMPLETED', '0.0')
      .see('j1', { output: chunks(0, 1, 2) })
      .end().records,
);

const WEBHOOK = 'webhooks at least once and alike';
accepts('a webhook that comes twice', () => completedJob().webhook('j1_1', 'j1', 'i#0', { output }).end().records);
refuses('an end without its webhook', WEBHOOK, () =>
  completedJob()
    .end()
    .records.filter((record) => record.kind !== 'webhook'),
);
refuses('a webhook that nobody accepted, tried once', WEBHOOK, () =>
  completedJob()
    .end()
    .change('webhook', () => true, { answer: 503 }),
);
refuses('a repeated webhook with another payload', WEBHOOK, () => completedJob().webhook('j1_1', 'j1', 'i#0', { output }, 'other').records);
refuses('two webhooks for one end', WEBHOOK, () => completedJob().webhook('j1_2', 'j1', 'i#0', { output }).records);
refuses('a webhook with a wrong signature', WEBHOOK, () =>
  completedJob()
    .end()
    .change('webhook', () => true, { signed: false }),
);
refuses('a webhook that says another end than the clients see', WEBHOOK, () =>
  completedJob()
    .end()
    .change('webhook', () => true, { job: { id: 'j1', status: 'FAILED', error: 'lost', rest: '{}' } }),
);

/** A submission without a response whose job was purged before a handler saw it. */
function purgedUnseen(input: string, isRequested: boolean): MadeHistory {
  const history = new MadeHistory().fault(1);
  const call = history.leave('run', { input, webhook: isRequested });
  return history
    .add({ kind: 'lost', call, reason: 'other side closed', timedOut: false })
    .heal(1)
    .webhook('j1_1', 'j1', 'i#0', { status: 'CANCELLED', error: 'purged from the queue' })
    .end();
}
accepts('the webhook of a job whose acknowledgement was lost and that no handler saw', () => purgedUnseen('i#0', true).records);
refuses('the same, of a submission that requested none', WEBHOOK, () => purgedUnseen('i#0', false).records);
refuses('the same, with an input that nobody submitted', WEBHOOK, () => purgedUnseen('other#0', true).records);
refuses('a webhook that nobody requested', WEBHOOK, () =>
  completedJob()
    .end()
    .change('call', () => true, { webhook: false }),
);

const ATTEMPTS = 'attempts are bounded';
refuses(
  'a second execution without a fault',
  ATTEMPTS,
  () => new MadeHistory().submit('i#0', 'j1').enter('j1', 'i#0', 'w').enter('j1', 'i#0', 'x').exit('x').see('j1', { output }).end().records,
);
refuses('more executions than attempts and faults allow', ATTEMPTS, () => {
  const history = new MadeHistory().submit('i#0', 'j1').fault(1);
  for (const execution of ['u', 'v', 'w', 'x']) history.enter('j1', 'i#0', execution);
  return history.exit('x').heal(1).see('j1', { output }).end().records;
});
refuses('an attempt beyond the last', ATTEMPTS, () =>
  completedJob()
    .end()
    .change('enter', () => true, { attempt: 3 }),
);
refuses(
  'a document that tells of too many retries',
  ATTEMPTS,
  () => new MadeHistory().submit('i#0', 'j1').enter('j1', 'i#0', 'x').exit('x').see('j1', { output, retries: 2 }).end().records,
);

/** Two jobs of the endpoint that promises order; the second starts first. */
function overtaking(): MadeHistory {
  return new MadeHistory()
    .submit('a#0', 'j1', { endpoint: LINE })
    .submit('b#0', 'j2', { endpoint: LINE })
    .enter('j2', 'b#0', 'y')
    .exit('y')
    .enter('j1', 'a#0', 'x')
    .exit('x')
    .see('j1', { output: made('x', 'a#0') }, { endpoint: LINE })
    .see('j2', { output: made('y', 'b#0') }, { endpoint: LINE });
}
refuses('a job that overtakes another', 'first in, first out', () => overtaking().end().records);
accepts('a job that overtakes another beside a fault', () => {
  const history = overtaking();
  return [...history.records, { kind: 'fault', at: 2, number: 1, fault: 'kill', target: 'agent' }, { kind: 'healed', at: 3, number: 1 }];
});
accepts('an order that is not promised', () =>
  overtaking()
    .end()
    .change('call', () => true, { endpoint: ENDPOINT }),
);
accepts('two submissions at the same time in either order', () => {
  const history = overtaking();
  // The first one's acknowledgement comes after the second was submitted.
  return history.change('return', ({ job }) => job?.status === 'IN_QUEUE' && job.id === 'j1', { at: 3.5 });
});

const CAUSE = 'every end has a cause';
refuses(
  'a cancellation that nobody asked for',
  CAUSE,
  () => new MadeHistory().submit('i#0', 'j1').see('j1', { status: 'CANCELLED' }).end().records,
);
refuses(
  'a failure of which the handler knows nothing',
  CAUSE,
  () => completedJobUntil().see('j1', { status: 'FAILED', error: 'fails on purpose in x' }).end().records,
);
refuses(
  'lost workers without a fault',
  CAUSE,
  () => completedJobUntil().see('j1', { status: 'FAILED', error: 'worker lost' }).end().records,
);
refuses(
  'a time-out before its time',
  CAUSE,
  () =>
    new MadeHistory().submit('i#0', 'j1', { timeoutMs: 5_000 }).enter('j1', 'i#0', 'x').see('j1', { status: 'TIMED_OUT' }).end().records,
);

function completedJobUntil(): MadeHistory {
  return new MadeHistory().submit('i#0', 'j1').enter('j1', 'i#0', 'x').exit('x');
}

const REASON = 'every answer has a reason';
refuses('a 400 for a right request', REASON, () => completedJob().refused('status', 'j1', 400).end().records);
refuses('a 503 without a fault', REASON, () => completedJob().refused('status', 'j1', 503).end().records);
accepts('a 503 during a fault', () => completedJob().fault(1).refused('status', 'j1', 503).heal(1).end().records);
refuses(
  'a part that ends by itself',
  'parts stay up',
  () => completedJob().add({ kind: 'crash', part: 'gateway', how: 'exit code 1' }).end().records,
);
refuses('a fault without an end', 'every fault heals', () => completedJob().fault(1).end().records);
accepts('a fault without an end in a history that was cut off', () => completedJob().fault(1).records);

test('the least history holds the job of the violation and what the violation needs', (t) => {
  const history = completedJob();
  history
    .submit('i2#0', 'j2')
    .enter('j2', 'i2#0', 'y')
    .exit('y')
    .see('j2', { output: made('y', 'i2#0') });
  history.fault(1).heal(1).see('j2', { status: 'IN_QUEUE' }).see('j1', { output }).end();
  const records = history.records;
  const [violation] = check(records).filter(({ rule }) => rule === FINAL);
  const least = reduce(records, violation!);
  t.deepEqual(
    least.records.map(({ kind }) => kind),
    ['settings', 'enter', 'exit', 'call', 'return', 'call', 'return', 'end'],
  );
  t.deepEqual(least.violation, violation);
});

test('a reduced history is sorted by time, whatever the order it was read in', (t) => {
  const records = completedJob().see('j1', { status: 'IN_QUEUE' }).end().records;
  const least = reduce(records.toReversed(), check(records)[0]!).records;
  t.deepEqual(
    least,
    least.toSorted((a, b) => a.at - b.at),
  );
});
