/** Rows of accounts, and the limits that they set. */
import type { State } from '../state.ts';
import type { AccountRow } from '../state/control-rows.ts';

const noAccount: AccountRow = { webhookSecretSealed: null, workerQuota: null, buildQuota: null, bodyQuota: null, createdAt: 0 };

/** Returns an account's row. The first account has no row until a value of it is stored. */
export function accountRow(state: State, account: string): AccountRow {
  return { ...noAccount, ...state.accounts.get(account) };
}

/** Limit for the sum of workersMax over an account's endpoints. */
export function quotaOf(state: State, account: string): number {
  return accountRow(state, account).workerQuota ?? state.settings.workerQuota;
}

/** Limit for the bytes of the account's builds, including unfinished uploads. */
export function buildQuotaOf(state: State, account: string): number {
  return accountRow(state, account).buildQuota ?? state.settings.buildQuotaBytes;
}

/** Limit for the bytes of the account's bodies above the inline size. */
export function bodyQuotaOf(state: State, account: string): number {
  return accountRow(state, account).bodyQuota ?? state.settings.bodyQuotaBytes;
}
