/** Rows of the control plane: accounts, keys, environments, deployments, builds. */
import type { KeyScope } from '../../../proto/gen/capstan/v1/control.ts';
import type { ControlKind } from '../../store/store.ts';
import type { EndpointInput } from './endpoints.ts';

/** Key of the row that stands behind a part of the state. */
export function rowKey(kind: ControlKind, key: string): string {
  return `${kind}/${key}`;
}

/** Rows are stored as JSON: their member names are part of the data on disk (hence `sealed` for encrypted values). */
export interface AccountRow {
  /** Encrypted signing secret of the account's webhooks; null before its first use. */
  readonly webhookSecretSealed: string | null;
  /** The one before it, and until when it still signs, wall clock ms; absent when there was none. */
  readonly previousWebhookSecret?: { readonly sealed: string; readonly until: number };
  /** Null: the service's default. */
  readonly workerQuota: number | null;
  /** Bytes; null: the service's default. */
  readonly buildQuota: number | null;
  readonly bodyQuota: number | null;
  /** Wall clock, ms; 0 when it was made before this was kept. */
  readonly createdAt: number;
  /**
   * Wall clock, ms; absent while the account exists. The row of a deleted account stays: its last webhooks are signed with
   * its secret, and no other tenant gets an id under which jobs and webhooks may still be stored.
   */
  readonly deletedAt?: number;
}

/** A key that was derived from an earlier master key. */
export interface DerivedKey {
  /** Of that master key. */
  readonly id: string;
  readonly sealed: string;
}

/** What the store knows of the master key; the keys themselves lie in the data folder. */
export interface MasterKeyRow {
  /** Of the present one. */
  readonly id: string;
  /** Since when it is, wall clock ms; 0 when it was made before this was kept. */
  readonly since: number;
  /** Of the one that was there when this was first kept: workers of before are its own. */
  readonly first: string;
  /** The keys of worker tokens that were made under earlier ones, encrypted under the present one; kept while such workers are there. */
  readonly tokenKeys: readonly DerivedKey[];
  /** The keys of webhooks' URLs that were kept under earlier ones, encrypted under the present one; absent before the first. */
  readonly urlKeys?: readonly DerivedKey[];
}

export interface KeyRow {
  /** SHA-256 of the key, hex. */
  readonly hash: string;
  readonly account: string;
  readonly scope: KeyScope;
  /** With the scope ENDPOINTS: their ids. */
  readonly endpoints: readonly string[];
  /** With the scope ENVIRONMENT: its name; else empty. */
  readonly environment: string;
  readonly name: string;
  /** The first letters of its text, for people. */
  readonly prefix: string;
  /** Wall clock, ms; 0 when it was made before this was kept. */
  readonly createdAt: number;
  readonly expiresAt: number | null;
  /** To within an hour; null before it was first noted. */
  readonly usedAt: number | null;
}

export interface EnvironmentRow {
  readonly account: string;
  readonly name: string;
  /** Wall clock, ms; 0 when it was made before this was kept. */
  readonly createdAt: number;
  /** Number of its newest deployment, 0 before the first. */
  readonly deployments: number;
}

export function environmentKey(account: string, environment: string): string {
  return `${account}/${environment}`;
}

/** What a deployment gave an endpoint: enough to deploy it once more. */
export interface DeployedInput {
  readonly id: string;
  readonly build: string;
  readonly input: EndpointInput;
}

export interface DeploymentRow {
  readonly account: string;
  readonly environment: string;
  /** 1, 2, 3, … in its environment. */
  readonly number: number;
  /** Wall clock, ms. */
  readonly at: number;
  readonly cause: 'DEPLOY' | 'ROLLBACK';
  readonly endpoints: readonly DeployedInput[];
}

/** What an account has in the artifact store. */
export interface BuildUse {
  readonly bytes: number;
  readonly builds: number;
}

/** An account that sent a build's bytes. */
export interface BuildOwner {
  readonly account: string;
  /** When it last sent the build or asked for it, wall clock ms. */
  readonly at: number;
}

export interface BuildRow {
  readonly digest: string;
  readonly size: number;
  readonly createdAt: number;
  /** The accounts that may deploy it. Equal bytes of several accounts share one blob. */
  readonly owners: readonly BuildOwner[];
}

/** A control row that holds encrypted values; `key` is that of its map in the state. */
export type EncryptedRow =
  | { readonly kind: 'account' | 'release'; readonly key: string }
  | { readonly kind: 'deployment'; readonly key: string; readonly number: number };

/** Bytes of an account's bodies above the inline size (scheduler/core/jobs/body-use.ts). */
export interface BodyUse {
  /** As the store counted last. */
  stored: number;
  /** Not counted by the store yet. */
  pending: number;
}
