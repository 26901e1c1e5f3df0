/** What is wrong with the schedulers of a service, for `capstan schedulers` and `capstan doctor`. Pure. */
import type { CellRow, ClusterRow, DatabaseRow, SchedulerRow } from '../../lib/owner/cluster-list.ts';

export interface ClusterProblem {
  readonly verdict: 'warning' | 'fault';
  readonly text: string;
  readonly hint: string;
}

/** An owner that is alive commits once a second, and a standby takes over after 4 s without a batch. */
const OWNER_LATE_MS = 5_000;
const SILENT_MS = 10_000;
const CLOCK_MS = 60_000;
const LOOPBACK = /^(?:localhost|127(?:\.\d+){3}|\[::1\]):\d+$/;

export function clusterProblems({ cells, schedulers, database }: ClusterRow): ClusterProblem[] {
  if (database === null) return [];
  return [
    ...databaseProblems(database),
    ...cells.flatMap((cell) => cellProblems(cell, database)),
    ...schedulers.flatMap((scheduler) => schedulerProblems(scheduler, database, cells)),
    ...versionProblems(schedulers),
    ...addressProblems(schedulers),
  ];
}

function databaseProblems({ address, fsync, synchronous, synchronousStandbys }: DatabaseRow): ClusterProblem[] {
  const found: ClusterProblem[] = [];
  if (!fsync)
    found.push(
      fault(`the database ${address} runs with fsync=off: a crash loses acknowledged jobs`, 'Set fsync = on and restart PostgreSQL.'),
    );
  if (!synchronous)
    found.push(
      warning(
        `the database ${address} has no synchronous standby: the loss of its host loses acknowledged jobs`,
        'Set up a standby and synchronous_standby_names (docs/cluster-hosts.md).',
      ),
    );
  else if (synchronousStandbys === 0)
    found.push(
      fault(
        `no synchronous standby of the database ${address} is connected: every commit waits`,
        'Start the standby, or empty synchronous_standby_names and reload PostgreSQL.',
      ),
    );
  return found;
}

function cellProblems(cell: CellRow, { synchronous, synchronousStandbys }: DatabaseRow): ClusterProblem[] {
  const found: ClusterProblem[] = [];
  const { name, ownerAddress, lastBatchAgeMs, standbys } = cell;
  if (cell.ownerId === '')
    return [warning(`cell ${name} has never had an owner: its accounts are not served`, `Start a scheduler with CAPSTAN_CELL=${name}.`)];
  if (lastBatchAgeMs !== null && lastBatchAgeMs > OWNER_LATE_MS)
    found.push(
      fault(
        `cell ${name}: its owner ${ownerAddress} has committed nothing for ${seconds(lastBatchAgeMs)}`,
        synchronous && synchronousStandbys === 0
          ? 'It waits for the database (above).'
          : standbys > 0
            ? 'A standby takes over after 4 s without a batch; its log says what it waits for.'
            : `No standby can take over: restart the scheduler at ${ownerAddress}.`,
      ),
    );
  if (standbys === 0)
    found.push(
      warning(
        `cell ${name} has no standby: jobs wait while the scheduler at ${ownerAddress} is down`,
        'Start a scheduler on another host with the same CAPSTAN_STORE and the same secrets (docs/cluster.md).',
      ),
    );
  return found;
}

function schedulerProblems(scheduler: SchedulerRow, database: DatabaseRow, cells: readonly CellRow[]): ClusterProblem[] {
  const { role, address, hostName, lastSeenAgeMs, masterKeyIds, schemaVersion, clockOffsetMs } = scheduler;
  const who = `the ${role === 'OWNER' ? 'owner' : 'standby'} ${address} (${hostName})`;
  if (lastSeenAgeMs >= SILENT_MS)
    return [
      warning(
        `${who} was last seen ${seconds(lastSeenAgeMs)} ago`,
        'Restart it. If it was removed for good, it disappears from the list after an hour.',
      ),
    ];
  const found: ClusterProblem[] = [];
  const key = cells.find(({ name }) => name === scheduler.cell)?.masterKeyId ?? null;
  if (role === 'STANDBY' && key !== null && !masterKeyIds.includes(key))
    found.push(
      fault(
        `${who} does not have the current master key ${key}, and cannot take over`,
        'Copy secrets/master-key from the owner’s data folder to its own; it needs no restart (docs/backup.md).',
      ),
    );
  if (schemaVersion < database.schemaVersion)
    found.push(
      fault(
        `${who} supports the schema only up to version ${schemaVersion} and cannot take over: the database has version ${database.schemaVersion}`,
        'Upgrade it.',
      ),
    );
  if (Math.abs(clockOffsetMs) > CLOCK_MS)
    found.push(
      warning(
        `the clock of ${who} is ${seconds(Math.abs(clockOffsetMs))} ${clockOffsetMs > 0 ? 'ahead of' : 'behind'} the database’s`,
        'Synchronize the clocks of the hosts with NTP.',
      ),
    );
  return found;
}

function versionProblems(schedulers: readonly SchedulerRow[]): ClusterProblem[] {
  const seen = schedulers.filter(({ lastSeenAgeMs }) => lastSeenAgeMs < SILENT_MS);
  const byVersion = Map.groupBy(seen, ({ version }) => version);
  if (byVersion.size < 2) return [];
  const each = [...byVersion].map(([version, those]) => `${version} (${those.map(({ address }) => address).join(', ')})`);
  return [
    warning(
      `schedulers run different versions: ${each.join('; ')}`,
      'Finish the upgrade: standbys first, the owner last (docs/cluster-hosts.md).',
    ),
  ];
}

/** Clients and other schedulers must reach each at an address of its own. */
function addressProblems(schedulers: readonly SchedulerRow[]): ClusterProblem[] {
  const seen = schedulers.filter(({ lastSeenAgeMs }) => lastSeenAgeMs < SILENT_MS);
  const hostsOf = (those: readonly SchedulerRow[]): string[] => [...new Set(those.map(({ hostName }) => hostName))];
  const shared = [...Map.groupBy(seen, ({ address }) => address)].filter(([, those]) => hostsOf(those).length > 1);
  const isSpread = hostsOf(seen).length > 1;
  const local = seen.filter(({ address }) => isSpread && LOOPBACK.test(address) && !shared.some(([each]) => each === address));
  const hint = 'Set CAPSTAN_GRPC_HOST or CAPSTAN_ADVERTISE to an address of each host that the others can reach.';
  return [
    ...shared.map(([address, those]) => fault(`schedulers on ${hostsOf(those).join(' and ')} advertise the same address ${address}`, hint)),
    ...local.map(({ address, hostName }) =>
      fault(`the scheduler on ${hostName} advertises the address ${address}, which no other host can reach`, hint),
    ),
  ];
}

/** `1.5 s`, `12 s`, `5 min`. */
function seconds(ms: number): string {
  if (ms >= 120_000) return `${Math.round(ms / 60_000)} min`;
  return `${ms < 10_000 ? (ms / 1_000).toFixed(1) : Math.round(ms / 1_000)} s`;
}

function warning(text: string, hint: string): ClusterProblem {
  return { verdict: 'warning', text, hint };
}

function fault(text: string, hint: string): ClusterProblem {
  return { verdict: 'fault', text, hint };
}
