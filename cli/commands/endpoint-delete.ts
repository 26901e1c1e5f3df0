import { CapstanError } from '../../lib/errors.ts';
import { printResult, type Command } from '../command/command.ts';
import { flagOption, textOption } from '../../terminal/options.ts';
import { GATEWAY_SETTINGS, readSettings } from '../../terminal/config.ts';
import { connect } from '../../client/gateway.ts';

/** `capstan endpoints delete [endpoint]`: deletes one endpoint, or with --all every endpoint of an environment. */
export const endpointDelete: Command = {
  name: 'delete',
  summary: 'Delete an endpoint, or all endpoints of an environment. Queued jobs are cancelled.',
  arguments: [{ name: 'endpoint', description: 'id or name', optional: true }],
  options: [
    { flags: '--all', description: 'every endpoint of the environment' },
    { flags: '--env <environment>', description: 'the environment', default: 'default' },
    { flags: '--stop', description: 'also stop running jobs, which otherwise run to completion' },
  ],
  settings: GATEWAY_SETTINGS,
  json: true,
  confirm: ({ args: [endpoint], options }) => {
    mustNameOne(endpoint, flagOption(options, 'all'));
    const what = endpoint === undefined ? 'all endpoints' : `endpoint ${endpoint}`;
    return `Delete ${what} of environment ${textOption(options, 'env') ?? 'default'} and cancel the queued jobs?`;
  },
  examples: ['endpoints delete hello', 'endpoints delete hello --env staging --stop', 'endpoints delete --all --env staging'],
  async run(invocation) {
    const { args, options, env, terminal } = invocation;
    const [wanted] = args;
    mustNameOne(wanted, flagOption(options, 'all'));
    const { deleteEndpoints } = await import('../api/control.ts');
    const client = await connect(readSettings(options, env), env);
    const environment = textOption(options, 'env') ?? 'default';
    const rows = await deleteEndpoints(client, environment, wanted ?? null, flagOption(options, 'stop'));
    printResult(invocation, rows, () => {
      for (const row of rows) terminal.done(`Deleted endpoint ${row.name} in environment ${row.environment}`);
      if (rows.length === 0) terminal.warn(`Environment ${environment} has no endpoints`);
      terminal.next('capstan endpoints list');
    });
  },
};

/** @throws CapstanError INVALID_ARGUMENT for neither an endpoint nor --all, and for both. */
function mustNameOne(endpoint: string | undefined, all: boolean): void {
  if ((endpoint === undefined) !== all)
    throw new CapstanError('INVALID_ARGUMENT', 'endpoint: specify an endpoint, or --all for every endpoint of the environment', {
      field: 'endpoint',
    });
}
