import type { CellRow, SchedulerRow } from '../../lib/owner/cluster-list.ts';
import { printResult, type Command } from '../command/command.ts';
import { GATEWAY_SETTINGS, readSettings, SCHEDULER_SETTINGS } from '../../terminal/config.ts';
import { ageOfMs } from '../../terminal/age.ts';

/** `capstan schedulers`: who owns each cell, and who would take it over. */
export const schedulers: Command = {
  name: 'schedulers',
  summary: 'List cells with their owners, and all schedulers, owners and standbys.',
  settings: [...SCHEDULER_SETTINGS, ...GATEWAY_SETTINGS.filter((name) => name === 'url' || name === 'httpPort')],
  json: true,
  examples: ['schedulers', 'schedulers --scheduler 10.0.0.1:7070,10.0.0.2:7070', 'schedulers --json'],
  async run(invocation) {
    const { options, env, terminal } = invocation;
    const { listCluster } = await import('../api/cluster.ts');
    const { clusterProblems } = await import('../doctor/cluster.ts');
    const cluster = await listCluster(readSettings(options, env), env);
    printResult(invocation, cluster, () => {
      terminal.table({
        head: CELL_HEADER,
        rows: cluster.cells.map(cellLine),
        optional: ['PREVIOUS OWNER', 'TAKE-OVERS', 'STANDBYS', 'LAST BATCH', 'SINCE'],
      });
      terminal.data('');
      terminal.table({
        head: SCHEDULER_HEADER,
        rows: cluster.schedulers.map(schedulerLine),
        optional: ['MASTER KEYS', 'SCHEMA', 'HOST', 'CLOCK', 'VERSION', 'SINCE'],
      });
      for (const { verdict, text, hint } of clusterProblems(cluster)) {
        if (verdict === 'fault') terminal.fail(text);
        else terminal.warn(text);
        terminal.hint(hint);
      }
    });
  },
};

const CELL_HEADER = ['CELL', 'OWNER', 'TERM', 'SINCE', 'LAST BATCH', 'STANDBYS', 'TAKE-OVERS', 'PREVIOUS OWNER'];
const SCHEDULER_HEADER = ['CELL', 'ROLE', 'ADDRESS', 'HOST', 'VERSION', 'SCHEMA', 'SINCE', 'LAST SEEN', 'CLOCK', 'MASTER KEYS'];

function cellLine(cell: CellRow): string[] {
  const { name, ownerAddress, term, termAgeMs, lastBatchAgeMs, standbys, takeOvers, previousOwnerAddress } = cell;
  return [
    name,
    ownerAddress,
    String(term),
    ageOfMs(termAgeMs),
    lastBatchAgeMs === null ? '' : ageOfMs(lastBatchAgeMs),
    String(standbys),
    String(takeOvers),
    previousOwnerAddress ?? '',
  ];
}

function schedulerLine(scheduler: SchedulerRow): string[] {
  const { cell, role, address, hostName, version, schemaVersion, roleAgeMs, lastSeenAgeMs, clockOffsetMs, masterKeyIds } = scheduler;
  return [
    cell,
    role.toLowerCase(),
    address,
    hostName,
    version,
    schemaVersion === 0 ? '' : String(schemaVersion),
    ageOfMs(roleAgeMs),
    ageOfMs(lastSeenAgeMs),
    schemaVersion === 0 ? '' : `${clockOffsetMs < 0 ? '-' : '+'}${(Math.abs(clockOffsetMs) / 1_000).toFixed(1)}s`,
    masterKeyIds.join(','),
  ];
}
