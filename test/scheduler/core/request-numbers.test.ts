/** A gateway that gives two open requests of a channel one number: what counts as open is still counted once for each. */
import test from 'ava';

import { StepResult } from '../../../scheduler/core/effects.ts';
import type { CoreEvent } from '../../../scheduler/core/events.ts';
import type { Usage } from '../../../scheduler/core/state/rate-limits.ts';
import { step } from '../../../scheduler/core/step/step.ts';
import { queueInput } from '../../support/endpoint-input.ts';
import { FleetWorld } from './fleet-world.ts';

test('a repeated submission whose number another request took leaves each request open once', (t) => {
  const world = new FleetWorld();
  const [a = '', b = ''] = world.deploy(queueInput('a'), queueInput('b'));
  const other = world.submit(b);
  const result = new StepResult();
  const happens = (event: CoreEvent): void => step(world.image, event, world.now(), result);
  const ref = { channel: 9, request: 1 };
  const submit: Omit<Extract<CoreEvent, { kind: 'submit' }>, 'ref' | 'idempotency'> = {
    kind: 'submit',
    counting: { limitedAs: 'runsync', resent: false },
    endpoint: a,
    job: 'again',
    jobKind: 'RUNSYNC',
    input: { inline: Buffer.from('{}') },
    webhook: null,
    trace: null,
    tags: null,
    policy: { executionTimeoutMs: null, ttlMs: null, lowPriority: false },
    s3: null,
    waitMs: 60_000,
  };
  happens({ ...submit, ref, idempotency: { key: `${a}/key`, bodyHash: Buffer.from('hash') } });
  happens({ kind: 'get', ref, counting: { limitedAs: 'status', resent: false }, endpoint: b, job: other, waitMs: 60_000 });
  const write = result.writes.find(({ op }) => op.kind === 'submit');
  if (write === undefined) return void t.fail('nothing was submitted');
  happens({ kind: 'refused', op: write.op, outcome: { kind: 'idempotent-same', jobId: 'first' }, cause: write.cause });
  // The waiter of the submission has its usage still, and is answered with the next job of that name.
  happens({ kind: 'abandon', ref });
  happens({ ...submit, ref: { channel: 9, request: 2 }, idempotency: null });
  happens({ kind: 'command', call: 1, command: { kind: 'cancel', endpoint: a, job: 'again' }, audit: null });
  const usages = result.effects.flatMap(({ effect }): Usage[] => (effect.kind === 'reply' && effect.usage !== null ? [effect.usage] : []));
  t.notThrows(() => happens({ kind: 'replied', usages }));
  const open = [a, b].flatMap((id) => [...world.endpoint(id).usage].map(([operation, usage]) => [operation, usage.open]));
  t.deepEqual(open, [
    ['runsync', 0],
    ['status', 0],
  ]);
});
