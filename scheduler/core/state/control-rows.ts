/** Rows of the control plane: accounts, keys, environments, deployments, builds. */
import type { SourceRevision } from '../../../lib/source-revision.ts';
import type { AccountNetwork, IsolationLevel, WorkerRuntime } from '../../../lib/isolation.ts';
import type { KeyScope } from '../../../proto/gen/capstan/v1/control.ts';
import type { ControlKind } from '../ports/store.ts';
import type { EndpointInput } from './endpoints.ts';

/** Returns the key of the control row for a part of the state. */
export function rowKey(kind: ControlKind, key: string): string {
  return `${kind}/${key}`;
}

/** Rows are stored as JSON: their property names are part of the data on disk (hence `sealed` for encrypted values). */
export interface AccountRow {
  /** Encrypted signing secret of the account's webhooks; null before its first use. */
  readonly webhookSecretSealed: string | null;
  /** The previous secret, and until when it still signs, wall clock ms; absent if there is none. */
  readonly previousWebhookSecret?: { readonly sealed: string; readonly until: number };
  /** Null: the service's default. */
  readonly workerQuota: number | null;
  /** Bytes; null: the service's default. */
  readonly buildQuota: number | null;
  readonly bodyQuota: number | null;
  /** Rules for its workers. Absent: any level, every runtime, the host's network; so for accounts created before there were rules. */
  readonly leastIsolation?: IsolationLevel;
  readonly runtimes?: readonly WorkerRuntime[];
  /** The widest network. */
  readonly network?: AccountNetwork;
  /** Wall clock, ms; 0 if created before this was stored. */
  readonly createdAt: number;
  /**
   * Wall clock, ms; absent while the account exists. The row of a deleted account stays: its last webhooks are signed
   * with its secret, and no other tenant gets an id under which jobs and webhooks may still be stored.
   */
  readonly deletedAt?: number;
}

/** A key derived from an earlier master key. */
export interface DerivedKey {
  /** Id of that master key. */
  readonly id: string;
  readonly sealed: string;
}

/** The store's record of the master key. The keys themselves are in the data folder. */
export interface MasterKeyRow {
  /** Id of the present master key. */
  readonly id: string;
  /** Wall clock ms since which it is the present one; 0 if created before this was stored. */
  readonly since: number;
  /** Id of the master key when this was first stored: workers without a key id use it. */
  readonly first: string;
  /**
   * The keys of worker tokens made under earlier master keys, encrypted under the present one; kept while such workers
   * exist.
   */
  readonly tokenKeys: readonly DerivedKey[];
  /**
   * The keys of webhooks' URLs stored under earlier master keys, encrypted under the present one; absent before the
   * first.
   */
  readonly urlKeys?: readonly DerivedKey[];
  /**
   * The keys of payloads stored under earlier master keys, encrypted under the present one; absent before the first.
   */
  readonly payloadKeys?: readonly DerivedKey[];
  /** Some payload may be encrypted: nobody may own the queue without its master key. Absent before the first. */
  readonly encryptsPayloads?: boolean;
  /**
   * Ids of earlier master keys that values may still be encrypted with; empty when none are. Absent in rows of earlier
   * versions.
   */
  readonly older?: readonly string[];
  /** The gateway token of a queue with several schedulers, encrypted under the present key; otherwise absent. */
  readonly gatewayToken?: string;
  /** Id of the blob store that all schedulers of the queue share; absent where there is only one. */
  readonly blobStore?: string;
}

export interface KeyRow {
  /** SHA-256 of the key, hex. */
  readonly hash: string;
  readonly account: string;
  readonly scope: KeyScope;
  /** With the scope ENDPOINTS: their ids. */
  readonly endpoints: readonly string[];
  /** With the scope ENVIRONMENT: its name; otherwise empty. */
  readonly environment: string;
  readonly name: string;
  /** The first characters of its plaintext, for display. */
  readonly prefix: string;
  /** Wall clock, ms; 0 if created before this was stored. */
  readonly createdAt: number;
  readonly expiresAt: number | null;
  /** Accurate to a minute; null before it was first recorded. */
  readonly usedAt: number | null;
  /**
   * The hash of the key that opened this session of the console, hex; absent for keys. A session permits what its key permits, ends
   * with it, and expires unless it is used.
   */
  readonly sessionOf?: string;
}

/** A session of the console: a key of its own, under the permissions of another one. */
export type SessionRow = KeyRow & Required<Pick<KeyRow, 'sessionOf'>>;

export interface SecretRow {
  readonly account: string;
  /** Empty: for every environment of the account. */
  readonly environment: string;
  readonly name: string;
  readonly sealed: string;
  /** Higher than that of every earlier value of any secret of the account. */
  readonly version: number;
  /** Wall clock, ms. */
  readonly createdAt: number;
  readonly changedAt: number;
}

export function secretKey({ account, environment, name }: Pick<SecretRow, 'account' | 'environment' | 'name'>): string {
  return `${account}/${environment}/${name}`;
}

/** An incident that a channel was told of. */
export interface ToldIncident {
  /** See keyOf in scheduler/incidents/incident.ts. */
  readonly key: string;
  /** How people call it. */
  readonly subject: string;
  readonly message: string;
  /** Wall clock, ms. */
  readonly toldAt: number;
}

/** Where an account is told of incidents. */
export interface AlertChannelRow {
  readonly account: string;
  readonly id: string;
  readonly kind: 'WEBHOOK' | 'EMAIL';
  /** Encrypted URL or e-mail address. */
  readonly sealed: string;
  /** The same for people, without secrets. */
  readonly shown: string;
  /** It is also told of nodes, disks, certificates and the endpoints of other accounts: a key with the scope OPERATOR created it. */
  readonly isOperator: boolean;
  /** Wall clock, ms. */
  readonly createdAt: number;
  /** Incidents whose begin it was told, and whose end it was not. */
  readonly told: readonly ToldIncident[];
  /** Why the last message was not delivered; empty if it was. */
  readonly failure: string;
}

export function alertChannelKey({ account, id }: Pick<AlertChannelRow, 'account' | 'id'>): string {
  return `${account}/${id}`;
}

export interface EnvironmentRow {
  readonly account: string;
  readonly name: string;
  /** Wall clock, ms; 0 if created before this was stored. */
  readonly createdAt: number;
  /** Number of its newest deployment, 0 before the first. */
  readonly deployments: number;
}

export function environmentKey(account: string, environment: string): string {
  return `${account}/${environment}`;
}

/** The part of a deployment that concerns one endpoint, sufficient to deploy it again. */
export interface DeployedInput {
  readonly id: string;
  readonly build: string;
  readonly input: EndpointInput;
  /** The commit of the build, also after a rollback to it; absent where it is not known. */
  readonly source?: SourceRevision;
  /** What the deployment kept as it found it; absent where it set everything. */
  readonly kept?: KeptNames;
}

/** Names of settings and of environment values. */
export interface KeptNames {
  readonly settings: readonly string[];
  readonly env: readonly string[];
}

export interface DeploymentRow {
  readonly account: string;
  readonly environment: string;
  /** 1, 2, 3, … within its environment. */
  readonly number: number;
  /** Wall clock, ms. */
  readonly at: number;
  readonly cause: 'DEPLOY' | 'ROLLBACK';
  /** Id of the key that deployed or rolled back, and its name then; absent in rows of earlier versions. */
  readonly key?: string;
  readonly keyName?: string;
  readonly endpoints: readonly DeployedInput[];
}

/** An account's use of the artifact store. */
export interface BuildUse {
  readonly bytes: number;
  readonly builds: number;
}

/** An account that sent a build's bytes. */
export interface BuildOwner {
  readonly account: string;
  /** When it last sent or requested the build, wall clock ms. */
  readonly at: number;
}

export interface BuildRow {
  readonly digest: string;
  readonly size: number;
  readonly createdAt: number;
  /** The accounts that may deploy it. Equal bytes of several accounts share one blob. */
  readonly owners: readonly BuildOwner[];
}

/** A control row with encrypted values; `key` is its key in the state's map. */
export type EncryptedRow =
  | { readonly kind: 'account' | 'release' | 'secret' | 'alert-channel'; readonly key: string }
  | { readonly kind: 'deployment'; readonly key: string; readonly number: number };

/** Bytes of an account's bodies (scheduler/core/jobs/body-use.ts). */
export interface BodyUse {
  /** From the store's last count. */
  stored: number;
  /** Not yet counted by the store. */
  pending: number;
}
