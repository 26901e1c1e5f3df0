/** What is read for the incidents of all accounts, and for those of one (scheduler/incidents/incident-reader.ts). */
import test from 'ava';

import { NO_FIGURES } from '../../../scheduler/incidents/figures.ts';
import { keyOf } from '../../../scheduler/incidents/incident.ts';
import { IncidentReader } from '../../../scheduler/incidents/incident-reader.ts';
import type { DeliveryHead } from '../../../scheduler/core/ports/store.ts';
import { queueInput } from '../../support/endpoint-input.ts';
import { FleetWorld } from '../core/fleet-world.ts';

test('the incidents of all accounts are those of each, and the service is looked at once for all', async (t) => {
  const world = new FleetWorld();
  world.command({ kind: 'put-account', account: 'default', quotas: {}, create: true });
  world.command({ kind: 'put-account', account: 'acc', quotas: { workerQuota: 3 }, create: true });
  const [endpoint = ''] = world.deploy({ ...queueInput('echo', { workersMax: 3 }), gpuIds: 'ANY', gpuCount: 1 });
  world.submit(endpoint);
  const reads: string[] = [];
  const failed = {
    id: 'x',
    account: 'acc',
    endpoint,
    url: 'x',
    host: 'x',
    state: 'FAILED',
    dueAt: 0,
    tries: 3,
    error: 'x',
  } satisfies DeliveryHead;
  const reader = new IncidentReader({
    state: () => world.image,
    now: () => world.now(),
    deliveries: (account) => {
      reads.push(account);
      return Promise.resolve(account === 'acc' ? [failed] : []);
    },
    disk: () => {
      reads.push('disk');
      return Promise.resolve({ space: { free: 1, total: 100 }, minFreePercent: 5 });
    },
    certificates: () => {
      reads.push('certificates');
      return Promise.resolve([]);
    },
    figures: NO_FIGURES,
  });
  const keys = (await reader.all()).map(keyOf);
  t.deepEqual(keys.toSorted(), [
    'DISK_LOW  the scheduler',
    `NO_CAPACITY ${endpoint}`,
    'QUOTA_NEARLY_USED acc account acc',
    `WEBHOOKS_FAILING ${endpoint}`,
  ]);
  t.deepEqual(reads.toSorted(), ['acc', 'certificates', 'default', 'disk']);
  reads.length = 0;
  await reader.of({ account: 'acc', operator: false });
  t.deepEqual(reads, ['acc'], 'what only operators are told of is not read for others');
});
