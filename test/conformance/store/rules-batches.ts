/** Operations on the same row in one batch: each finds what those before it left. */
import test from 'ava';

import type { Op, Outcome } from '../../../scheduler/core/ports/store.ts';
import { completed, failed, given, idOf, leaseOf, outcomes, queued, shownWhole, START, submit, TTL } from './jobs.ts';
import type { Use } from './use.ts';

const other = { node: 'node-b', incarnation: 'incarnation-2', worker: 'worker-2' };
const ended = { endedAt: START + 5_000, deleteAt: START + 6_000, output: null };

/** Operations on a job by its number. Times do not depend on it, so that two jobs can be compared. */
function opsOn(seq: number) {
  return {
    lease: leaseOf(seq),
    leaseAgain: leaseOf(seq, 2, other),
    leaseRetried: leaseOf(seq, 3, other),
    started: { kind: 'started', seq, token: 1, startedAt: START + 700, attempts: 1, delayMs: 699 },
    startedLater: { kind: 'started', seq, token: 1, startedAt: START + 800, attempts: 1, delayMs: 799 },
    startedAgain: { kind: 'started', seq, token: 2, startedAt: START + 900, attempts: 2, delayMs: 899 },
    complete: completed(seq, ended),
    fail: failed(seq, ended),
    requeue: { kind: 'requeue', seq, token: 1, attempts: 1, pastAttempts: null },
    retry: { kind: 'retry', seq, queuePosition: 900 + seq, submittedAt: START + 9_000, deleteAt: START + 99_000, pastAttempts: null },
    delete: { kind: 'delete', seq, dueBy: null },
  } as const satisfies Record<string, Op>;
}

type Name = keyof ReturnType<typeof opsOn>;

/** What is done to a job before, then two or three operations with their outcomes. */
const sequences: readonly (readonly [before: readonly Name[], ops: readonly Name[], outcomes: readonly Outcome['kind'][]])[] = [
  [[], ['lease', 'started'], ['ok', 'ok']],
  [[], ['lease', 'started', 'complete'], ['ok', 'ok', 'ok']],
  [[], ['lease', 'requeue', 'leaseAgain'], ['ok', 'ok', 'ok']],
  [
    ['lease', 'started'],
    ['requeue', 'leaseAgain'],
    ['ok', 'ok'],
  ],
  [
    ['lease', 'started'],
    ['requeue', 'leaseAgain', 'startedAgain'],
    ['ok', 'ok', 'ok'],
  ],
  [
    ['lease', 'started'],
    ['requeue', 'complete'],
    ['ok', 'stale'],
  ],
  [
    ['lease', 'started'],
    ['complete', 'started'],
    ['ok', 'stale'],
  ],
  [
    ['lease', 'started'],
    ['fail', 'complete'],
    ['ok', 'stale'],
  ],
  [
    ['lease', 'started'],
    ['fail', 'retry', 'leaseRetried'],
    ['ok', 'ok', 'ok'],
  ],
  [
    ['lease', 'started'],
    ['complete', 'delete', 'requeue'],
    ['ok', 'ok', 'gone'],
  ],
  [['lease'], ['started', 'startedLater'], ['ok', 'ok']],
];

export function batchRules(name: string, use: Use): void {
  test.serial(`${name}: operations on one job in one batch do what they do in a batch each`, async (t) => {
    const { store, fence } = await use(t);
    const job = async (seq: number): Promise<unknown> => {
      const whole = await store.read('job', 'endpoint-a', idOf(seq));
      return whole === null ? null : shownWhole({ ...whole, job: { ...whole.job, seq: 0, id: '', queuePosition: 0 } });
    };
    for (const [i, [before, names, expected]] of sequences.entries()) {
      const [together, apart] = [2 * i + 1, 2 * i + 2];
      for (const seq of [together, apart]) {
        await given(store, fence, submit(queued(seq, { submittedAt: START, deleteAt: START + TTL })));
        for (const each of before) await given(store, fence, opsOn(seq)[each]);
      }
      const answers: Outcome['kind'][] = [];
      for (const each of names) answers.push(...(await outcomes(store, fence, opsOn(apart)[each])));
      t.deepEqual(answers, [...expected], `a batch each: ${names.join(', ')}`);
      t.deepEqual(
        await outcomes(store, fence, ...names.map((each) => opsOn(together)[each])),
        [...expected],
        `one batch: ${names.join(', ')}`,
      );
      t.deepEqual(await job(together), await job(apart), names.join(', '));
    }
  });

  test.serial(`${name}: of two values of one setting in one batch the later one stays`, async (t) => {
    const { store, fence } = await use(t);
    const put = (version: number) => ({ kind: 'put', rowKind: 'setting', key: 'k', version, value: String(version) }) as const;
    t.deepEqual(await outcomes(store, fence, put(1), put(2), put(3)), ['ok', 'ok', 'ok']);
    t.like((await store.read('control', 'setting', '', 10))[0], { version: 3, value: '3' });
  });
}
