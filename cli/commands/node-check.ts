import { readFileSync } from 'node:fs';
import { parseEnv } from 'node:util';

import { CapstanError, errorTable } from '../../lib/errors.ts';
import { isErrno, messageOf } from '../../lib/to-error.ts';
import { printResult, type Command } from '../command.ts';
import { textOption } from '../options.ts';

/** Where the systemd unit of the agent has its settings. */
const ENV_FILE = '/etc/capstan/agent.env';

/** `capstan node check`: the GPUs of this host, as its agent would use them. */
export const nodeCheck: Command = {
  name: 'check',
  summary: 'Check the GPUs of this host under the settings of its agent. Needs no network and no running agent.',
  options: [{ flags: '--env-file <path>', description: `settings of the agent; ${ENV_FILE} if it exists` }],
  json: true,
  examples: ['node check', 'node check --json'],
  async run(invocation) {
    const { options, env, terminal } = invocation;
    const [{ readConfig }, { checkNode }] = await Promise.all([import('../../agent/config.ts'), import('../../agent/node-check.ts')]);
    const file = textOption(options, 'envFile');
    const rows = await checkNode(readConfig({}, { ...variablesOf(file), ...env.variables }));
    printResult(invocation, rows, () => {
      for (const { check, result, value, hint } of rows) {
        const line = `${check}: ${value}`;
        if (result === 'pass') terminal.done(line);
        else if (result === 'skip') terminal.warn(`${check} skipped: ${value}`);
        else terminal.fail(line);
        if (hint !== '') terminal.hint(hint);
      }
    });
    return rows.some(({ result }) => result === 'fail') ? errorTable.CONFIG.exit : 0;
  },
};

/** Variables of a file as systemd reads it. One that is not named may be absent, or be another user's. */
function variablesOf(path: string | undefined): NodeJS.ProcessEnv {
  try {
    return parseEnv(readFileSync(path ?? ENV_FILE, 'utf8'));
  } catch (error) {
    if (path === undefined && (isErrno(error, 'ENOENT') || isErrno(error, 'EACCES'))) return {};
    throw new CapstanError('CONFIG', `--env-file: cannot read ${path ?? ENV_FILE}: ${messageOf(error)}`, {
      field: 'envFile',
      cause: error,
    });
  }
}
