import { CapstanError } from '../../proto/errors.ts';
import type { AccountRow } from '../api/control.ts';
import { takesOnly, type Command, type Invocation } from '../command.ts';
import { flagOption, textOption } from '../options.ts';
import { readSettings, settingOptions } from '../config.ts';
import { connect } from '../gateway.ts';
import { renderTable } from '../terminal/table.ts';

const ACTIONS = ['show', 'list', 'create', 'quota'] as const;

/** `capstan account [action] [account]`: one's own, and for operators all. */
export const accounts: Command = {
  name: 'account',
  summary: 'Show the account and its quota; for operators: list, create, set a quota.',
  arguments: [
    { name: 'action', description: `${ACTIONS.join(', ')}; show when left out`, optional: true },
    { name: 'account', description: 'create, quota: its id', optional: true },
  ],
  options: [
    { flags: '--workers <count>', description: 'create, quota: workers it may have; left out: the service’s default' },
    { flags: '--json', description: 'print JSON' },
    ...settingOptions('url', 'httpPort', 'dataDir'),
  ],
  async run(invocation) {
    const { args, options, env, terminal } = invocation;
    const [given = 'show', id] = args;
    const action = ACTIONS.find((name) => name === given);
    if (action === undefined)
      throw new CapstanError('INVALID_ARGUMENT', `action: must be one of ${ACTIONS.join(', ')}`, { field: 'action' });
    if (action === 'show' || action === 'list') takesOnly(action, args, 1);
    if ((action === 'create' || action === 'quota') && id === undefined)
      throw new CapstanError('INVALID_ARGUMENT', `account: ${action} needs an id`, { field: 'account' });
    const workers = readWorkers(textOption(options, 'workers'));
    const { createAccount, getAccount, listAccounts, setQuota } = await import('../api/control.ts');
    const client = await connect(readSettings(options, env), env);
    if (action === 'create') {
      const { account, keyText } = await createAccount(client, id ?? '', workers);
      if (flagOption(options, 'json')) {
        terminal.data(JSON.stringify({ ...account, key: keyText }, null, 2));
        return;
      }
      terminal.value(keyText);
      terminal.done(`account ${account.id} with a quota of ${account.quota.workers} workers; its key is shown this once`);
      return;
    }
    print(
      invocation,
      action === 'list'
        ? await listAccounts(client)
        : [action === 'quota' ? await setQuota(client, id ?? '', workers) : await getAccount(client)],
    );
  },
};

function print({ options, terminal }: Invocation, rows: readonly AccountRow[]): void {
  if (flagOption(options, 'json')) {
    terminal.data(JSON.stringify(rows, null, 2));
    return;
  }
  const cells = rows.map((row) => [row.id, String(row.endpoints), String(row.quota.used), String(row.quota.workers), row.createdAt ?? '']);
  terminal.data(renderTable(['ACCOUNT', 'ENDPOINTS', 'WORKERS MAX', 'QUOTA', 'CREATED'], cells));
}

function readWorkers(text: string | undefined): number | null {
  if (text === undefined) return null;
  if (/^[1-9]\d{0,5}$/.test(text)) return Number(text);
  throw new CapstanError('INVALID_ARGUMENT', '--workers: must be a whole number above 0', { field: '--workers' });
}
