/** What the schedulers of one database say of one another. */
import { cp } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';

import { credentials } from '@grpc/grpc-js';
import test, { type ExecutionContext } from 'ava';

import pkg from '../../package.json' with { type: 'json' };
import { ClusterServiceClient, SchedulerRole, type Cluster } from '../../proto/gen/capstan/v1/cluster.ts';
import { readConfig } from '../../gateway/config.ts';
import { start as startGateway } from '../../gateway/assembly/start.ts';
import { run } from '../cli/fakes/run.ts';
import { folderOf } from '../support/folder.ts';
import { startPostgres, type PostgresServer } from '../support/postgres.ts';
import { withPostgres } from '../support/with-postgres.ts';
import { TestScheduler, unary } from '../support/scheduler-client.ts';
import { schedulersOn } from '../support/schedulers.ts';
import { until } from '../support/until.ts';

const tool = join(import.meta.dirname, '../../cli/main.ts');

await withPostgres('schedulers of one database', tests);

test('on SQLite a scheduler lists itself', async (t) => {
  const scheduler = await TestScheduler.open();
  t.teardown(() => scheduler.close());
  const { cells, schedulers, database, answeredBy } = await list(t, scheduler);
  t.is(database, undefined);
  t.is(cells.length, 1);
  t.like(cells[0], { name: 'default', ownerId: answeredBy, ownerAddress: scheduler.handle.address, takeOvers: 0n, standbys: 0 });
  t.true((cells[0]?.term ?? 0n) > 0n);
  t.is(schedulers.length, 1);
  t.like(schedulers[0], {
    id: answeredBy,
    role: SchedulerRole.OWNER,
    address: scheduler.handle.address,
    version: pkg.version,
    schemaVersion: 0,
  });
  t.is(schedulers[0]?.masterKeyIds[0], cells[0]?.masterKeyId);
});

test('on SQLite the metrics have the ownership, and no series of a cluster', async (t) => {
  const scheduler = await TestScheduler.open();
  t.teardown(() => scheduler.close());
  const samples = await metricsOf(scheduler);
  t.is(samples.get('capstan_scheduler_owner{cell="default"}'), 1);
  t.deepEqual(
    [...samples.keys()].filter((name) => /^capstan_(cell|store_batches|store_round|scheduler_take)/.test(name)),
    [],
  );
});

test('only the gateway token lists schedulers', async (t) => {
  const scheduler = await TestScheduler.open();
  t.teardown(() => scheduler.close());
  const { nodeId, nodeSecret } = await unary<{ nodeId: string; nodeSecret: string }>((done) =>
    scheduler.nodes.join({ joinToken: scheduler.secret('join-token'), name: 'host' }, done),
  );
  const refused = { code: 'PERMISSION_DENIED', message: 'this call requires the gateway token' };
  await t.throwsAsync(list(t, scheduler, scheduler.secret('api-key')), refused);
  await t.throwsAsync(list(t, scheduler, scheduler.secret('join-token')), refused);
  await t.throwsAsync(list(t, scheduler, ''), { code: 'UNAUTHENTICATED' });
  const client = clientOf(t, scheduler.handle.address);
  await t.throwsAsync(
    unary<Cluster>((done) => client.list({}, scheduler.bearer(nodeSecret, nodeId), done)),
    refused,
  );
});

function tests(server: PostgresServer, binaries: string): void {
  test('the owner sees its standby, and the standby sees its take-over', async (t) => {
    const store = await server.newDatabase();
    const shared = { store, blobDir: await folderOf(t), isBlobDirShared: 'true' };
    const owner = await TestScheduler.open(shared);
    const alone = await list(t, owner);
    t.deepEqual([alone.cells[0]?.standbys, alone.cells[0]?.takeOvers], [0, 0n]);
    const dataDir = await folderOf(t);
    await cp(join(owner.dataDir, 'secrets'), join(dataDir, 'secrets'), { recursive: true });
    const standby = await TestScheduler.open({ ...shared, dataDir });
    t.teardown(() => standby.close());

    const both = await listed(
      t,
      owner,
      ({ cells, schedulers }) => schedulers.length === 2 && cells[0]?.ownerAddress === owner.handle.address,
    );
    const [cell] = both.cells;
    const [first, second] = both.schedulers;
    t.is(both.cells.length, 1);
    t.like(cell, { name: 'default', ownerId: both.answeredBy, ownerAddress: owner.handle.address, standbys: 1, previousOwnerAddress: '' });
    t.true((cell?.lastBatchAgeMs ?? -1n) >= 0n);
    t.deepEqual([first?.role, second?.role], [SchedulerRole.OWNER, SchedulerRole.STANDBY]);
    t.deepEqual(first?.masterKeyIds, second?.masterKeyIds);
    t.deepEqual(first?.masterKeyIds, [cell?.masterKeyId ?? '']);
    t.like(both.database, { fsync: true, synchronous: false, synchronousStandbys: 0, schemaVersion: first?.schemaVersion ?? 0 });

    const asked = await list(t, standby);
    t.is(asked.answeredBy, second?.id ?? '', 'a standby answers');
    t.deepEqual(
      asked.schedulers.map(({ id, role }) => [id, role]),
      both.schedulers.map(({ id, role }) => [id, role]),
    );
    await t.throwsAsync(list(t, standby, standby.secret('api-key')), { code: 'PERMISSION_DENIED' });
    await owner.close();
    const after = await listed(t, standby, ({ schedulers }) => schedulers.length === 1 && schedulers[0]?.role === SchedulerRole.OWNER);
    t.like(after.cells[0], { ownerId: second?.id ?? '', takeOvers: 1n });
    t.is(after.cells[0]?.previousOwnerAddress, first?.address);
    t.true((after.cells[0]?.term ?? 0n) > (cell?.term ?? 0n));
  });

  test('the tool shows them, asks whichever responds, and says what is wrong', async (t) => {
    const store = await server.newDatabase();
    const scheduler = await TestScheduler.open({ store });
    t.teardown(() => scheduler.close());
    const { address } = scheduler.handle;
    const several = ['--data-dir', scheduler.dataDir, '--scheduler', `127.0.0.1:1,${address}`];
    const shown = run([tool, 'schedulers', ...several]);
    t.is(await shown.ended, 0, shown.stderr());
    t.regex(shown.stdout(), new RegExp(`^default +${address} +\\d+ +\\d+s +\\d+s +0 +0 +-$`, 'm'));
    t.regex(shown.stdout(), new RegExp(`^default +owner +${address} .* ${pkg.version} `, 'm'));
    t.regex(shown.stderr(), /^! cell default has no standby: jobs wait while the scheduler at /m);
    const json = run([tool, 'schedulers', '--json', ...several]);
    t.is(await json.ended, 0, json.stderr());
    t.like(JSON.parse(json.stdout()), { cells: [{ name: 'default', ownerAddress: address }], database: { address: store } });
    const doctor = run([tool, 'doctor', ...several]);
    await doctor.ended;
    t.regex(doctor.stderr(), new RegExp(`^! scheduler: ${address} responds; `, 'm'));
    t.regex(doctor.stderr(), new RegExp(`^✓ schedulers: cell default is owned by ${address} since \\d+s, 0 standbys$`, 'm'));
    t.regex(doctor.stderr(), /^! schedulers: the database .* has no synchronous standby: /m);
    const masterKey = run([tool, 'master-key', 'status', ...several]);
    t.is(await masterKey.ended, 0, masterKey.stderr());
    const elsewhere = ['--data-dir', await folderOf(t), '--scheduler', `127.0.0.1:1,${address}`];
    const unknown = run([tool, 'master-key', 'status', ...elsewhere], { env: { SERVICE_API_KEY: scheduler.secret('api-key') } });
    t.is(await unknown.ended, 0, 'the owner is found without the gateway token');
    const nobody = run([tool, 'schedulers', '--data-dir', scheduler.dataDir, '--scheduler', '127.0.0.1:1,127.0.0.1:2']);
    t.is(await nobody.ended, 69);
    t.regex(nobody.stderr(), /^✗ no scheduler of 127\.0\.0\.1:1,127\.0\.0\.1:2 responds$/m);
  });

  test('the metrics of an owner tell of the store, its term and its standbys', async (t) => {
    const store = await server.newDatabase();
    const scheduler = await TestScheduler.open({ store });
    t.teardown(() => scheduler.close());
    const row = (id: string, keys: string): string =>
      `INSERT INTO capstan.schedulers (clock_offset_ms, schema_version, id, cell, address, host_name, version, master_keys)
       SELECT 61000, 999, '${id}', 'default', '10.0.0.9:${id}', 'nine', '0.0.1', ${keys} FROM capstan.schedulers LIMIT 1`;
    await until('its own row is written', async () => (await server.query(store, 'SELECT id FROM capstan.schedulers'))[0]);
    await server.query(store, row('1', 'master_keys'));
    await server.query(store, row('2', "'{}'"));
    const { samples } = await until('the rows are seen', async () => {
      const found = await metricsOf(scheduler);
      const standbys = ['true', 'false'].map((ready) => found.get(`capstan_cell_standbys{cell="default",ready="${ready}"}`));
      return standbys.every((count) => count === 1) ? { samples: found } : null;
    });
    t.is(samples.get('capstan_scheduler_clock_offset_seconds{cell="default",scheduler="10.0.0.9:1"}'), 61);
    t.is(samples.get('capstan_cell_take_overs_total{cell="default"}'), 0);
    t.is(samples.get('capstan_scheduler_owner{cell="default"}'), 1);
    t.is(samples.get('capstan_scheduler_take_overs_total{cause="first"}'), 1);
    t.is(samples.get('capstan_scheduler_terms_lost_total{cause="doubt"}'), 0);
    t.true((samples.get('capstan_scheduler_owner_seconds_total') ?? 0) > 0);
    const renewals = samples.get('capstan_store_term_renewals_total') ?? 0;
    const batches = samples.get('capstan_store_batches_total') ?? 0;
    t.true(batches > renewals && (samples.get('capstan_store_operations_total') ?? 0) >= batches - renewals);
    t.true((samples.get('capstan_store_round_trips_total{kind="batch"}') ?? 0) >= batches);
    t.is(samples.get('capstan_store_database_commit_seconds_count'), batches);

    await server.query(
      store,
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'capstan cell %'`,
    );
    await until('the owner has taken the cell from itself', async () => {
      const again = await metricsOf(scheduler).catch(() => null);
      return again?.get('capstan_scheduler_take_overs_total{cause="itself"}') === 1 ? again : null;
    }).then((again) => {
      t.is(again.get('capstan_scheduler_terms_lost_total{cause="doubt"}'), 1);
      t.is(again.get('capstan_cell_take_overs_total{cell="default"}'), 0, 'a new term of the same owner is no take-over');
    });
  });

  test('the metrics of each scheduler can be scraped, also those of a standby', async (t) => {
    const { owner, standby: another } = await schedulersOn(t, server);
    const standby = await another();
    const [here, there] = [owner.handle.address, standby.handle.address];
    const own = { scheduler: `${here},${there}`, token: owner.secret('gateway-token') };
    const gateway = await startGateway(readConfig({ ...own, port: 0, logLevel: 'silent', closeGraceMs: 0 }, {}));
    t.teardown(() => gateway.close());
    const scrape = (scheduler: string): Promise<Response> =>
      fetch(`${gateway.url}/metrics?part=scheduler&scheduler=${scheduler}`, { headers: { authorization: owner.secret('api-key') } });
    const of = async (scheduler: string): Promise<string> => (await scrape(scheduler)).text();
    for (const text of [await of(here), await of(there)]) {
      t.regex(text, /^capstan_scheduler_up 1$/m);
      t.regex(text, /^capstan_store_round_trips_total\{kind="read"\} [1-9]/m);
      t.regex(text, /process_resident_memory_bytes/);
    }
    t.regex(await of(here), /^capstan_scheduler_owner\{cell="default"\} 1$/m);
    t.regex(await of(there), /^capstan_scheduler_owner\{cell="default"\} 0$/m);
    // The gateway's token goes to no address but those that it is configured with.
    for (const strange of ['127.0.0.1:1', 'localhost:7070', '']) t.is((await scrape(strange)).status, 404, strange);
    const client = clientOf(t, there);
    await t.throwsAsync(
      unary((done) => client.metrics({}, standby.bearer(owner.secret('api-key')), done)),
      { code: 'PERMISSION_DENIED', message: 'this call requires the gateway token' },
    );
    await standby.handle.close();
    t.regex(await of(there), /^capstan_scheduler_up 0$/m);
  });

  test('GraphQL shows them to operators', async (t) => {
    const scheduler = await TestScheduler.open({ store: await server.newDatabase() });
    t.teardown(() => scheduler.close());
    const { address } = scheduler.handle;
    const own = { scheduler: `127.0.0.1:1,${address}`, token: scheduler.secret('gateway-token'), closeGraceMs: 0 };
    const gateway = await startGateway(readConfig({ ...own, port: 0, logLevel: 'silent' }, {}));
    t.teardown(() => gateway.close());
    const query = '{ cluster { cells { name ownerAddress standbys term } schedulers { role address } database { synchronous } } }';
    const answer = await until('the gateway has the directory', async () => {
      const response = await fetch(`${gateway.url}/graphql`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${scheduler.secret('api-key')}` },
        body: JSON.stringify({ query }),
      });
      return response.status === 503 ? null : response.json();
    });
    t.like(answer, {
      data: {
        cluster: {
          cells: [{ name: 'default', ownerAddress: address, standbys: 0 }],
          schedulers: [{ role: 'OWNER', address }],
          database: { synchronous: false },
        },
      },
    });
    const viaGateway = run([tool, 'schedulers', '--url', gateway.url], { env: { SERVICE_API_KEY: scheduler.secret('api-key') } });
    t.is(await viaGateway.ended, 0, viaGateway.stderr());
    t.regex(viaGateway.stdout(), new RegExp(`^default +owner +${address} `, 'm'));
  });

  test('a scheduler that went silent stays listed, until one replaces it at its address or an hour is over', async (t) => {
    const store = await server.newDatabase();
    const scheduler = await TestScheduler.open({ store });
    t.teardown(() => scheduler.close());
    const { address } = scheduler.handle;
    const ghost = (id: string, at: string, silent: string, host = 'lost'): Promise<unknown> =>
      server.query(
        store,
        `INSERT INTO capstan.schedulers (seen_at, clock_offset_ms, schema_version, id, cell, address, host_name, version, master_keys)
         VALUES (now() - interval '${silent}', 0, 1, '${id}', 'default', '${at}', '${host}', '0.0.1', '{}')`,
      );
    await ghost('lost', '10.0.0.9:7070', '59 minutes');
    await ghost('forgotten', '10.0.0.8:7070', '61 minutes');
    await ghost('before', address, '1 second', hostname());
    await ghost('elsewhere', address, '1 second');
    await ghost('other-cell', '10.0.0.7:7070', '1 second');
    const { schedulers, cells } = await listed(t, scheduler, (found) => found.schedulers.length <= 4);
    t.deepEqual(
      schedulers.map(({ address: at }) => at),
      [address, '10.0.0.7:7070', '10.0.0.9:7070', address],
    );
    t.is(cells[0]?.standbys, 2, 'who is silent is no standby');
    t.true((schedulers.find(({ id }) => id === 'lost')?.lastSeenAgeMs ?? 0n) > 3_500_000n);
  });

  test('a database whose commits wait for another host is told apart, also while none is there', async (t) => {
    const own = await startPostgres(binaries);
    t.teardown(() => own.stop());
    const store = await own.newDatabase();
    const scheduler = await TestScheduler.open({ store });
    t.teardown(() => scheduler.close());
    const before = await list(t, scheduler);
    t.like(before.database, { address: store, synchronous: false, fsync: true });
    await own.query(store, "ALTER SYSTEM SET synchronous_standby_names = 'elsewhere'");
    await own.query(store, 'SELECT pg_reload_conf()');
    const after = await listed(t, scheduler, ({ database }) => database?.synchronous === true);
    t.is(after.database?.synchronousStandbys, 0);
    await own.query(store, 'ALTER SYSTEM RESET synchronous_standby_names');
    await own.query(store, 'SELECT pg_reload_conf()');
  });
}

/** Samples by name and labels, as they are written. */
async function metricsOf(scheduler: TestScheduler): Promise<Map<string, number>> {
  const { text } = await unary<{ text: string }>((done) =>
    scheduler.control.getMetrics({}, scheduler.bearer(scheduler.secret('gateway-token')), done),
  );
  return new Map([...text.matchAll(/^(\S+) (\S+)$/gm)].map(([, name = '', value]) => [name, Number(value)]));
}

function clientOf(t: ExecutionContext, address: string): ClusterServiceClient {
  const client = new ClusterServiceClient(address, credentials.createInsecure());
  t.teardown(() => client.close());
  return client;
}

function list(t: ExecutionContext, scheduler: TestScheduler, token = scheduler.secret('gateway-token')): Promise<Cluster> {
  const client = clientOf(t, scheduler.handle.address);
  return unary((done) => client.list({}, scheduler.bearer(token), done));
}

/** The list once it fulfils the condition. */
async function listed(t: ExecutionContext, scheduler: TestScheduler, when: (found: Cluster) => boolean): Promise<Cluster> {
  const client = clientOf(t, scheduler.handle.address);
  const metadata = scheduler.bearer(scheduler.secret('gateway-token'));
  return until('the list is as expected', async () => {
    const found = await unary<Cluster>((done) => client.list({}, metadata, done));
    return when(found) ? found : null;
  });
}
