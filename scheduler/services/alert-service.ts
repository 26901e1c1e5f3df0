/** Where an account is told of incidents, over gRPC. No reply has a whole address. */
import { randomBytes } from 'node:crypto';

import { CapstanError } from '../../lib/errors.ts';
import { AlertChannelKind, type AlertChannel, type ControlServiceServer } from '../../proto/gen/capstan/v1/control.ts';
import { alertChannelNotFound, alertChannelsOf } from '../core/control/alert-channels.ts';
import { places } from '../core/control/encryption.ts';
import type { State } from '../core/state.ts';
import { alertChannelKey, type AlertChannelRow } from '../core/state/control-rows.ts';
import { testMessage } from '../alerts/message.ts';
import { entryOf } from './audit.ts';
import { unary } from './calls.ts';
import type { ControlDeps } from './control-deps.ts';

type AlertHandlers = Pick<ControlServiceServer, 'listAlertChannels' | 'addAlertChannel' | 'removeAlertChannel' | 'testAlertChannel'>;

const MAX_ADDRESS = 2_048;
/** One address, without a name, a list or anything that a header could contain. */
const EMAIL = /^[^\s\p{C}@<>(),;:"[\]\\]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$/u;
/** Between two test e-mails of an account, ms: an address need not be its own. */
const MAIL_PAUSE_MS = 10_000;

export function alertHandlers({ engine, auth, cipher, clock, log, webhookRefusal, delivery }: ControlDeps): AlertHandlers {
  /** Channels that a test is sent to. */
  const testing = new Set<string>();
  /** When an account sent its last test e-mail, monotonic ms; those within {@link MAIL_PAUSE_MS}. */
  const mailed = new Map<string, number>();
  const noteMail = (account: string): void => {
    const { mono } = clock.now();
    for (const [id, at] of mailed) if (mono - at >= MAIL_PAUSE_MS) mailed.delete(id);
    const last = mailed.get(account);
    if (last !== undefined)
      throw new CapstanError('RATE_LIMITED', 'another test e-mail was just sent; try again', { retryAfterMs: last + MAIL_PAUSE_MS - mono });
    mailed.set(account, mono);
  };
  return {
    listAlertChannels: unary(log, 'ListAlertChannels', (_request, metadata) => {
      const { account } = auth.wholeReader(metadata);
      return { channels: alertChannelsOf(engine.state, account).map(infoOf) };
    }),
    addAlertChannel: unary(log, 'AddAlertChannel', async ({ kind, address }, metadata) => {
      const account = auth.account(metadata);
      const { operator } = auth.wholeReader(metadata);
      const isMail = kind === AlertChannelKind.EMAIL;
      if (!isMail && kind !== AlertChannelKind.WEBHOOK)
        throw new CapstanError('INVALID_ARGUMENT', 'kind: must be WEBHOOK or EMAIL', { field: 'kind' });
      const fault = isMail
        ? mailFault(address, delivery.hasMail)
        : address.length > MAX_ADDRESS
          ? `must have at most ${MAX_ADDRESS} characters`
          : webhookRefusal(address, account);
      if (fault !== null) throw new CapstanError('INVALID_ARGUMENT', `address: ${fault}`, { field: 'address' });
      const changed = auth.auditor(log, metadata, 'AddAlertChannel');
      const id = `alert-${randomBytes(6).toString('hex')}`;
      const shown = isMail ? address : hiddenUrl(address);
      const sealed = cipher.encrypt(address, places.alertChannel({ account, id })).toString('base64');
      const channel = { id, kind: isMail ? 'EMAIL' : 'WEBHOOK', sealed, shown, isOperator: operator } as const;
      const audit = entryOf(auth, metadata, {
        action: 'addAlertChannel',
        object: id,
        account,
        after: { kind: channel.kind, address: shown },
      });
      await engine.command({ kind: 'put-alert-channel', account, channel }, audit);
      changed({ account, channel: id });
      return infoOf(channelOf(engine.state, account, id));
    }),
    removeAlertChannel: unary(log, 'RemoveAlertChannel', async ({ id }, metadata) => {
      const account = auth.account(metadata);
      const before = channelOf(engine.state, account, id);
      const changed = auth.auditor(log, metadata, 'RemoveAlertChannel');
      const facts = { kind: before.kind, address: before.shown };
      const audit = entryOf(auth, metadata, { action: 'removeAlertChannel', object: id, account, before: facts });
      await engine.command({ kind: 'delete-alert-channel', account, id }, audit);
      changed({ account, channel: id });
      return infoOf(before);
    }),
    testAlertChannel: unary(log, 'TestAlertChannel', async ({ id }, metadata) => {
      const account = auth.account(metadata);
      const channel = channelOf(engine.state, account, id);
      const key = alertChannelKey(channel);
      const recipient = {
        account,
        kind: channel.kind,
        address: cipher.decrypt(Buffer.from(channel.sealed, 'base64'), places.alertChannel(channel)),
      };
      if (testing.has(key) || !delivery.hasRoom(recipient))
        throw new CapstanError('RATE_LIMITED', 'another message is being sent there; try again', { retryAfterMs: 1_000 });
      if (channel.kind === 'EMAIL') noteMail(account);
      const audit = entryOf(auth, metadata, { action: 'testAlertChannel', object: id, account, after: { address: channel.shown } });
      testing.add(key);
      try {
        await engine.command({ kind: 'audit' }, audit);
        const result = await delivery.once(recipient, testMessage(account));
        return { error: result.result === 'failed' ? result.error : '' };
      } finally {
        testing.delete(key);
      }
    }),
  };
}

function mailFault(address: string, hasMail: boolean): string | null {
  if (!EMAIL.test(address)) return 'must be one e-mail address';
  return hasMail ? null : 'this service sends no e-mail; an operator can set CAPSTAN_SMTP_URL and CAPSTAN_SMTP_FROM';
}

/** The path of a chat's webhook is its secret. */
function hiddenUrl(address: string): string {
  const { protocol, host, pathname, search } = new URL(address);
  return `${protocol}//${host}${pathname === '/' && search === '' ? '/' : '/***'}`;
}

/** @throws CapstanError NOT_FOUND. */
function channelOf(state: State, account: string, id: string): AlertChannelRow {
  const channel = state.alertChannels.get(alertChannelKey({ account, id }));
  if (channel === undefined) throw alertChannelNotFound(id);
  return channel;
}

function infoOf({ id, kind, shown, isOperator, createdAt, told, failure }: AlertChannelRow): AlertChannel {
  return {
    id,
    kind: AlertChannelKind[kind],
    address: shown,
    wholeService: isOperator,
    createdAtMs: BigInt(Math.trunc(createdAt)),
    open: told.length,
    failure,
  };
}
