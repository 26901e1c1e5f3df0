/** Fields of accounts, keys, cells and the cluster. */
import { CapstanError } from '../../lib/errors.ts';
import { KeyScope, type AccountInfo, type IsolationRulesPatch } from '../../proto/gen/capstan/v1/control.ts';
import type { Placed } from './control-calls.ts';
import { whole } from './endpoint-form.ts';
import { accountShape, cellShape, keyShape } from './shapes.ts';
import type { Fields } from './fields.ts';
import type * as Schema from './gen/schema.ts';
import { firstOf, pageOf } from './pages.ts';
import { present } from './message-values.ts';

function isolationPatch(inputs: Schema.UpdateAccountArguments['isolation']): { isolation?: IsolationRulesPatch } {
  if (inputs === undefined || inputs === null) return {};
  const { least, runtimes, network } = inputs;
  return {
    isolation: {
      least: least ?? undefined,
      network: network ?? undefined,
      runtimes: [...(runtimes ?? [])],
      setRuntimes: runtimes !== undefined && runtimes !== null,
    },
  };
}

function storageQuotas(inputs: Pick<Schema.UpdateAccountArguments, 'buildQuotaBytes' | 'bodyQuotaBytes'>): {
  buildQuotaBytes?: bigint;
  bodyQuotaBytes?: bigint;
} {
  const builds = quotaOf('buildQuotaBytes', inputs.buildQuotaBytes);
  const bodies = quotaOf('bodyQuotaBytes', inputs.bodyQuotaBytes);
  return {
    ...(builds === undefined ? {} : { buildQuotaBytes: builds }),
    ...(bodies === undefined ? {} : { bodyQuotaBytes: bodies }),
  };
}

function quotaOf(name: string, value: number | null | undefined): bigint | undefined {
  if (value === null || value === undefined) return undefined;
  if (Number.isSafeInteger(value) && value >= 0) return BigInt(value);
  throw new CapstanError('INVALID_ARGUMENT', `${name}: must be a whole number of bytes, 0 or more`, { field: name });
}

export function accountFields({ calls, changes, call, change, isOperator, cluster }: Fields) {
  return {
    cells: async () => (await call((control) => control.listCells, {})).cells.map(cellShape),
    apiKeys: async ({ account }) =>
      (await calls.ofAccount(account ?? '', (control) => control.listKeys, { account: account ?? '' })).reply.keys.map(keyShape),
    account: async () => placedAccount(await calls.at('', (control) => control.getAccount, {})),
    accounts: async (page) => {
      const found = await calls.all((control) => control.listAccounts, pageOf(page));
      return firstOf(
        page,
        found.flatMap(({ cell, reply }) => reply.accounts.map((account) => accountShape(account, cell))),
      );
    },
    cluster: () => {
      // The scheduler checks no key here: it may be a standby, which has none.
      if (isOperator) return cluster();
      throw new CapstanError('PERMISSION_DENIED', 'the key is not permitted to make this call; it requires the scope OPERATOR');
    },
    createApiKey: async ({ name, scope, endpoints, environment, expiresInS, account }) => {
      const { reply: made } = await changes.ofAccount(account ?? '', (control) => control.createKey, {
        name,
        scope: KeyScope[scope],
        endpoints: [...(endpoints ?? [])],
        environment: environment ?? '',
        expiresInS: whole('expiresInS', expiresInS ?? 0),
        account: account ?? '',
      });
      return { plaintext: made.text, text: made.text, key: keyShape(present(made.key, 'key')) };
    },
    revokeApiKey: async ({ id, account }) => {
      const { reply } = await changes.ofAccount(account ?? '', (control) => control.revokeKey, { id, account: account ?? '' });
      return keyShape(present(reply.key, 'key'));
    },
    createAccount: async ({ id, cell: wanted, workerQuota, isolation, ...storage }) => {
      const quotas = { workerQuota: whole('workerQuota', workerQuota ?? 0), ...storageQuotas(storage) };
      const request = { id, ...quotas, ...isolationPatch(isolation) };
      const { cell, reply: made } = await changes.at(wanted ?? '', (control) => control.createAccount, request);
      return { account: accountShape(present(made.account, 'account'), cell), keyText: made.keyText };
    },
    updateAccount: async ({ id, workerQuota, isolation, ...storage }) => {
      const workers = workerQuota ?? null;
      const quotas = { ...(workers === null ? {} : { workerQuota: whole('workerQuota', workers) }), ...storageQuotas(storage) };
      const request = { id, ...quotas, ...isolationPatch(isolation) };
      return placedAccount(await changes.ofAccount(id, (control) => control.updateAccount, request));
    },
    deleteAccount: async ({ id, force, stopJobs }) => {
      const request = { id, force: force === true, stopJobs: stopJobs === true };
      return placedAccount(await changes.ofAccount(id, (control) => control.deleteAccount, request));
    },
    moveAccount: async ({ id, cell }) => {
      await changes.ofAccount(id, (control) => control.moveAccount, { id, cell });
      return id;
    },
    createCell: async ({ name }) => cellShape(await change((control) => control.createCell, { name })),
  } satisfies Partial<Schema.Root>;
}

function placedAccount({ cell, reply }: Placed<AccountInfo>): Schema.Account {
  return accountShape(reply, cell);
}
