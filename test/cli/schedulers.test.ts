/** What the tool says is wrong with the schedulers of a service. */
import test, { type ExecutionContext } from 'ava';

import type { CellRow, ClusterRow, DatabaseRow, SchedulerRow } from '../../lib/owner/cluster-list.ts';
import { clusterProblems } from '../../cli/doctor/cluster.ts';

const cell: CellRow = {
  name: 'default',
  ownerId: 'first',
  ownerAddress: '10.0.0.1:7070',
  term: 1_800_000_000,
  termAgeMs: 60_000,
  lastBatchAgeMs: 400,
  takeOvers: 0,
  previousOwnerAddress: null,
  standbys: 1,
  masterKeyId: 'aaaaaaaa',
};
const owner: SchedulerRow = {
  id: 'first',
  cell: 'default',
  role: 'OWNER',
  address: '10.0.0.1:7070',
  hostName: 'one',
  version: '0.1.0',
  schemaVersion: 3,
  masterKeyIds: ['aaaaaaaa'],
  roleAgeMs: 60_000,
  lastSeenAgeMs: 300,
  clockOffsetMs: 20,
};
const standby: SchedulerRow = { ...owner, id: 'second', role: 'STANDBY', address: '10.0.0.2:7070', hostName: 'two' };
const database: DatabaseRow = {
  address: 'postgres://capstan@db:5432/capstan',
  version: '15.4',
  schemaVersion: 3,
  fsync: true,
  synchronous: true,
  synchronousStandbys: 1,
};
const well: ClusterRow = { cells: [cell], schedulers: [owner, standby], database, answeredBy: 'first' };

/** The only problem of a service: its verdict, text and remedy. */
function only(t: ExecutionContext, cluster: ClusterRow, verdict: 'warning' | 'fault', text: RegExp, hint: RegExp): void {
  const problems = clusterProblems(cluster);
  t.is(problems.length, 1, JSON.stringify(problems));
  t.is(problems[0]?.verdict, verdict);
  t.regex(problems[0]?.text ?? '', text);
  t.regex(problems[0]?.hint ?? '', hint);
}

const withStandby = (changes: Partial<SchedulerRow>): ClusterRow => ({ ...well, schedulers: [owner, { ...standby, ...changes }] });
const withDatabase = (changes: Partial<DatabaseRow>): ClusterRow => ({ ...well, database: { ...database, ...changes } });
const withCell = (changes: Partial<CellRow>): ClusterRow => ({ ...well, cells: [{ ...cell, ...changes }] });

test('nothing is wrong with an owner, a standby and a database with a synchronous standby', (t) => {
  t.deepEqual(clusterProblems(well), []);
  t.deepEqual(clusterProblems(withDatabase({ synchronousStandbys: null })), [], 'what the role may not see is not reported');
});

test('nothing is wrong with one scheduler on SQLite', (t) => {
  t.deepEqual(clusterProblems({ ...well, cells: [{ ...cell, standbys: 0 }], schedulers: [owner], database: null }), []);
});

test('a cell without a standby', (t) => {
  const alone = { ...withCell({ standbys: 0 }), schedulers: [owner] };
  only(
    t,
    alone,
    'warning',
    /^cell default has no standby: jobs wait while the scheduler at 10\.0\.0\.1:7070 is down$/,
    /same CAPSTAN_STORE/,
  );
});

test('a standby that went silent is missing, and named with its host', (t) => {
  const silent = withStandby({ lastSeenAgeMs: 75_000 });
  only(t, silent, 'warning', /^the standby 10\.0\.0\.2:7070 \(two\) was last seen 75 s ago$/, /Restart it/);
});

test('a cell that nobody has owned yet', (t) => {
  const fresh = { ...well, cells: [{ ...cell, ownerId: '', ownerAddress: '', standbys: 0 }], schedulers: [] };
  only(t, fresh, 'warning', /^cell default has never had an owner/, /CAPSTAN_CELL=default/);
});

test('an owner that commits nothing, with and without a standby', (t) => {
  only(
    t,
    withCell({ lastBatchAgeMs: 5_400 }),
    'fault',
    /its owner 10\.0\.0\.1:7070 has committed nothing for 5\.4 s$/,
    /A standby takes over/,
  );
  const [late, missing] = clusterProblems({ ...withCell({ lastBatchAgeMs: 600_000, standbys: 0 }), schedulers: [owner] });
  t.regex(late?.text ?? '', /for 10 min$/);
  t.regex(late?.hint ?? '', /No standby can take over: restart the scheduler at 10\.0\.0\.1:7070/);
  t.regex(missing?.text ?? '', /has no standby/);
});

test('an owner that waits for a synchronous standby is not to be restarted', (t) => {
  const waiting = { ...withCell({ lastBatchAgeMs: 9_000 }), database: { ...database, synchronousStandbys: 0 } };
  t.deepEqual(
    clusterProblems(waiting).map(({ hint }) => hint),
    ['Start the standby, or empty synchronous_standby_names and reload PostgreSQL.', 'It waits for the database (above).'],
  );
});

test('a database that may lose what was acknowledged', (t) => {
  only(
    t,
    withDatabase({ synchronous: false, synchronousStandbys: 0 }),
    'warning',
    /has no synchronous standby: the loss of its host/,
    /synchronous_standby_names/,
  );
  only(t, withDatabase({ fsync: false }), 'fault', /fsync=off/, /fsync = on/);
  only(t, withDatabase({ synchronousStandbys: 0 }), 'fault', /every commit waits$/, /Start the standby/);
});

test('a standby that could not take over', (t) => {
  only(
    t,
    withStandby({ masterKeyIds: ['bbbbbbbb'] }),
    'fault',
    /^the standby 10\.0\.0\.2:7070 \(two\) does not have the current master key aaaaaaaa, and cannot take over$/,
    /Copy secrets\/master-key/,
  );
  t.deepEqual(clusterProblems(withStandby({ masterKeyIds: ['cccccccc', 'aaaaaaaa'] })), [], 'it holds the next one, too');
});

test('different versions, and a schema that one of them does not know', (t) => {
  only(
    t,
    withStandby({ version: '0.2.0' }),
    'warning',
    /^schedulers run different versions: 0\.1\.0 \(10\.0\.0\.1:7070\); 0\.2\.0 \(10\.0\.0\.2:7070\)$/,
    /standbys first/,
  );
  only(
    t,
    withStandby({ schemaVersion: 2 }),
    'fault',
    /supports the schema only up to version 2 and cannot take over: the database has version 3$/,
    /Upgrade/,
  );
});

test('a clock more than a minute away from the database’s', (t) => {
  t.deepEqual(clusterProblems(withStandby({ clockOffsetMs: -60_000 })), []);
  only(t, withStandby({ clockOffsetMs: -61_000 }), 'warning', /^the clock of the standby .* is 61 s behind the database’s$/, /NTP/);
  only(t, withStandby({ clockOffsetMs: 3_600_000 }), 'warning', /is 60 min ahead of the database’s$/, /NTP/);
});

test('an address that two hosts show, or that no other host reaches', (t) => {
  const hint = /CAPSTAN_ADVERTISE/;
  only(
    t,
    withStandby({ address: owner.address }),
    'fault',
    /^schedulers on one and two advertise the same address 10\.0\.0\.1:7070$/,
    hint,
  );
  only(
    t,
    withStandby({ address: '127.0.0.1:7070' }),
    'fault',
    /^the scheduler on two advertises the address 127\.0\.0\.1:7070, which no other/,
    hint,
  );
  const oneHost = [owner, standby].map((each, i) => ({ ...each, hostName: 'one', address: `127.0.0.1:707${i}` }));
  t.deepEqual(clusterProblems({ ...well, schedulers: oneHost }), [], 'on one host they reach each other');
});
