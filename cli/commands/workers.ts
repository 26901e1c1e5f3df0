import { printResult, type Command, type CommandGroup } from '../command/command.ts';
import { textOption } from '../../terminal/options.ts';
import { GATEWAY_SETTINGS, readSettings } from '../../terminal/config.ts';
import { connect } from '../../client/gateway.ts';

export const workerList: Command = {
  name: 'list',
  summary: 'List the workers with their status and its reason.',
  options: [
    { flags: '--endpoint <endpoint>', description: 'only workers of this endpoint, by id or name', default: 'all' },
    { flags: '--env <environment>', description: 'only workers of endpoints of this environment', default: 'all' },
  ],
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['workers list', 'workers list --endpoint hello --env staging'],
  async run(invocation) {
    const { options, env, terminal } = invocation;
    const { listWorkers } = await import('../api/workers.ts');
    const client = await connect(readSettings(options, env), env);
    const rows = await listWorkers(client, { endpoint: textOption(options, 'endpoint'), environment: textOption(options, 'env') });
    printResult(invocation, rows, () => {
      const cells = rows.map((row) => [
        row.id,
        row.endpoint,
        row.state,
        `${row.jobs}/${row.maxConcurrency}`,
        row.nodeId,
        row.detail === '' ? row.decision : row.detail,
      ]);
      terminal.table({
        head: ['ID', 'ENDPOINT', 'STATUS', 'JOBS', 'NODE', 'REASON'],
        rows: cells,
        optional: ['NODE', 'JOBS'],
        cut: ['REASON'],
      });
    });
  },
};

/** `capstan workers`: the workers of endpoints. */
export const workers: CommandGroup = { name: 'workers', summary: 'List the workers.', commands: [workerList] };
