/**
 * Secrets of accounts: values that environments refer to by name (lib/secret-references.ts). A secret of an environment goes before
 * the account's secret of the same name. Workers get values when they start; a release remembers with which version of each secret
 * its workers start, so that a change is a new release, rolled out as every other. The core holds values only encrypted.
 */
import { CapstanError } from '../../../lib/errors.ts';

import type { StepContext } from '../context.ts';
import type { Write } from '../effects.ts';
import type { Command } from '../events.ts';
import { putRow } from '../rows.ts';
import { liveEndpoints, type State } from '../state.ts';
import { secretKey, type SecretRow } from '../state/control-rows.ts';
import type { EndpointRecord } from '../state/endpoints.ts';
import { renewRelease } from './deploy.ts';
import { secretFor } from '../endpoints/secret-use.ts';
import { sweepBuilds } from './deployments.ts';

/** Secrets of an account, in all environments. */
export const MAX_SECRETS = 500;

/** Returns the endpoints whose workers start with the value of this secret. */
export function usersOf(state: State, secret: Pick<SecretRow, 'account' | 'environment' | 'name'>): EndpointRecord[] {
  const row = state.secrets.get(secretKey(secret));
  return liveEndpoints(state, secret.account).filter(
    ({ config }) =>
      Object.hasOwn(state.releases.get(config.release)?.secrets ?? {}, secret.name) && secretFor(state, config, secret.name) === row,
  );
}

/** Creates a secret or replaces its value, and rolls its users. */
export function putSecret(ctx: StepContext, call: number, command: Extract<Command, { kind: 'put-secret' }>): void {
  const { account, environment, name, encrypted } = command;
  const { state } = ctx;
  const key = secretKey(command);
  const known = state.secrets.get(key);
  const refusal = overLimit(state, command);
  if (refusal !== null) {
    ctx.reply(call, refusal);
    return;
  }
  const versions = [...state.secrets.values()].filter((each) => each.account === account).map(({ version }) => version);
  const row: SecretRow = {
    ...{ account, environment, name, sealed: encrypted, version: Math.max(0, ...versions) + 1 },
    ...{ createdAt: known?.createdAt ?? ctx.now.wall, changedAt: ctx.now.wall },
  };
  state.secrets.set(key, row);
  const write = putRow(ctx, 'secret', key, row);
  ctx.reply(call, { kind: 'done' }, rollUsers(ctx, usersOf(state, row), name) ?? write);
}

/** Deletes a secret that nothing uses, or that the account's secret of the same name replaces. */
export function deleteSecret(ctx: StepContext, call: number, command: Extract<Command, { kind: 'delete-secret' }>): void {
  const key = secretKey(command);
  const users = usersOf(ctx.state, command);
  const isReplaced = command.environment !== '' && ctx.state.secrets.has(secretKey({ ...command, environment: '' }));
  const refusal = !ctx.state.secrets.has(key)
    ? secretNotFound(command)
    : users.length > 0 && !isReplaced
      ? new CapstanError('CONFLICT', `name: secret ${command.name} is used by ${named(users)}; deploy these without it first`, {
          field: 'name',
        })
      : null;
  if (refusal !== null) {
    ctx.reply(call, refusal);
    return;
  }
  ctx.state.secrets.delete(key);
  const write = putRow(ctx, 'secret', key, null);
  ctx.reply(call, { kind: 'done' }, rollUsers(ctx, users, command.name) ?? write);
}

function rollUsers(ctx: StepContext, users: readonly EndpointRecord[], name: string): Write | null {
  let last: Write | null = null;
  for (const endpoint of users) last = renewRelease(ctx, endpoint, `secret ${name} changed`) ?? last;
  if (last !== null) sweepBuilds(ctx);
  return last;
}

/** Deletes the secrets of a deleted account, or of a deleted environment. Workers that still end keep what they have. */
export function dropSecrets(ctx: StepContext, isDropped: (secret: SecretRow) => boolean): void {
  for (const [key, secret] of ctx.state.secrets) {
    if (!isDropped(secret)) continue;
    ctx.state.secrets.delete(key);
    putRow(ctx, 'secret', key, null);
  }
}

export function secretNotFound({ name, environment }: Pick<SecretRow, 'name' | 'environment'>): CapstanError {
  const where = environment === '' ? '' : ` in environment ${environment}`;
  return new CapstanError('NOT_FOUND', `name: secret ${name} does not exist${where}`, { field: 'name' });
}

function overLimit(state: State, { account, environment, name }: Pick<SecretRow, 'account' | 'environment' | 'name'>): CapstanError | null {
  if (state.secrets.has(secretKey({ account, environment, name }))) return null;
  let count = 0;
  for (const secret of state.secrets.values()) if (secret.account === account) count++;
  if (count < MAX_SECRETS) return null;
  return new CapstanError('QUOTA_EXCEEDED', `name: the account already has ${MAX_SECRETS} secrets; delete some`, { field: 'name' });
}

function named(users: readonly EndpointRecord[]): string {
  const shown = users.slice(0, 5).map(({ config }) => `${config.environment}/${config.name}`);
  return users.length > shown.length ? `${shown.join(', ')} and ${users.length - shown.length} more` : shown.join(', ');
}
