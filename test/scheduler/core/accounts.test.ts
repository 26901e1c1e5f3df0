/** What reaches the core for an account that was deleted a moment ago (scheduler/core/control/delete-account.ts). */
import test from 'ava';

import { CapstanError } from '../../../lib/errors.ts';
import { KeyScope } from '../../../proto/gen/capstan/v1/control.ts';
import { keyDefaults } from '../../../scheduler/core/control/keys.ts';
import { INLINE_OVERHEAD_BYTES } from '../../../scheduler/core/jobs/body-use.ts';
import { MAX_PAYLOAD_OVERHEAD } from '../../../scheduler/store/payload-codec.ts';
import { queueInput } from '../../support/endpoint-input.ts';
import { FleetWorld } from './fleet-world.ts';

test('no command that was under way puts anything into a deleted account', (t) => {
  const world = new FleetWorld();
  world.node('a');
  const [endpoint = ''] = world.deploy(queueInput('echo', { workersMin: 1 }));
  const job = world.submit(endpoint);
  world.settle();
  const key = { ...keyDefaults, hash: 'k', account: 'acc', scope: KeyScope.ALL, endpoints: [], name: 'k' };
  world.command({ kind: 'put-key', key });
  const code = (answer: unknown): string => (answer instanceof CapstanError ? answer.code : 'done');
  t.is(code(world.command({ kind: 'delete-account', account: 'acc', force: false, stopJobs: false })), 'CONFLICT');
  t.is(code(world.command({ kind: 'delete-account', account: 'acc', force: true, stopJobs: false })), 'done');
  const late = [
    { kind: 'put-key', key: { ...key, hash: 'late' } },
    { kind: 'deploy', account: 'acc', environment: 'default', build: '', endpoints: [queueInput('late', {})] },
    { kind: 'create-environment', account: 'acc', environment: 'late' },
    { kind: 'put-build', account: 'acc', digest: 'd', size: 1 },
    { kind: 'delete-account', account: 'acc', force: true, stopJobs: false },
  ] as const;
  for (const command of late) t.is(code(world.command(command)), 'NOT_FOUND', command.kind);
  t.is(code(world.command({ kind: 'put-account', account: 'acc', quotas: {}, create: true })), 'ALREADY_EXISTS');
  t.deepEqual([world.image.keys.size, world.image.environments.size], [0, 0]);
  // Its last webhooks are signed nevertheless, and its running job goes on to its end.
  t.is(code(world.command({ kind: 'put-webhook-secret', account: 'acc', encrypted: 's' })), 'done');
  t.true(world.image.accounts.get('acc')?.deletedAt !== undefined);
  t.true(world.image.endpoints.has(endpoint));
  world.complete(job);
  world.settle();
  t.deepEqual([world.image.endpoints.size, world.image.deployments.size], [0, 0]);
});

test('with stopJobs the deletion also ends the jobs of endpoints whose removal began earlier', (t) => {
  const world = new FleetWorld();
  world.node('a');
  const [endpoint = ''] = world.deploy(queueInput('echo', { workersMin: 1 }));
  world.submit(endpoint);
  world.settle();
  world.command({ kind: 'put-key', key: { ...keyDefaults, hash: 'k', account: 'acc', scope: KeyScope.ALL, endpoints: [], name: 'k' } });
  world.command({ kind: 'undeploy', account: 'acc', endpoints: [endpoint], stopJobs: false });
  world.settle();
  t.is(world.image.jobs.size, 1);
  world.command({ kind: 'delete-account', account: 'acc', force: false, stopJobs: true });
  world.settle();
  t.is([...world.image.jobs.values()].filter(({ lease }) => lease !== null).length, 0);
});

test('the core reserves the most that a store adds to a body', (t) => {
  t.is(INLINE_OVERHEAD_BYTES, MAX_PAYLOAD_OVERHEAD);
});
