/** All agents return at the same moment while a long queue is due, as after a power cut of a rack or the end of a partition. */
import test from 'ava';

import { JobKind, JobState } from '../../proto/gen/capstan/v1/common.ts';
import type { Submit } from '../../proto/gen/capstan/v1/jobs.ts';
import { AttemptEnded, AttemptOutcome } from '../../proto/gen/capstan/v1/nodes.ts';
import { TestScheduler, type TestSession } from '../support/scheduler-client.ts';

const NODES = 100;
const JOBS = 500;

function submit(jobId: string): { $case: 'submit'; value: Submit } {
  const input = { body: { $case: 'inline', value: Buffer.from('{}') } } as const;
  return {
    $case: 'submit',
    value: { jobId, kind: JobKind.RUN, input, webhook: '', idempotencyKey: '', bodyHash: Buffer.alloc(0), waitMs: 0 },
  };
}

/** Runs what the scheduler dispatches until the session ends. */
async function work(session: TestSession, executions: Map<string, number>): Promise<void> {
  for (;;) {
    const { jobId, token } = await session.take('dispatch');
    executions.set(jobId, (executions.get(jobId) ?? 0) + 1);
    const output = { body: { $case: 'inline', value: Buffer.from('1') } } as const;
    session.send(
      { $case: 'started', value: { jobId, token, agoMs: 0 } },
      { $case: 'ended', value: AttemptEnded.fromPartial({ jobId, token, outcome: AttemptOutcome.COMPLETED, output, started: true }) },
    );
  }
}

/** Sets desired workers up as they come, until the session ends. */
async function converge(session: TestSession): Promise<void> {
  for (;;) await session.bringUp();
}

test(`${NODES} agents that connect at once take ${JOBS} waiting jobs: each runs once, no session breaks`, async (t) => {
  const scheduler = await TestScheduler.open({ workerQuota: NODES });
  t.teardown(() => scheduler.close());
  const { endpoints } = await scheduler.deploy([{ name: 'echo', workersMin: NODES, workersMax: NODES }]);
  const endpoint = endpoints[0]?.id ?? '';
  const channel = scheduler.channel();
  const ids = Array.from({ length: JOBS }, (_, n) => `job-${n}`);
  // An endpoint takes 200 submissions at a time.
  for (let n = 0; n < JOBS; n += 100) await Promise.all(ids.slice(n, n + 100).map((id) => channel.ask(endpoint, submit(id))));
  const nodes = await Promise.all(Array.from({ length: NODES }, (_, n) => scheduler.join(`host-${n}`)));

  const executions = new Map<string, number>();
  const broken: unknown[] = [];
  const sessions = nodes.map((node) => node.session());
  t.teardown(() => {
    for (const session of sessions) session.close();
  });
  for (const session of sessions) {
    void session.ended.then((error) => broken.push(error));
    void converge(session);
    void work(session, executions);
  }
  const states = new Set<JobState | undefined>();
  for (const jobId of ids) {
    const { result } = await channel.ask(endpoint, { $case: 'get', value: { jobId, waitMs: 60_000 } });
    states.add(result?.$case === 'job' ? result.value.state : undefined);
  }
  t.deepEqual(states, new Set([JobState.COMPLETED]));
  t.is(executions.size, JOBS);
  t.deepEqual(new Set(executions.values()), new Set([1]));
  t.deepEqual(broken, []);
});
