/**
 * Which values are encrypted at rest, where they are stored, and how they are re-encrypted under another master key.
 * The core neither encrypts nor decrypts: it receives each value with its replacement.
 *
 * Encrypted values: the webhook secrets in the rows of accounts; secrets; the addresses of alerts; `env` in the rows of releases and of deployments; the
 * keys of older worker tokens and webhooks' URLs, and the gateway token, in the master key's own row; and the s3Config of jobs, stored beside
 * their inputs. URLs of webhooks with secrets are encrypted with separate keys (webhooks/urls.ts).
 */
import type { StepContext } from '../context.ts';
import type { Command } from '../events.ts';
import type { State } from '../state.ts';
import { environmentKey, type DeploymentRow, type MasterKeyRow, type EncryptedRow } from '../state/control-rows.ts';
import { deploymentKey } from './deployments.ts';
import { putRow } from '../rows.ts';

/** Key of the setting that names the present master key. */
export const MASTER_KEY_SETTING = 'master-key';

/**
 * The place of each kind of value, which the cipher authenticates: a value copied to another place does not decrypt.
 */
export const places = {
  s3: (job: string): string => `job/${job}/s3`,
  env: ({ account, environment, name }: { readonly account: string; readonly environment: string; readonly name: string }): string =>
    `env/${account}/${environment}/${name}`,
  secret: ({ account, environment, name }: { readonly account: string; readonly environment: string; readonly name: string }): string =>
    `secret/${account}/${environment}/${name}`,
  alertChannel: ({ account, id }: { readonly account: string; readonly id: string }): string => `alert-channel/${account}/${id}`,
  webhookSecret: (account: string): string => `account/${account}/webhook-secret`,
  tokenKey: (id: string): string => `master-key/token-key/${id}`,
  payloadKey: (id: string): string => `master-key/payload-key/${id}`,
  urlKey: (id: string): string => `master-key/url-key/${id}`,
  gatewayToken: 'gateway-token',
} as const;

/** A value in base64, and its place. */
export interface EncryptedValue {
  readonly encrypted: string;
  readonly place: string;
}

/** Yields all control rows with encrypted values, except those of jobs and of the master key's row. */
export function* encryptedRows(state: State): Generator<{ readonly row: EncryptedRow; readonly values: readonly EncryptedValue[] }> {
  for (const [key, { webhookSecretSealed, previousWebhookSecret }] of state.accounts) {
    const encrypted = [webhookSecretSealed, previousWebhookSecret?.sealed].filter((value) => typeof value === 'string');
    if (encrypted.length > 0)
      yield { row: { kind: 'account', key }, values: encrypted.map((value) => ({ encrypted: value, place: places.webhookSecret(key) })) };
  }
  for (const [key, secret] of state.secrets)
    yield { row: { kind: 'secret', key }, values: [{ encrypted: secret.sealed, place: places.secret(secret) }] };
  for (const [key, channel] of state.alertChannels)
    yield { row: { kind: 'alert-channel', key }, values: [{ encrypted: channel.sealed, place: places.alertChannel(channel) }] };
  for (const [key, { endpoint, envSealed }] of state.releases) {
    const config = state.endpoints.get(endpoint)?.config;
    // A release without its endpoint is never started again, so its values are not read again.
    if (envSealed === null || config === undefined) continue;
    yield { row: { kind: 'release', key }, values: [{ encrypted: envSealed, place: places.env(config) }] };
  }
  for (const [key, history] of state.deployments) {
    for (const { account, environment, number, endpoints } of history) {
      const values = endpoints.flatMap(({ input: { name, envSealed } }) =>
        envSealed === null ? [] : [{ encrypted: envSealed, place: places.env({ account, environment, name }) }],
      );
      if (values.length > 0) yield { row: { kind: 'deployment', key, number }, values };
    }
  }
}

/** Records which master key is the present one. */
export function putMasterKey(ctx: StepContext, call: number, row: MasterKeyRow): void {
  ctx.state.masterKey = row;
  ctx.reply(call, { kind: 'done' }, putRow(ctx, 'setting', MASTER_KEY_SETTING, row));
}

/** Replaces encrypted values in these rows by re-encrypted ones. Values changed in the meantime are left unchanged. */
export function reencrypt(ctx: StepContext, call: number, { rows, values }: Extract<Command, { kind: 'reencrypt' }>): void {
  const renewed = (encrypted: string): string => values.get(encrypted) ?? encrypted;
  for (const row of rows) reencryptRow(ctx, row, renewed);
  ctx.reply(call, { kind: 'done' });
}

/** Does the same for the credentials of jobs. Credentials of a deleted job are ignored. */
export function reencryptInputs(ctx: StepContext, call: number, { inputs }: Extract<Command, { kind: 'reencrypt-inputs' }>): void {
  for (const { seq, from, to } of inputs) ctx.write({ kind: 'reencrypt', seq, from, to });
  ctx.reply(call, { kind: 'done' });
}

function reencryptRow(ctx: StepContext, row: EncryptedRow, renewed: (encrypted: string) => string): void {
  switch (row.kind) {
    case 'account': {
      const known = ctx.state.accounts.get(row.key);
      if (known === undefined) return;
      const { webhookSecretSealed: secret, previousWebhookSecret: previous } = known;
      const account = {
        ...known,
        webhookSecretSealed: secret === null ? null : renewed(secret),
        ...(previous === undefined ? {} : { previousWebhookSecret: { ...previous, sealed: renewed(previous.sealed) } }),
      };
      ctx.state.accounts.set(row.key, account);
      putRow(ctx, 'account', row.key, account);
      return;
    }
    case 'secret': {
      const known = ctx.state.secrets.get(row.key);
      if (known === undefined) return;
      const secret = { ...known, sealed: renewed(known.sealed) };
      ctx.state.secrets.set(row.key, secret);
      putRow(ctx, 'secret', row.key, secret);
      return;
    }
    case 'alert-channel': {
      const known = ctx.state.alertChannels.get(row.key);
      if (known === undefined) return;
      const channel = { ...known, sealed: renewed(known.sealed) };
      ctx.state.alertChannels.set(row.key, channel);
      putRow(ctx, 'alert-channel', row.key, channel);
      return;
    }
    case 'release': {
      const known = ctx.state.releases.get(row.key);
      if (known?.envSealed == null) return;
      const release = { ...known, envSealed: renewed(known.envSealed) };
      ctx.state.releases.set(row.key, release);
      putRow(ctx, 'release', row.key, release);
      return;
    }
    case 'deployment': {
      const history = ctx.state.deployments.get(row.key) ?? [];
      const known = history.find(({ number }) => number === row.number);
      if (known === undefined) return;
      const endpoints = known.endpoints.map((deployed) => {
        const { envSealed } = deployed.input;
        return envSealed === null ? deployed : { ...deployed, input: { ...deployed.input, envSealed: renewed(envSealed) } };
      });
      const deployment: DeploymentRow = { ...known, endpoints };
      ctx.state.deployments.set(
        environmentKey(known.account, known.environment),
        history.map((each) => (each === known ? deployment : each)),
      );
      putRow(ctx, 'deployment', deploymentKey(deployment), deployment);
    }
  }
}
