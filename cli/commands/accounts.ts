import { CapstanError } from '../../lib/errors.ts';
import type { AccountRow } from '../api/control.ts';
import { takesOnly, type Command, type Invocation } from '../command.ts';
import { flagOption, textOption } from '../options.ts';
import { readSettings, settingOptions } from '../config.ts';
import { sizeText } from '../deploy/size-text.ts';
import { connect } from '../gateway.ts';
import { renderTable } from '../terminal/table.ts';

const ACTIONS = ['show', 'list', 'create', 'quota'] as const;

/** `capstan account [action] [account]`: one's own, and for operators all. */
export const accounts: Command = {
  name: 'account',
  summary: 'Show the account, its quotas and what it uses; for operators: list, create, set quotas (without any: the defaults again).',
  arguments: [
    { name: 'action', description: `${ACTIONS.join(', ')}; show when left out`, optional: true },
    { name: 'account', description: 'create, quota: its id', optional: true },
  ],
  options: [
    { flags: '--workers <count>', description: 'create, quota: workers it may have' },
    { flags: '--build-bytes <size>', description: 'create, quota: builds it may keep, unfinished uploads included, for example 50GB' },
    {
      flags: '--body-bytes <size>',
      description: 'create, quota: inputs and outputs above 64 KiB that its jobs may keep, for example 10GB',
    },
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
    const quotas = {
      workerQuota: readWorkers(textOption(options, 'workers')),
      buildQuotaBytes: readSize('--build-bytes', textOption(options, 'buildBytes')),
      bodyQuotaBytes: readSize('--body-bytes', textOption(options, 'bodyBytes')),
    };
    const { createAccount, getAccount, listAccounts, setQuota } = await import('../api/control.ts');
    const client = await connect(readSettings(options, env), env);
    if (action === 'create') {
      const { account, keyText } = await createAccount(client, id ?? '', quotas);
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
        : [action === 'quota' ? await setQuota(client, id ?? '', quotas) : await getAccount(client)],
    );
  },
};

function print({ options, terminal }: Invocation, rows: readonly AccountRow[]): void {
  if (flagOption(options, 'json')) {
    terminal.data(JSON.stringify(rows, null, 2));
    return;
  }
  const use = ({ used, quota }: { readonly used: number; readonly quota: number }): string => `${sizeText(used)} of ${sizeText(quota)}`;
  const cells = rows.map(({ id, endpoints, quota, storage, createdAt }) => {
    const counts = [endpoints, quota.used, quota.workers].map(String);
    return [id, ...counts, use(storage.builds), use(storage.bodies), createdAt ?? ''];
  });
  terminal.data(renderTable(['ACCOUNT', 'ENDPOINTS', 'WORKERS MAX', 'QUOTA', 'BUILDS', 'BODIES', 'CREATED'], cells));
}

function readWorkers(text: string | undefined): number | null {
  if (text === undefined) return null;
  if (/^[1-9]\d{0,5}$/.test(text)) return Number(text);
  throw new CapstanError('INVALID_ARGUMENT', '--workers: must be a whole number above 0', { field: '--workers' });
}

const UNITS: Readonly<Record<string, number>> = { '': 1, b: 1, kb: 1e3, mb: 1e6, gb: 1e9, tb: 1e12 };

/** A size in bytes, or in units of 1,000 as `10GB`. */
function readSize(flag: string, text: string | undefined): number | null {
  if (text === undefined) return null;
  const [, digits = '', unit = ''] = /^(\d{1,15}(?:\.\d{1,3})?) ?([a-z]*)$/i.exec(text) ?? [];
  const bytes = Math.round(Number(digits) * (UNITS[unit.toLowerCase()] ?? Number.NaN));
  if (digits !== '' && bytes > 0 && Number.isSafeInteger(bytes)) return bytes;
  throw new CapstanError('INVALID_ARGUMENT', `${flag}: must be a size above 0 in bytes, or with kB, MB, GB or TB`, { field: flag });
}
