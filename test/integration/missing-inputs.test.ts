/** A job whose input nobody finds in the blob store fails, with the reason; one refusal or a store that is away changes nothing. */
import test from 'ava';

import { JobKind, JobState } from '../../proto/gen/capstan/v1/common.ts';
import { Submit, type JobReply } from '../../proto/gen/capstan/v1/jobs.ts';
import { RefusalReason } from '../../proto/gen/capstan/v1/nodes.ts';
import { LOST_AFTER_MS, LOST_AFTER_REFUSALS, missingInput } from '../../scheduler/core/jobs/missing-inputs.ts';
import { defaultSettings } from '../../scheduler/core/settings.ts';
import { newState } from '../../scheduler/core/state.ts';
import type { JobRecord } from '../../scheduler/core/state/jobs.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { TestScheduler } from '../support/scheduler-client.ts';

const stateOf = ({ result }: JobReply): JobState | null => (result?.$case === 'job' ? result.value.state : null);

test('an input that agents do not find again and again is lost, and its job fails', async (t) => {
  const clock = new ManualClock();
  const scheduler = await TestScheduler.open({}, { clock });
  t.teardown(() => scheduler.close());
  const { endpoints } = await scheduler.deploy([{ name: 'echo', workersMin: 1, workersMax: 1 }]);
  const endpoint = endpoints[0]?.id ?? '';
  const session = (await scheduler.join('n')).session();
  await session.take('welcome');
  await session.bringUp();
  const channel = scheduler.channel();
  const input = { body: { $case: 'inline', value: Buffer.from('1') } } as const;
  const value = Submit.fromPartial({ jobId: 'j', kind: JobKind.RUN, input, waitMs: 0 });
  await channel.ask(endpoint, { $case: 'submit', value });

  const state = async (): Promise<JobState | null> =>
    stateOf(await channel.ask(endpoint, { $case: 'get', value: { jobId: 'j', waitMs: 0 } }));
  /** Refuses what is dispatched, while time goes on. */
  const refuse = async (reason: RefusalReason): Promise<void> => {
    const dispatched = session.take('dispatch');
    for (;;) {
      const isDispatched = await Promise.race([dispatched.then(() => true), state().then(() => false)]);
      if (isDispatched) break;
      if ((await state()) === JobState.FAILED) return;
      clock.advance(LOST_AFTER_MS / LOST_AFTER_REFUSALS);
    }
    const { jobId, token } = await dispatched;
    session.send({ $case: 'refused', value: { jobId, token, reason, detail: 'it is not in the blob store' } });
  };
  // A store that is away is waited for, however often.
  for (let i = 0; i < 2 * LOST_AFTER_REFUSALS; i++) await refuse(RefusalReason.INPUT_UNAVAILABLE);
  t.not(await state(), JobState.FAILED);
  while ((await state()) !== JobState.FAILED) await refuse(RefusalReason.INPUT_MISSING);
  const reply = await channel.ask(endpoint, { $case: 'get', value: { jobId: 'j', waitMs: 0 } });
  const error = reply.result?.$case === 'job' ? reply.result.value.error : undefined;
  t.regex(error ?? '', /^the input is not in the blob store: agents looked for it \d+ times$/);
});

test('neither many refusals at once nor few over a long time are enough', (t) => {
  const state = newState(defaultSettings, [1, 2, 3, 4]);
  const job = { id: 'j' } as JobRecord;
  const count = (times: number, at: number): unknown[] => Array.from({ length: times }, () => missingInput(state, job, at));
  t.true(count(3 * LOST_AFTER_REFUSALS, 0).every((lost) => lost === null));
  t.like(missingInput(state, job, LOST_AFTER_MS), { code: 'NOT_FOUND' });
  t.is(state.missingInputs.size, 0, 'a job that is tried again is counted anew');
  t.true(count(LOST_AFTER_REFUSALS - 1, 0).every((lost) => lost === null));
  t.like(missingInput(state, job, LOST_AFTER_MS), { code: 'NOT_FOUND' });
  for (let i = 0; i < 5_000; i++) missingInput(state, { id: `j${i}` } as JobRecord, 0);
  t.is(state.missingInputs.size, 1_000, 'hostile agents fill no memory');
});
