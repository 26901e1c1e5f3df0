/**
 * Where accounts are told of incidents (scheduler/alerts). A channel remembers of which incidents it was told, so that a scheduler that
 * takes over tells it of none again.
 */
import { CapstanError } from '../../../lib/errors.ts';

import type { StepContext } from '../context.ts';
import type { Command } from '../events.ts';
import { putRow } from '../rows.ts';
import type { State } from '../state.ts';
import { alertChannelKey, type AlertChannelRow } from '../state/control-rows.ts';

/** Channels of an account. */
export const MAX_ALERT_CHANNELS = 10;

/** Returns the channels of an account, the oldest first. */
export function alertChannelsOf(state: State, account: string): AlertChannelRow[] {
  const own = [...state.alertChannels.values()].filter((channel) => channel.account === account);
  return own.toSorted((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1));
}

export function putAlertChannel(
  ctx: StepContext,
  call: number,
  { account, channel }: Extract<Command, { kind: 'put-alert-channel' }>,
): void {
  if (alertChannelsOf(ctx.state, account).length >= MAX_ALERT_CHANNELS) {
    const rule = `the account already has ${MAX_ALERT_CHANNELS} alert channels; remove one first`;
    ctx.reply(call, new CapstanError('QUOTA_EXCEEDED', `address: ${rule}`, { field: 'address' }));
    return;
  }
  const row: AlertChannelRow = { ...channel, account, createdAt: ctx.now.wall, told: [], failure: '' };
  ctx.state.alertChannels.set(alertChannelKey(row), row);
  ctx.reply(call, { kind: 'done' }, putRow(ctx, 'alert-channel', alertChannelKey(row), row));
}

export function deleteAlertChannel(ctx: StepContext, call: number, command: Extract<Command, { kind: 'delete-alert-channel' }>): void {
  const key = alertChannelKey(command);
  if (!ctx.state.alertChannels.delete(key)) {
    ctx.reply(call, alertChannelNotFound(command.id));
    return;
  }
  ctx.reply(call, { kind: 'done' }, putRow(ctx, 'alert-channel', key, null));
}

export function noteAlerts(ctx: StepContext, call: number, command: Extract<Command, { kind: 'note-alerts' }>): void {
  const key = alertChannelKey(command);
  const known = ctx.state.alertChannels.get(key);
  if (known === undefined) {
    ctx.reply(call, alertChannelNotFound(command.id));
    return;
  }
  const row = { ...known, ...command.change };
  ctx.state.alertChannels.set(key, row);
  ctx.reply(call, { kind: 'done' }, putRow(ctx, 'alert-channel', key, row));
}

/** Deletes the channels of a deleted account. */
export function dropAlertChannels(ctx: StepContext, account: string): void {
  for (const channel of alertChannelsOf(ctx.state, account)) {
    const key = alertChannelKey(channel);
    ctx.state.alertChannels.delete(key);
    putRow(ctx, 'alert-channel', key, null);
  }
}

export function alertChannelNotFound(id: string): CapstanError {
  return new CapstanError('NOT_FOUND', `id: alert channel ${id} does not exist`, { field: 'id' });
}
