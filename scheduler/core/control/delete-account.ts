/**
 * Deletes an account. After the commit its keys are unknown, its environments are deleted and its endpoints are removed
 * as by an undeploy. Its row stays to mark the id as used (see AccountRow.deletedAt).
 */
import { CapstanError } from '../../../lib/errors.ts';

import type { StepContext } from '../context.ts';
import type { Command } from '../events.ts';
import { putRow } from '../rows.ts';
import { liveEndpoints, type State } from '../state.ts';
import { accountExists, accountNotFound, removeKey } from './keys.ts';
import { accountRow } from '../endpoints/quotas.ts';
import { dropAlertChannels } from './alert-channels.ts';
import { dropSecrets } from './secrets.ts';
import { markRemoved } from './undeploy.ts';

export function deleteAccount(ctx: StepContext, call: number, command: Extract<Command, { kind: 'delete-account' }>): void {
  const { account, force, stopJobs } = command;
  const { state } = ctx;
  if (!accountExists(state, account)) {
    ctx.reply(call, accountNotFound(account, 'id'));
    return;
  }
  const live = liveEndpoints(state, account);
  if (live.length > 0 && !force) {
    const count = live.length === 1 ? '1 endpoint' : `${live.length} endpoints`;
    ctx.reply(call, new CapstanError('CONFLICT', `id: account ${account} has ${count}; delete them first, or use force`, { field: 'id' }));
    return;
  }
  markRemoved(ctx, live, stopJobs);
  if (stopJobs) {
    // Endpoints whose removal began earlier let their running jobs finish.
    const ending = [...state.endpoints.values()].filter(({ config }) => config.account === account && config.removing?.stopJobs === false);
    markRemoved(ctx, ending, true);
  }
  for (const key of [...state.keys.values()]) if (key.account === account) removeKey(ctx, key);
  for (const [key, environment] of state.environments) {
    if (environment.account !== account) continue;
    state.environments.delete(key);
    putRow(ctx, 'environment', key, null);
  }
  dropSecrets(ctx, (secret) => secret.account === account);
  dropAlertChannels(ctx, account);
  const row = { ...accountRow(state, account), deletedAt: ctx.now.wall };
  state.accounts.set(account, row);
  const write = putRow(ctx, 'account', account, row);
  ctx.emit({ kind: 'log', level: 'info', message: 'account deleted', facts: { account, endpoints: live.length } }, write);
  ctx.reply(call, { kind: 'done' }, write);
}

/**
 * Returns the error for a command on an account that was deleted while the command was in progress; null for any other
 * command.
 */
export function deletedAccount(state: State, command: Command): CapstanError | null {
  // Webhooks of the account's last jobs are still signed.
  if (command.kind === 'put-webhook-secret') return null;
  if (command.kind === 'put-account' || command.kind === 'delete-account') return null;
  const account = accountOf(command);
  if (account === null || state.accounts.get(account)?.deletedAt === undefined) return null;
  return accountNotFound(account, 'account');
}

function accountOf(command: Command): string | null {
  if (command.kind === 'put-key') return command.key.account;
  if (command.kind === 'put-session') return command.session.account;
  return 'account' in command ? command.account : null;
}
