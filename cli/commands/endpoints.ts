import { flagOption, textOption, type Command } from '../command.ts';
import { readSettings, settingOptions } from '../config.ts';
import { httpBase, withScheduler } from '../local.ts';
import { renderTable } from '../terminal/table.ts';

/** `capstan endpoints`: what is deployed and how it fares. */
export const endpoints: Command = {
  name: 'endpoints',
  summary: 'List the endpoints with their URLs and state.',
  options: [
    { flags: '--env <environment>', description: 'only those of this environment' },
    { flags: '--json', description: 'print JSON' },
    ...settingOptions('httpPort', 'grpcPort', 'dataDir', 'scheduler'),
  ],
  async run({ options, env, terminal }) {
    const settings = readSettings(options, env);
    const { endpointRow } = await import('../api/endpoint-row.ts');
    const base = httpBase(settings);
    const found = await withScheduler(settings, (client) => client.listEndpoints(textOption(options, 'env') ?? ''));
    const rows = found.map((endpoint) => endpointRow(endpoint, base));
    if (flagOption(options, 'json')) {
      terminal.data(JSON.stringify(rows, null, 2));
      return;
    }
    const header = ['NAME', 'KIND', 'ENVIRONMENT', 'WORKERS', 'IN QUEUE', 'IN PROGRESS', 'URL'];
    terminal.data(
      renderTable(
        header,
        rows.map((row) => [
          row.name,
          row.kind,
          row.environment,
          `${row.workers}/${row.workersMax}`,
          String(row.jobsInQueue),
          String(row.jobsInProgress),
          row.url,
        ]),
      ),
    );
    for (const { name, queueReason, queueDetail } of rows) {
      if (queueReason !== '') terminal.warn(`${name}: jobs wait (${queueReason})${queueDetail === '' ? '' : `: ${queueDetail}`}`);
    }
    if (rows.length === 0) terminal.next('capstan deploy <folder>');
  },
};
