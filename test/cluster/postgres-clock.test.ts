/** Owners of one queue share the database's clock: one whose host's clock is wrong ends and deletes nothing early. */
import test from 'ava';

import { JobKind, JobState } from '../../proto/gen/capstan/v1/common.ts';
import type { JobReply, Submit } from '../../proto/gen/capstan/v1/jobs.ts';
import type { PostgresServer } from '../support/postgres.ts';
import { withPostgres } from '../support/with-postgres.ts';
import { schedulersOn, statusOf } from '../support/schedulers.ts';

const HOUR = 3_600_000;

await withPostgres('clock', tests);

function tests(server: PostgresServer): void {
  test('a standby whose host runs an hour fast takes over, and jobs that have half an hour left stay', async (t) => {
    const { owner, standby: another } = await schedulersOn(t, server);
    const { endpoints } = await owner.deploy([{ name: 'echo' }]);
    const endpoint = endpoints[0]?.id ?? '';
    t.is(stateOf(await owner.channel().ask(endpoint, submit('kept', HOUR / 2))), JobState.IN_QUEUE);

    // The host's clock, as everything in this process reads it from now on.
    const right = Date.now;
    Date.now = () => right() + HOUR;
    t.teardown(() => (Date.now = right));
    const standby = await another();
    await owner.handle.close();
    await statusOf(standby, 'owner');
    const channel = standby.channel();
    const isThere = async (jobId: string): Promise<boolean> => {
      const { result } = await channel.ask(endpoint, { $case: 'get', value: { jobId, waitMs: 0 } });
      return result?.$case === 'job';
    };
    t.true(await isThere('kept'));
    // When one is gone whose time is over, the next owner has looked for such jobs.
    await channel.ask(endpoint, submit('short', 1));
    while (await isThere('short'));
    t.true(await isThere('kept'));
  });
}

function submit(jobId: string, ttlMs: number): { $case: 'submit'; value: Submit } {
  const input = { body: { $case: 'inline', value: Buffer.from('{"n":1}') } } as const;
  const policy = { ttlMs, lowPriority: false };
  return {
    $case: 'submit',
    value: { jobId, kind: JobKind.RUN, input, policy, webhook: '', idempotencyKey: '', bodyHash: Buffer.alloc(0), waitMs: 0 },
  };
}

function stateOf({ result }: JobReply): JobState | null {
  return result?.$case === 'job' ? result.value.state : null;
}
