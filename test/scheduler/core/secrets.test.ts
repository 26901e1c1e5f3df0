/** Secrets: without one no worker starts and nobody makes room; a change rolls the workers that use it. */
import test from 'ava';

import type { CapstanError } from '../../../lib/errors.ts';
import { encryptedRows } from '../../../scheduler/core/control/encryption.ts';
import { MAX_SECRETS } from '../../../scheduler/core/control/secrets.ts';
import { unservable } from '../../../scheduler/core/fleet/unservable.ts';
import { queueReason } from '../../../scheduler/core/jobs/reasons.ts';
import { queueInput } from '../../support/endpoint-input.ts';
import { FleetWorld } from './fleet-world.ts';

const chat = queueInput('chat', { workersMin: 0, workersMax: 4, idleTimeoutS: 60, secretNames: ['TOKEN'] });

function world(): FleetWorld {
  const made = new FleetWorld();
  made.node('a');
  return made;
}

const set = (of: FleetWorld, encrypted: string, environment = '', name = 'TOKEN') =>
  of.command({ kind: 'put-secret', account: 'acc', environment, name, encrypted });
const remove = (of: FleetWorld, environment = '') => of.command({ kind: 'delete-secret', account: 'acc', environment, name: 'TOKEN' });

test('without its secret an endpoint waits with the reason, and starts when it is set', (t) => {
  const fleet = world();
  const [id = ''] = fleet.deploy(chat);
  const job = fleet.submit(id);
  fleet.pass(5_000);
  t.deepEqual(fleet.workers(id), []);
  t.deepEqual(queueReason(fleet.image, fleet.endpoint(id), fleet.now()), {
    reason: 'SECRET_MISSING',
    detail: 'secret TOKEN does not exist; create it with: capstan secret set TOKEN',
  });
  t.is(unservable(fleet.image, fleet.endpoint(id), fleet.now())?.reason, 'a secret that it needs does not exist');
  t.is(fleet.endpoint(id).decisions.length, 1, 'said once, not every second');
  t.deepEqual(set(fleet, 's1'), { kind: 'done' });
  fleet.settle();
  t.true(fleet.running.some((running) => running.job === job));
});

test('nobody makes room for an endpoint whose secret is missing', (t) => {
  const fleet = new FleetWorld();
  fleet.node('a', ['gpu-1']);
  const gpu = { gpuIds: 'ANY', gpuCount: 1 };
  const [idle = ''] = fleet.deploy(queueInput('idle', { workersMax: 1, idleTimeoutS: 600, ...gpu }));
  fleet.submit(idle);
  fleet.settle();
  fleet.complete(fleet.running[0]?.job ?? '');
  const [id = ''] = fleet.deploy({ ...chat, ...gpu });
  fleet.submit(id);
  fleet.pass(60_000);
  t.is(fleet.staying(idle).length, 1);
  set(fleet, 's1');
  fleet.pass(60_000);
  t.is(fleet.staying(idle).length, 0, 'with its secret it gets the room');
});

test('a new value replaces warm workers as a deployment does; those without the secret stay', (t) => {
  const fleet = world();
  set(fleet, 's1');
  const [id = '', other = ''] = fleet.deploy({ ...chat, workersMin: 1 }, queueInput('other', { workersMin: 1 }));
  fleet.settle();
  const before = fleet.endpoint(id).config.release;
  const beforeOther = fleet.endpoint(other).config.release;
  set(fleet, 's2');
  t.not(fleet.endpoint(id).config.release, before);
  t.is(fleet.endpoint(other).config.release, beforeOther);
  t.is(fleet.staying(id).filter(({ release }) => release !== before).length, 1);
  fleet.settle();
  t.deepEqual(
    fleet.workers(id).map(({ release }) => release),
    [fleet.endpoint(id).config.release],
  );
  fleet.restart();
  t.is(fleet.image.secrets.get('acc//TOKEN')?.sealed, 's2');
  t.deepEqual(fleet.image.releases.get(fleet.endpoint(id).config.release)?.secrets, { TOKEN: 2 });
});

test('many changes leave no releases behind', (t) => {
  const fleet = world();
  set(fleet, 's1');
  fleet.deploy({ ...chat, workersMin: 1 });
  fleet.settle();
  for (let i = 0; i < 20; i++) set(fleet, `s${i}`);
  fleet.settle();
  fleet.pass(120_000);
  set(fleet, 'last');
  fleet.settle();
  t.true(fleet.image.releases.size <= 3, String(fleet.image.releases.size));
});

test("an environment's secret goes before the account's, and its deletion falls back", (t) => {
  const fleet = world();
  set(fleet, 'account');
  const [id = ''] = fleet.deploy({ ...chat, workersMin: 1 });
  const versions = (): unknown => fleet.image.releases.get(fleet.endpoint(id).config.release)?.secrets;
  t.deepEqual(versions(), { TOKEN: 1 });
  set(fleet, 'of another environment', 'staging');
  t.deepEqual(versions(), { TOKEN: 1 });
  set(fleet, 'own', 'default');
  t.deepEqual(versions(), { TOKEN: 3 });
  set(fleet, 'account again');
  t.deepEqual(versions(), { TOKEN: 3 }, 'covered by that of the environment');
  t.deepEqual(remove(fleet, 'default'), { kind: 'done' });
  t.deepEqual(versions(), { TOKEN: 4 });
});

test('a secret in use is not deleted, an unknown one is not found, and there is a limit', (t) => {
  const fleet = world();
  t.is((remove(fleet) as CapstanError).code, 'NOT_FOUND');
  set(fleet, 's1');
  const [id = ''] = fleet.deploy(chat);
  const refusal = remove(fleet) as CapstanError;
  t.is(refusal.code, 'CONFLICT');
  t.regex(refusal.message, /used by default\/chat/);
  fleet.command({ kind: 'undeploy', account: 'acc', endpoints: [id], stopJobs: true });
  t.deepEqual(remove(fleet), { kind: 'done' });
  for (let i = 0; i < MAX_SECRETS; i++) set(fleet, 's', '', `S${i}`);
  t.is((set(fleet, 's', '', 'MORE') as CapstanError).code, 'QUOTA_EXCEEDED');
  t.deepEqual(set(fleet, 'again', '', 'S1'), { kind: 'done' });
});

test('re-encryption covers secrets; a deleted environment and account leave none', (t) => {
  const fleet = world();
  set(fleet, 's1');
  set(fleet, 's2', 'staging');
  const rows = [...encryptedRows(fleet.image)].filter(({ row }) => row.kind === 'secret');
  t.deepEqual(
    rows.map(({ values }) => values),
    [[{ encrypted: 's1', place: 'secret/acc//TOKEN' }], [{ encrypted: 's2', place: 'secret/acc/staging/TOKEN' }]],
  );
  fleet.command({ kind: 'reencrypt', rows: rows.map(({ row }) => row), values: new Map([['s1', 'n1']]) });
  fleet.command({ kind: 'create-environment', account: 'acc', environment: 'staging' });
  fleet.command({ kind: 'delete-environment', account: 'acc', environment: 'staging', force: false, stopJobs: false });
  t.deepEqual(
    [...fleet.image.secrets.values()].map(({ sealed }) => sealed),
    ['n1'],
  );
  fleet.command({ kind: 'put-account', account: 'acc', quotas: {}, create: true });
  fleet.command({ kind: 'delete-account', account: 'acc', force: false, stopJobs: false });
  t.is(fleet.image.secrets.size, 0);
  t.true(set(fleet, 's1') instanceof Error);
});
