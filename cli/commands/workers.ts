import { flagOption, textOption, type Command } from '../command.ts';
import { readSettings, settingOptions } from '../config.ts';
import { withScheduler } from '../local.ts';
import { renderTable } from '../terminal/table.ts';

/** `capstan workers`: the running copies of endpoints. */
export const workers: Command = {
  name: 'workers',
  summary: 'List the workers with their states.',
  options: [
    { flags: '--endpoint <endpoint>', description: 'only those of this endpoint, by id or name' },
    { flags: '--json', description: 'print JSON' },
    ...settingOptions('grpcPort', 'dataDir', 'scheduler'),
  ],
  async run({ options, env, terminal }) {
    const settings = readSettings(options, env);
    const [{ workerRow }, { findEndpoint }] = await Promise.all([import('../api/worker-row.ts'), import('../api/find-endpoint.ts')]);
    const wanted = textOption(options, 'endpoint');
    const rows = await withScheduler(settings, async (client) => {
      const known = await client.listEndpoints('');
      const id = wanted === undefined ? '' : findEndpoint(known, wanted).id;
      const names = new Map(known.map((endpoint) => [endpoint.id, endpoint.spec?.name ?? '']));
      return (await client.listWorkers(id)).map((worker) => workerRow(worker, names));
    });
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
