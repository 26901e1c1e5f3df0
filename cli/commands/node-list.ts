import type { NodeRow } from '../api/nodes.ts';
import { printResult, type Command } from '../command/command.ts';
import { GATEWAY_SETTINGS, readSettings } from '../../terminal/config.ts';
import { connect } from '../../client/gateway.ts';
import { ageOf } from '../../terminal/age.ts';
import { cellColumn } from './cells.ts';

/** `capstan node list`: the hosts that run workers. */
export const nodeList: Command = {
  name: 'list',
  summary: 'List the nodes with their devices and what is allocated.',
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['node list', 'node list -o json'],
  async run(invocation) {
    const { options, env, terminal } = invocation;
    const { listNodes } = await import('../api/nodes.ts');
    const rows = await listNodes(await connect(readSettings(options, env), env));
    printResult(invocation, rows, () => {
      const column = cellColumn(rows);
      const cells = rows.map((row) => [
        row.name,
        row.id,
        ...column.of(row.cell),
        statusOf(row),
        seen(row),
        String(row.workers),
        String(row.jobs),
        row.cpus === null ? '-' : String(row.cpus),
        row.memoryBytes === null ? '-' : `${Math.round(row.memoryBytes / 1e9)} GB`,
        allocated(row),
        isolation(row),
        devicesText(row.devices) || row.deviceProblem,
      ]);
      terminal.table({
        head: ['NAME', 'ID', ...column.head, 'STATUS', 'SEEN', 'WORKERS', 'JOBS', 'CPUS', 'MEMORY', 'ALLOCATED', 'ISOLATION', 'DEVICES'],
        rows: cells,
        optional: ['ISOLATION', 'ID', 'CPUS', 'MEMORY', 'ALLOCATED', 'JOBS'],
        cut: ['DEVICES'],
      });
      for (const { name, unreachableGateways } of rows)
        for (const { dialed, reason } of unreachableGateways) terminal.warn(`${name} does not reach the gateway at ${dialed}: ${reason}`);
      if (rows.length === 0) terminal.next('capstan up');
    });
  },
};

function statusOf({ connected, draining, unreachableGateways }: NodeRow): string {
  const states = [connected ? 'connected' : 'disconnected'];
  if (draining) states.push('draining');
  if (unreachableGateways.length > 0) states.push('no gateway');
  return states.join(',');
}

/** When the node was last heard of; empty while it is connected. */
function seen({ connected, lastSeenAt }: NodeRow): string {
  return connected || lastSeenAt === null ? '' : `${ageOf(lastSeenAt)} ago`;
}

/** Equal devices together: `8 × NVIDIA H100 80GB HBM3, NVIDIA T4 (Xid 79)`. */
function devicesText(devices: NodeRow['devices']): string {
  const counts = new Map<string, number>();
  for (const { name, healthy, problem } of devices) {
    const text = healthy ? name : `${name} (${problem})`;
    counts.set(text, (counts.get(text) ?? 0) + 1);
  }
  return [...counts].map(([text, count]) => (count === 1 ? text : `${count} × ${text}`)).join(', ');
}

/** Allocated and allocatable amounts of each resource that the node reports. */
function allocated({ allocated, allocatable, devices }: NodeRow): string {
  const cpus = allocatable.cpus === null ? '' : `${round(allocated.cpus)}/${round(allocatable.cpus)} CPU`;
  const memory = allocatable.memoryBytes === null ? '' : `${round(allocated.memoryBytes / 1e9)}/${round(allocatable.memoryBytes / 1e9)} GB`;
  // A lost or unhealthy device is not allocatable, unless it is already allocated.
  const usable = Math.max(devices.filter(({ healthy }) => healthy).length, allocated.devices);
  const gpus = devices.length === 0 ? '' : `${allocated.devices}/${usable} GPU`;
  return [cpus, memory, gpus].filter((part) => part !== '').join(', ');
}

/** Levels of process and container workers; the network of the host is said, since it is weaker. */
function isolation({ isolation: found }: NodeRow): string {
  if (found === null) return '';
  const processes = found.processNetworks.includes('outbound') ? found.processes : `${found.processes} (host network)`;
  return found.containers === null ? processes : `${processes}, ${found.containers}`;
}

function round(value: number): string {
  return String(Math.round(value * 10) / 10);
}
