import { readdirSync, readFileSync } from 'node:fs';
import { constants } from 'node:os';
import { resolve } from 'node:path';
import { parseEnv } from 'node:util';

import type { NodeCheckRow } from '../../agent/node-check.ts';
import { CapstanError, errorTable } from '../../lib/errors.ts';
import { isErrno, messageOf } from '../../lib/to-error.ts';
import { printResult, type Command } from '../command/command.ts';
import { checkWorkers } from '../node-check/workers.ts';
import { countOption, flagOption, textOption } from '../../terminal/options.ts';
import type { Terminal } from '../../terminal/terminal.ts';

/** Where the systemd unit of the agent has its settings. */
const ENV_FILE = '/etc/capstan/agent.env';
/** Time for the part with workers, s. */
const LIMIT_S = 345;

/** `capstan node check`: the GPUs of this host, as its agent would use them. */
export const nodeCheck: Command = {
  name: 'check',
  summary:
    'Check the GPUs of this host under the settings of its agent, then with workers of a service of its own. Needs no network and no running agent.',
  options: [
    { flags: '--env-file <path>', description: `settings of the agent; ${ENV_FILE} if it exists` },
    { flags: '--host-only', description: 'start no workers; takes seconds' },
    { flags: '--workers', description: 'start workers although the host has no device files of GPUs' },
    { flags: '--out <folder>', description: 'folder of the report gpu-check.json', default: 'capstan-gpu-check' },
    { flags: '--limit <seconds>', description: 'time for the part with workers', default: '345' },
    { flags: '--levels <names>', description: 'levels of isolation, separated by commas', default: 'sandbox,user,none,container' },
  ],
  json: true,
  examples: ['node check', 'node check --host-only --json'],
  async run(invocation) {
    const { options, env, terminal } = invocation;
    const [{ readConfig }, { checkNode }] = await Promise.all([import('../../agent/config.ts'), import('../../agent/node-check.ts')]);
    const file = textOption(options, 'envFile');
    const variables = { ...variablesOf(file), ...env.variables };
    const limit = countOption(options, 'limit', '--limit') ?? LIMIT_S;
    const out = resolve(textOption(options, 'out') ?? 'capstan-gpu-check');
    const rows = await checkNode(readConfig({}, variables));
    const isText = !flagOption(options, 'json');
    if (isText) for (const row of rows) printRow(terminal, row);
    const hasFailed = rows.some(({ result }) => result === 'fail');
    const reason = whyNoWorkers(rows, flagOption(options, 'hostOnly'), flagOption(options, 'workers'));
    let endedBy: NodeJS.Signals | undefined;
    if (reason === undefined) {
      if (isText) terminal.step(`starting a service of its own on this host's GPUs, for up to ${limit} s; --host-only leaves it out`);
      const levels = textOption(options, 'levels');
      const outcome = await checkWorkers({ variables, out, limit, ...(levels === undefined ? {} : { levels }) });
      rows.push(...outcome.rows);
      endedBy = outcome.endedBy;
    } else if (reason !== '') {
      const row: NodeCheckRow = { check: 'workers', result: 'skip', value: reason, hint: '' };
      rows.push(row);
      if (isText) printRow(terminal, row);
    }
    printResult(invocation, rows, () => undefined);
    if (endedBy !== undefined) return 128 + constants.signals[endedBy];
    return hasFailed || rows.some(({ result }) => result === 'fail') ? errorTable.CONFIG.exit : 0;
  },
};

/** Undefined: they are checked; empty: nothing is said of it. */
function whyNoWorkers(rows: readonly NodeCheckRow[], isHostOnly: boolean, isForced: boolean): string | undefined {
  // The first row alone: the host has no GPUs, or none that can be asked.
  if (isHostOnly || rows.length === 1) return '';
  if (rows.some(({ result }) => result === 'fail')) return 'the host has failed: workers are checked once it passes';
  if (isForced || hasDeviceFiles()) return undefined;
  return 'no device files of GPUs below /dev (--workers checks nevertheless)';
}

function hasDeviceFiles(): boolean {
  return readdirSync('/dev').some((name) => /^nvidia\d+$/.test(name));
}

function printRow(terminal: Terminal, { check, result, value, hint }: NodeCheckRow): void {
  const line = `${check}: ${value}`;
  if (result === 'pass') terminal.done(line);
  else if (result === 'skip') terminal.warn(`${check} skipped: ${value}`);
  else terminal.fail(line);
  if (hint !== '') terminal.hint(hint);
}

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
