/** An endpoint that is deleted takes nothing more (scheduler/core/control/undeploy.ts, scheduler/core/jobs/submit.ts). */
import test from 'ava';

import { queueInput } from '../../support/endpoint-input.ts';
import { FleetWorld } from './fleet-world.ts';

test('a submission that is sent again and looked up while its endpoint is deleted is refused', (t) => {
  const world = new FleetWorld();
  const [endpoint = ''] = world.deploy(queueInput('echo', {}));
  const ref = { channel: 1, request: 7 };
  world.event({
    kind: 'submit',
    ref,
    counting: { limitedAs: 'run', resent: true },
    endpoint,
    job: 'job-1',
    jobKind: 'RUN',
    input: { inline: Buffer.from('{}') },
    webhook: null,
    trace: null,
    tags: null,
    policy: { executionTimeoutMs: null, ttlMs: null, lowPriority: false },
    s3: null,
    idempotency: null,
    waitMs: 0,
  });
  const read = world.effects.find(({ kind: effect }) => effect === 'read-job');
  if (read?.kind !== 'read-job') throw new Error('it was not looked up');
  world.command({ kind: 'undeploy', account: 'acc', endpoints: [endpoint], stopJobs: false });
  world.event({ kind: 'job-read', purpose: read.purpose, found: null });
  const answer = world.effects.find((effect) => effect.kind === 'reply' && effect.reply.requestId === 7);
  if (answer?.kind !== 'reply' || answer.reply.result?.$case !== 'failure') throw new Error('it was not refused');
  t.like(answer.reply.result.value, { code: 'NOT_FOUND', message: `endpoint ${endpoint} does not exist` });
  t.false(world.image.jobs.has('job-1'));
  t.is(answer.usage?.open, 0, 'it counts as open no more');
});
