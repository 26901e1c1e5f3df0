import { flagOption, type Command } from '../command.ts';
import { readSettings, settingOptions } from '../config.ts';
import { withScheduler } from '../local.ts';
import { renderTable } from '../terminal/table.ts';

/** `capstan nodes`: the hosts that run workers. */
export const nodes: Command = {
  name: 'nodes',
  summary: 'List the hosts with their devices.',
  options: [{ flags: '--json', description: 'print JSON' }, ...settingOptions('grpcPort', 'dataDir', 'scheduler')],
  async run({ options, env, terminal }) {
    const settings = readSettings(options, env);
    const { nodeRow } = await import('../api/node-row.ts');
    const rows = (await withScheduler(settings, (client) => client.listNodes())).map(nodeRow);
    if (flagOption(options, 'json')) {
      terminal.data(JSON.stringify(rows, null, 2));
      return;
    }
    terminal.data(
      renderTable(
        ['NAME', 'ID', 'CONNECTED', 'WORKERS', 'CPUS', 'MEMORY', 'DEVICES'],
        rows.map((row) => [
          row.name,
          row.id,
          row.connected ? 'yes' : 'no',
          String(row.workers),
          String(row.cpus),
          `${Math.round(row.memoryBytes / 1e9)} GB`,
          row.devices.map(({ name }) => name).join(', '),
        ]),
      ),
    );
    if (rows.length === 0) terminal.next('capstan up');
  },
};
