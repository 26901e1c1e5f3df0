import { CapstanError } from '../../lib/errors.ts';
import type { Command } from '../command.ts';
import { flagOption, textOption } from '../options.ts';
import { readSettings, settingOptions } from '../config.ts';
import { connect } from '../gateway.ts';

/** `capstan undeploy [endpoint]`: deletes one endpoint, or with --all every one of an environment. */
export const undeploy: Command = {
  name: 'undeploy',
  summary: 'Delete an endpoint, or all of an environment. Queued jobs end CANCELLED.',
  arguments: [{ name: 'endpoint', description: 'id or name', optional: true }],
  options: [
    { flags: '--all', description: 'every endpoint of the environment' },
    { flags: '--env <environment>', description: 'the environment (default)' },
    { flags: '--stop', description: 'stop running jobs, too; else they go on to their end' },
    { flags: '--json', description: 'print JSON' },
    ...settingOptions('url', 'httpPort', 'dataDir'),
  ],
  async run({ args, options, env, terminal }) {
    const [wanted] = args;
    const all = flagOption(options, 'all');
    if ((wanted === undefined) !== all)
      throw new CapstanError('INVALID_ARGUMENT', 'endpoint: name one, or give --all for every one of the environment', {
        field: 'endpoint',
      });
    const { undeploy: remove } = await import('../api/control.ts');
    const client = await connect(readSettings(options, env), env);
    const rows = await remove(client, textOption(options, 'env') ?? 'default', wanted ?? null, flagOption(options, 'stop'));
    if (flagOption(options, 'json')) {
      terminal.data(JSON.stringify(rows, null, 2));
      return;
    }
    for (const { name, environment } of rows) terminal.done(`${name} of environment ${environment} is deleted`);
    if (rows.length === 0) terminal.warn('the environment has no endpoints');
    terminal.next('capstan endpoints');
  },
};
