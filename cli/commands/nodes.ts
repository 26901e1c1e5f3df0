import type { NodeRow } from '../api/node-row.ts';
import type { Command } from '../command.ts';
import { flagOption } from '../options.ts';
import { readSettings, settingOptions } from '../config.ts';
import { withFleet } from '../gateway.ts';
import { renderTable } from '../terminal/table.ts';

/** `capstan nodes`: the hosts that run workers. */
export const nodes: Command = {
  name: 'nodes',
  summary: 'List the hosts with their devices.',
  options: [{ flags: '--json', description: 'print JSON' }, ...settingOptions('url', 'grpcPort', 'dataDir', 'scheduler')],
  async run({ options, env, terminal }) {
    const settings = readSettings(options, env);
    const rows = await withFleet(settings, env, options, (fleet) => fleet.nodes());
    if (flagOption(options, 'json')) {
      terminal.data(JSON.stringify(rows, null, 2));
      return;
    }
    terminal.data(
      renderTable(
        ['NAME', 'ID', 'STATE', 'WORKERS', 'JOBS', 'CPUS', 'MEMORY', 'ALLOCATED', 'DEVICES'],
        rows.map((row) => [
          row.name,
          row.id,
          `${row.connected ? 'connected' : 'gone'}${row.draining ? ', draining' : ''}`,
          String(row.workers),
          String(row.jobs),
          String(row.cpus),
          `${Math.round(row.memoryBytes / 1e9)} GB`,
          allocated(row),
          row.devices.map(({ name, healthy, problem }) => (healthy ? name : `${name} (${problem})`)).join(', ') || row.deviceProblem,
        ]),
      ),
    );
    if (rows.length === 0) terminal.next('capstan up');
  },
};

/** What is allocated to its workers, of what may be. */
function allocated({ allocated, allocatable, devices }: NodeRow): string {
  const cpus = allocatable.cpus === null ? '' : `${round(allocated.cpus)}/${round(allocatable.cpus)} CPU`;
  const memory = allocatable.memoryBytes === null ? '' : `${round(allocated.memoryBytes / 1e9)}/${round(allocatable.memoryBytes / 1e9)} GB`;
  // A device that is lost or unhealthy is not allocatable, unless it is allocated already.
  const usable = Math.max(devices.filter(({ healthy }) => healthy).length, allocated.devices);
  const gpus = devices.length === 0 ? '' : `${allocated.devices}/${usable} GPU`;
  return [cpus, memory, gpus].filter((part) => part !== '').join(', ');
}

function round(value: number): string {
  return String(Math.round(value * 10) / 10);
}
