import { CapstanError } from '../../lib/errors.ts';
import { ISOLATION_LEVELS, ACCOUNT_NETWORKS, WORKER_RUNTIMES } from '../../lib/isolation.ts';
import type { AccountChanges, AccountRow, IsolationRulesPatch } from '../api/control.ts';
import { printResult, type Command, type CommandGroup, type Invocation } from '../command/command.ts';
import { countOption, flagOption, textOption, type OptionSpec, type OptionValues } from '../../terminal/options.ts';
import { GATEWAY_SETTINGS, readSettings } from '../../terminal/config.ts';
import { sizeText } from '../../terminal/size-text.ts';
import { connect } from '../../client/gateway.ts';
import { ageOf } from '../../terminal/age.ts';
import { cellColumn, cellOption } from './cells.ts';

const accountArgument = { name: 'account', description: 'id of the account' };

/** Options of quotas and rules; `otherwise` describes what applies when an option is absent. */
const accountOptions = (otherwise: string): readonly OptionSpec[] => [
  { flags: '--workers <count>', description: 'quota of workers: the sum of workersMax over its endpoints', default: otherwise },
  { flags: '--build-bytes <size>', description: 'quota of stored builds and uploads, such as 50GB', default: otherwise },
  { flags: '--body-bytes <size>', description: 'quota of inputs and outputs of jobs, such as 10GB', default: otherwise },
  { flags: '--isolation <level>', description: `minimum isolation of its workers: ${ISOLATION_LEVELS.join(', ')}`, default: otherwise },
  {
    flags: '--runtimes <names>',
    description: 'allowed runtimes, separated by commas: thread, process, container; or all',
    default: otherwise,
  },
  { flags: '--network <network>', description: `widest network of its workers: ${ACCOUNT_NETWORKS.join(', ')}`, default: otherwise },
];

const get: Command = {
  name: 'get',
  summary: 'Show the account of the API key, its quotas and its usage.',
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['account get'],
  async run(invocation) {
    const { options, env } = invocation;
    const { getAccount } = await import('../api/control.ts');
    print(invocation, [await getAccount(await connect(readSettings(options, env), env))]);
  },
};

const list: Command = {
  name: 'list',
  summary: 'List all accounts. Requires an operator key.',
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['account list'],
  async run(invocation) {
    const { options, env } = invocation;
    const { listAccounts } = await import('../api/control.ts');
    print(invocation, await listAccounts(await connect(readSettings(options, env), env)));
  },
};

const create: Command = {
  name: 'create',
  summary: 'Create an account and its first API key, which is shown only once. Requires an operator key.',
  arguments: [accountArgument],
  options: [...accountOptions('the service default'), cellOption('cell of the account')],
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['account create team --workers 10 --build-bytes 50GB', 'account create team --isolation container'],
  async run(invocation) {
    const { args, options, env, terminal } = invocation;
    const given = { ...readChanges(options), cell: textOption(options, 'cell') ?? null };
    const { createAccount } = await import('../api/control.ts');
    const { account, keyText } = await createAccount(await connect(readSettings(options, env), env), args[0] ?? '', given);
    if (flagOption(options, 'json')) {
      terminal.data(JSON.stringify({ ...account, key: keyText }, null, 2));
      return;
    }
    terminal.value(keyText);
    terminal.done(`Created account ${account.id} with a quota of ${account.quota.workers} workers`);
    terminal.warn("Save this key; it won't be shown again");
  },
};

const set: Command = {
  name: 'set',
  summary: 'Change quotas and rules of an account; without any option, all quotas return to the defaults. Requires an operator key.',
  arguments: [accountArgument],
  options: accountOptions('unchanged'),
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['account set team --workers 60', 'account set team --isolation sandbox --network outbound', 'account set team'],
  async run(invocation) {
    const { args, options, env } = invocation;
    const changes = readChanges(options);
    const { updateAccount } = await import('../api/control.ts');
    print(invocation, [await updateAccount(await connect(readSettings(options, env), env), args[0] ?? '', changes)]);
  },
};

const remove: Command = {
  name: 'delete',
  summary: 'Delete an account with its keys and environments. Its id cannot be used again. Requires an operator key.',
  arguments: [accountArgument],
  options: [
    { flags: '--force', description: 'also delete its endpoints' },
    { flags: '--stop', description: 'also stop running jobs, which otherwise run to completion' },
  ],
  settings: GATEWAY_SETTINGS,
  json: true,
  confirm: ({ args: [account = ''], options }) =>
    `Delete account ${account} with its keys and environments${flagOption(options, 'force') ? ' and all of its endpoints' : ''}?`,
  examples: ['account delete team', 'account delete team --force --stop'],
  async run(invocation) {
    const { args, options, env, terminal } = invocation;
    const { deleteAccount } = await import('../api/control.ts');
    const client = await connect(readSettings(options, env), env);
    const request = { id: args[0] ?? '', force: flagOption(options, 'force'), stopJobs: flagOption(options, 'stop') };
    const deleted = await deleteAccount(client, request);
    printResult(invocation, deleted, () => terminal.done(`Deleted account ${deleted.id}`));
  },
};

/** `capstan account`: the account of the key; for operators, all accounts. */
export const accounts: CommandGroup = {
  name: 'account',
  summary: 'Show the account and its usage; for operators: list, create and delete accounts, and set their quotas and rules.',
  commands: [get, list, create, set, remove],
};

function print(invocation: Invocation, rows: readonly AccountRow[]): void {
  const use = ({ used, quota }: { readonly used: number; readonly quota: number }): string => `${sizeText(used)}/${sizeText(quota)}`;
  printResult(invocation, rows, () => {
    const column = cellColumn(rows);
    const cells = rows.map(({ id, cell, endpoints, quota, storage, isolation, createdAt }) => [
      id,
      ...column.of(cell),
      String(endpoints),
      `${quota.used}/${quota.workers}`,
      use(storage.builds),
      use(storage.bodies),
      isolation === null
        ? ''
        : `${isolation.least}${isolation.runtimes.length === WORKER_RUNTIMES.length ? '' : ` (${isolation.runtimes.join(', ')})`}`,
      isolation?.network ?? '',
      ageOf(createdAt),
    ]);
    invocation.terminal.table({
      head: ['ID', ...column.head, 'ENDPOINTS', 'MAX WORKERS', 'BUILDS', 'BODIES', 'ISOLATION', 'NETWORK', 'AGE'],
      rows: cells,
      optional: ['NETWORK', 'ISOLATION', 'BODIES', 'BUILDS', 'AGE'],
    });
  });
}

function readChanges(options: OptionValues): AccountChanges {
  return {
    workerQuota: countOption(options, 'workers', '--workers') ?? null,
    buildQuotaBytes: readSize('--build-bytes', textOption(options, 'buildBytes')),
    bodyQuotaBytes: readSize('--body-bytes', textOption(options, 'bodyBytes')),
    isolation: readRules(options),
  };
}

/** Returns null when no rule is given. */
function readRules(options: OptionValues): IsolationRulesPatch | null {
  const [least, network, names] = [textOption(options, 'isolation'), textOption(options, 'network'), textOption(options, 'runtimes')];
  if (least === undefined && network === undefined && names === undefined) return null;
  return {
    ...(least === undefined ? {} : { least: oneOf('--isolation', least, ISOLATION_LEVELS) }),
    ...(network === undefined ? {} : { network: oneOf('--network', network, ACCOUNT_NETWORKS) }),
    ...(names === undefined
      ? {}
      : { runtimes: names === 'all' ? [] : names.split(',').map((name) => oneOf('--runtimes', name.trim(), WORKER_RUNTIMES)) }),
  };
}

function oneOf(flag: string, value: string, allowed: readonly string[]): string {
  if (allowed.includes(value)) return value;
  throw new CapstanError('INVALID_ARGUMENT', `${flag}: ${JSON.stringify(value)} must be one of ${allowed.join(', ')}`, { field: flag });
}

const UNITS: Readonly<Record<string, number>> = { '': 1, b: 1, kb: 1e3, mb: 1e6, gb: 1e9, tb: 1e12 };

/** A size in bytes, or in units of 1,000 as `10GB`. */
function readSize(flag: string, text: string | undefined): number | null {
  if (text === undefined) return null;
  const [, digits = '', unit = ''] = /^(\d{1,15}(?:\.\d{1,3})?) ?([a-z]*)$/i.exec(text) ?? [];
  const bytes = Math.round(Number(digits) * (UNITS[unit.toLowerCase()] ?? Number.NaN));
  if (digits !== '' && bytes > 0 && Number.isSafeInteger(bytes)) return bytes;
  throw new CapstanError('INVALID_ARGUMENT', `${flag}: must be a size above 0 in bytes, or with kB, MB, GB or TB, such as 10GB`, {
    field: flag,
  });
}
