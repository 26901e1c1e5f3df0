/** The control plane's changes that concern the whole service: webhook secrets. */

import type { StepResult } from './effects.ts';
import type { Command } from './events.ts';
import type { State } from './image.ts';
import type { Now } from './now.ts';
import { accountRow } from './keys.ts';
import { putRow } from './rows.ts';

/** Keeps the signing secret of an account that has none. */
export function putWebhookSecret(
  image: State,
  out: StepResult,
  call: number,
  command: Extract<Command, { kind: 'put-webhook-secret' }>,
): void {
  const known = accountRow(image, command.account);
  if (known.webhookSecretSealed !== null) {
    out.do({ kind: 'answer', call, result: { kind: 'done' } });
    return;
  }
  const row = { ...known, webhookSecretSealed: command.sealed };
  image.accounts.set(command.account, row);
  out.do({ kind: 'answer', call, result: { kind: 'done' } }, putRow(image, out, 'account', command.account, row));
}

/** How long webhooks are signed with the secret before the present one, too, ms. */
export const secretOverlapMs = 86_400_000;

/** Replaces the signing secret of an account. Only the last one before it goes on signing. */
export function rotateWebhookSecret(
  image: State,
  out: StepResult,
  now: Now,
  call: number,
  { account, sealed }: Extract<Command, { kind: 'rotate-webhook-secret' }>,
): void {
  const known = accountRow(image, account);
  const before = known.webhookSecretSealed;
  const row = {
    ...known,
    webhookSecretSealed: sealed,
    ...(before === null ? {} : { previousWebhookSecret: { sealed: before, until: now.wall + secretOverlapMs } }),
  };
  image.accounts.set(account, row);
  out.do({ kind: 'answer', call, result: { kind: 'done' } }, putRow(image, out, 'account', account, row));
}
