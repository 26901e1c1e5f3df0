/** Control plane changes that concern the whole service: webhook secrets. */

import type { StepContext } from '../context.ts';
import type { Command } from '../events.ts';
import { accountRow } from '../endpoints/quotas.ts';
import { putRow } from '../rows.ts';

/** Stores a signing secret for an account that has none. */
export function putWebhookSecret(ctx: StepContext, call: number, command: Extract<Command, { kind: 'put-webhook-secret' }>): void {
  const known = accountRow(ctx.state, command.account);
  if (known.webhookSecretSealed !== null) {
    ctx.reply(call, { kind: 'done' });
    return;
  }
  const row = { ...known, webhookSecretSealed: command.encrypted };
  ctx.state.accounts.set(command.account, row);
  ctx.reply(call, { kind: 'done' }, putRow(ctx, 'account', command.account, row));
}

/** Time for which webhooks are also signed with the previous secret, ms. */
export const SECRET_OVERLAP_MS = 86_400_000;

/** Replaces the signing secret of an account. Only the latest previous secret still signs. */
export function rotateWebhookSecret(
  ctx: StepContext,
  call: number,
  { account, encrypted }: Extract<Command, { kind: 'rotate-webhook-secret' }>,
): void {
  const known = accountRow(ctx.state, account);
  const before = known.webhookSecretSealed;
  const row = {
    ...known,
    webhookSecretSealed: encrypted,
    ...(before === null ? {} : { previousWebhookSecret: { sealed: before, until: ctx.now.wall + SECRET_OVERLAP_MS } }),
  };
  ctx.state.accounts.set(account, row);
  ctx.reply(call, { kind: 'done' }, putRow(ctx, 'account', account, row));
}
