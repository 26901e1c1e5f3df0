/** Fields of accounts, keys, cells and the cluster. */
import type { ClusterRow } from '../../lib/cluster-list.ts';
import { CapstanError } from '../../lib/errors.ts';
import type { AccountInfo, IsolationRulesPatch } from '../../proto/gen/capstan/v1/control.ts';
import type { Placed } from './control-calls.ts';
import { whole } from './endpoint-form.ts';
import { accountShape, cellShape, keyShape, scopeOf, type ScopeName } from './shapes.ts';
import type { Fields } from './fields.ts';
import { firstOf, pageOf, type Optional, type Page } from './pages.ts';

interface QuotaInputs {
  readonly workerQuota?: Optional<number>;
  readonly buildQuotaBytes?: Optional<number>;
  readonly bodyQuotaBytes?: Optional<number>;
  readonly isolation?: Optional<{
    readonly least?: Optional<string>;
    readonly runtimes?: Optional<readonly string[]>;
    readonly network?: Optional<string>;
  }>;
}

function isolationPatch(given: QuotaInputs['isolation']): { isolation?: IsolationRulesPatch } {
  if (given === undefined || given === null) return {};
  const { least, runtimes, network } = given;
  return {
    isolation: {
      least: least ?? undefined,
      network: network ?? undefined,
      runtimes: [...(runtimes ?? [])],
      setRuntimes: runtimes !== undefined && runtimes !== null,
    },
  };
}

function storageQuotas(given: Omit<QuotaInputs, 'workerQuota' | 'isolation'>): { buildQuotaBytes?: bigint; bodyQuotaBytes?: bigint } {
  const bytes = (name: 'buildQuotaBytes' | 'bodyQuotaBytes'): object => {
    const value = given[name] ?? null;
    if (value === null) return {};
    if (!Number.isSafeInteger(value) || value < 0)
      throw new CapstanError('INVALID_ARGUMENT', `${name}: must be a whole number of bytes, 0 or more`, { field: name });
    return { [name]: BigInt(value) };
  };
  return { ...bytes('buildQuotaBytes'), ...bytes('bodyQuotaBytes') };
}

export function accountFields({ calls, changes, call, change, isOperator, cluster }: Fields) {
  return {
    cells: async () => (await call((control) => control.listCells, {})).cells.map(cellShape),
    apiKeys: async ({ account }: { account?: Optional<string> }) =>
      (await calls.ofAccount(account ?? '', (control) => control.listKeys, { account: account ?? '' })).reply.keys.map(keyShape),
    account: async () => placedAccount(await calls.at('', (control) => control.getAccount, {})),
    accounts: async (page: Page) => {
      const found = await calls.all((control) => control.listAccounts, pageOf(page));
      return firstOf(
        page,
        found.flatMap(({ cell, reply }) => reply.accounts.map((account) => ({ ...accountShape(account), id: account.id, cell }))),
      );
    },
    cluster: (): Promise<ClusterRow> => {
      // The scheduler checks no key here: it may be a standby, which has none.
      if (isOperator) return cluster();
      throw new CapstanError('PERMISSION_DENIED', 'the key is not permitted to make this call; it requires the scope OPERATOR');
    },
    createApiKey: async (asked: {
      name: string;
      scope: ScopeName;
      endpoints?: Optional<string[]>;
      environment?: Optional<string>;
      expiresInS?: Optional<number>;
      account?: Optional<string>;
    }) => {
      const { reply: made } = await changes.ofAccount(asked.account ?? '', (control) => control.createKey, {
        name: asked.name,
        scope: scopeOf(asked.scope),
        endpoints: asked.endpoints ?? [],
        environment: asked.environment ?? '',
        expiresInS: whole('expiresInS', asked.expiresInS ?? 0),
        account: asked.account ?? '',
      });
      return { plaintext: made.text, text: made.text, key: made.key === undefined ? null : keyShape(made.key) };
    },
    revokeApiKey: async ({ id, account }: { id: string; account?: Optional<string> }) => {
      const { reply } = await changes.ofAccount(account ?? '', (control) => control.revokeKey, { id, account: account ?? '' });
      const { key: revoked } = reply;
      return revoked === undefined ? null : keyShape(revoked);
    },
    createAccount: async ({
      id,
      cell: wanted,
      workerQuota,
      isolation,
      ...storage
    }: { id: string; cell?: Optional<string> } & QuotaInputs) => {
      const quotas = { workerQuota: whole('workerQuota', workerQuota ?? 0), ...storageQuotas(storage) };
      const request = { id, ...quotas, ...isolationPatch(isolation) };
      const { cell, reply: made } = await changes.at(wanted ?? '', (control) => control.createAccount, request);
      return { account: made.account === undefined ? null : { ...accountShape(made.account), cell }, keyText: made.keyText };
    },
    updateAccount: async ({ id, workerQuota, isolation, ...storage }: { id: string } & QuotaInputs) => {
      const workers = workerQuota ?? null;
      const quotas = { ...(workers === null ? {} : { workerQuota: whole('workerQuota', workers) }), ...storageQuotas(storage) };
      const request = { id, ...quotas, ...isolationPatch(isolation) };
      return placedAccount(await changes.ofAccount(id, (control) => control.updateAccount, request));
    },
    deleteAccount: async (asked: { id: string; force: boolean; stopJobs: boolean }) =>
      placedAccount(await changes.ofAccount(asked.id, (control) => control.deleteAccount, asked)),
    moveAccount: async ({ id, cell }: { id: string; cell: string }) => {
      await changes.ofAccount(id, (control) => control.moveAccount, { id, cell });
      return id;
    },
    createCell: async ({ name }: { name: string }) => cellShape(await change((control) => control.createCell, { name })),
  };
}

function placedAccount({ cell, reply }: Placed<AccountInfo>): object {
  return { ...accountShape(reply), cell };
}
