import type { Command } from '../command.ts';
import { flagOption, textOption } from '../options.ts';
import { readSettings, settingOptions } from '../config.ts';
import { withFleet } from '../gateway.ts';
import { renderTable } from '../terminal/table.ts';

/** `capstan workers`: the running copies of endpoints. */
export const workers: Command = {
  name: 'workers',
  summary: 'List the workers with their states.',
  options: [
    { flags: '--endpoint <endpoint>', description: 'only those of this endpoint, by id or name' },
    { flags: '--json', description: 'print JSON' },
    ...settingOptions('url', 'grpcPort', 'dataDir', 'scheduler'),
  ],
  async run({ options, env, terminal }) {
    const settings = readSettings(options, env);
    const rows = await withFleet(settings, env, options, (fleet) => fleet.workers(textOption(options, 'endpoint')));
    if (flagOption(options, 'json')) {
      terminal.data(JSON.stringify(rows, null, 2));
      return;
    }
    terminal.data(
      renderTable(
        ['ID', 'ENDPOINT', 'STATE', 'JOBS', 'NODE', 'WHY'],
        rows.map((row) => [
          row.id,
          row.endpoint,
          row.state,
          `${row.jobs}/${row.maxConcurrency}`,
          row.nodeId,
          row.detail === '' ? row.decision : row.detail,
        ]),
      ),
    );
  },
};
