/** A wait that ends while the store has not accepted its submission: no reply names a job that may never exist. */
import test, { type ExecutionContext } from 'ava';

import type { Effect } from '../../../scheduler/core/effects.ts';
import { StepResult } from '../../../scheduler/core/effects.ts';
import type { Cause, CoreEvent } from '../../../scheduler/core/events.ts';
import { step } from '../../../scheduler/core/step/step.ts';
import type { Op } from '../../../scheduler/core/ports/store.ts';
import { queueInput } from '../../support/endpoint-input.ts';
import { FleetWorld } from './fleet-world.ts';

const REF = { channel: 1, request: 7 };
const WAIT_MS = 1_000;

interface Submission {
  readonly effects: Effect[];
  readonly handle: (event: CoreEvent) => Effect[];
  readonly pass: (ms: number) => Effect[];
  readonly op: Op;
  readonly cause: Cause | null;
}

/** A submission whose write is still on its way. */
function submitted(t: ExecutionContext): Submission {
  const world = new FleetWorld();
  const [endpoint = ''] = world.deploy(queueInput('e'));
  t.not(endpoint, '');
  let mono = world.now().mono;
  const run = (event: CoreEvent): StepResult => {
    const result = new StepResult();
    step(world.image, event, { wall: 1_700_000_000_000 + mono, mono }, result);
    return result;
  };
  const effectsOf = ({ effects }: StepResult): Effect[] => effects.map(({ effect }) => effect);
  const first = run({
    kind: 'submit',
    ...{ ref: REF, counting: { limitedAs: null, resent: false }, endpoint, job: 'mine', jobKind: 'RUN' },
    ...{ input: { inline: Buffer.from('{}') }, webhook: null, trace: null, tags: null, s3: null, waitMs: WAIT_MS },
    policy: { executionTimeoutMs: null, ttlMs: null, lowPriority: false },
    idempotency: { key: `${endpoint}/k`, bodyHash: Buffer.alloc(32) },
  });
  const [write] = first.writes;
  if (write === undefined) throw new Error('the submission wrote nothing');
  return {
    effects: effectsOf(first),
    handle: (event) => effectsOf(run(event)),
    pass: (ms) => {
      mono += ms;
      return effectsOf(run({ kind: 'tick' }));
    },
    op: write.op,
    cause: write.cause,
  };
}

const repliesOf = (effects: readonly Effect[]) => effects.flatMap((effect) => (effect.kind === 'reply' ? [effect.reply] : []));
const readsOf = (effects: readonly Effect[]) => effects.flatMap((effect) => (effect.kind === 'read-job' ? [effect] : []));

test('the end of the wait reads the job instead of naming it', (t) => {
  const { effects, pass } = submitted(t);
  t.deepEqual(repliesOf(effects), []);
  const over = pass(WAIT_MS + 1);
  t.deepEqual(repliesOf(over), []);
  t.deepEqual(
    readsOf(over).map(({ job }) => job),
    ['mine'],
  );
});

test('once the store has accepted the submission, the reply is the job as it is', (t) => {
  const { pass, handle } = submitted(t);
  const [read] = readsOf(pass(WAIT_MS + 1));
  if (read === undefined) return t.fail();
  // The read returns after the write: the state holds the job.
  const [reply] = repliesOf(handle({ kind: 'job-read', purpose: read.purpose, found: null }));
  t.is(reply?.requestId, REF.request);
  t.is(reply?.result?.$case, 'job');
  t.true(reply?.result?.$case === 'job' && reply.result.value.id === 'mine');
});

test('a key of another job: the reply names that job, and the read of the refused one counts for nothing', (t) => {
  const { pass, handle, op, cause } = submitted(t);
  const [read] = readsOf(pass(WAIT_MS + 1));
  if (read === undefined) return t.fail();
  const refused = handle({ kind: 'refused', op, outcome: { kind: 'idempotent-same', jobId: 'theirs' }, cause });
  t.deepEqual(repliesOf(refused), []);
  t.deepEqual(
    readsOf(refused).map(({ job }) => job),
    ['theirs'],
  );
  t.deepEqual(repliesOf(handle({ kind: 'job-read', purpose: read.purpose, found: null })), [], 'the request waits for the other job');
});
