import { printResult, type Command, type CommandGroup } from '../command/command.ts';
import { GATEWAY_SETTINGS, readSettings } from '../../terminal/config.ts';
import { connect } from '../../client/gateway.ts';

const list: Command = {
  name: 'list',
  summary: 'List what the nodes offer: processors, memory, GPUs, runtimes.',
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['machine-types list', 'machine-types list -o json'],
  async run(invocation) {
    const { options, env, terminal } = invocation;
    const { listMachineTypes } = await import('../api/nodes.ts');
    const rows = await listMachineTypes(await connect(readSettings(options, env), env));
    printResult(invocation, rows, () => {
      const cells = rows.map((row) => [
        String(row.nodes),
        `${row.os}/${row.arch}`,
        String(row.cpus),
        `${Math.round(row.memoryBytes / 1e9)} GB`,
        row.devices.map(({ model, count }) => `${count} × ${model}`).join(', '),
        row.runtimes.join(', '),
        row.images.join(', '),
      ]);
      terminal.table({
        head: ['NODES', 'PLATFORM', 'CPUS', 'MEMORY', 'DEVICES', 'RUNTIMES', 'IMAGES'],
        rows: cells,
        optional: ['IMAGES', 'RUNTIMES', 'PLATFORM'],
        cut: ['RUNTIMES', 'IMAGES'],
      });
    });
  },
};

/** `capstan machine-types`: the resources of the nodes, the same for every account. */
export const machineTypes: CommandGroup = { name: 'machine-types', summary: 'List what the nodes offer.', commands: [list] };
