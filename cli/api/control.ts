/** The tool's client of the control plane: queries and the rows that they return. */
import type { EndpointSpec } from '../../proto/gen/capstan/v1/control.ts';
import { EndpointSpec as EndpointForm } from '../../proto/gen/json/capstan/v1/control.ts';
import { READABLE_NAMES, UPDATABLE_NAMES } from '../../lib/endpoint-settings.ts';
import type { SourceRevision } from '../../lib/source-revision.ts';
import { callDeploy } from './deploy-call.ts';
import type { EndpointRow } from './endpoint-row.ts';
import type { GatewayClient } from '../../client/gateway-client.ts';
import {
  CREATE_ACCOUNT,
  CREATE_ENVIRONMENT,
  CREATE_KEY,
  DELETE_ACCOUNT,
  DELETE_ENDPOINT,
  DELETE_ENDPOINTS,
  DELETE_ENVIRONMENT,
  GET_ACCOUNT,
  GET_BUILD_DIFFERENCE,
  GET_ENVIRONMENT,
  LIST_ACCOUNTS,
  LIST_BUILDS,
  LIST_ENDPOINTS,
  LIST_ENVIRONMENTS,
  LIST_KEYS,
  LIST_RELEASES,
  REVOKE_KEY,
  ROLLBACK,
  UPDATE_ACCOUNT,
  UPDATE_ENDPOINT,
  type CreateKeyVariables,
  type DeployKeepingVariables,
  type Difference,
  type ListReleasesResult,
  type EndpointFields,
  type EndpointSettings,
  type AccountRow,
  type BuildRow,
  type EnvironmentRow,
  type IsolationRules,
  type KeyRow,
} from '../../client/graphql/gen/operations.ts';

export type { AccountRow, BuildRow, EnvironmentRow, IsolationRules, KeyRow };

export interface Deployed {
  readonly environment: string;
  readonly endpoints: readonly (EndpointRow & { readonly created: boolean })[];
}

/** Rules to set; those that are absent stay, or are the service's defaults of a new account. */
export type IsolationRulesPatch = Partial<IsolationRules>;

/** Quotas and rules to set; null leaves one unchanged, or at the service's default. */
export interface AccountChanges {
  readonly workerQuota: number | null;
  readonly buildQuotaBytes: number | null;
  readonly bodyQuotaBytes: number | null;
  /** Null: unchanged. */
  readonly isolation: IsolationRulesPatch | null;
}

const UPDATABLE = READABLE_NAMES.filter((name) => UPDATABLE_NAMES.some((each) => each === name));
function row(data: EndpointFields): EndpointRow & { readonly created: boolean } {
  return {
    id: data.id,
    name: data.name,
    kind: data.kind === 'QUEUE' ? 'queue' : 'load-balanced',
    url: data.url,
    environment: data.environment,
    workersMin: data.settings.workersMin,
    workersMax: data.settings.workersMax,
    workers: data.workers.total,
    jobsInQueue: data.queue.inQueue,
    jobsInProgress: data.queue.inProgress,
    queueReason: data.queue.reason ?? '',
    queueDetail: data.queue.detail ?? '',
    functions: data.functions,
    routes: Object.fromEntries(data.routes.map(({ method, path, function: name }) => [`${method} ${path}`, name])),
    buildDigest: data.build?.digest ?? '',
    releaseId: data.release,
    created: data.created,
  };
}

/** A null environment means all. */
export async function listEndpoints(client: GatewayClient, environment: string | null): Promise<EndpointRow[]> {
  const { endpoints } = await client.query(LIST_ENDPOINTS, { environment });
  return endpoints.map(withoutCreated);
}

export async function deploy(
  client: GatewayClient,
  {
    source,
    keep,
    ...asked
  }: {
    readonly environment: string;
    readonly build: string;
    readonly endpoints: readonly EndpointSpec[];
    readonly source: SourceRevision | null;
    /** What existing endpoints keep of their present settings. */
    readonly keep: DeployKeepingVariables['keep'];
  },
): Promise<Deployed> {
  // The JSON form omits zeros, and an omitted workersMax means the service's default: 0 would not remain a pause.
  const endpoints = asked.endpoints.map((spec) => ({ ...(EndpointForm.toJSON(spec) as object), workersMax: spec.workersMax }));
  const { deploy: deployed } = await callDeploy(client, { ...asked, endpoints, source, keep });
  return { environment: deployed.environment, endpoints: deployed.endpoints.map(row) };
}

export async function rollback(
  client: GatewayClient,
  asked: { readonly environment: string; readonly endpoint: string | null; readonly build: string | null },
): Promise<Deployed> {
  const { rollback: back } = await client.query(ROLLBACK, asked);
  return { environment: back.environment, endpoints: back.endpoints.map(row) };
}

/** Deletes one endpoint, or with null every endpoint of the environment; returns what was deleted. */
export async function deleteEndpoints(
  client: GatewayClient,
  environment: string,
  endpoint: string | null,
  stopJobs: boolean,
): Promise<EndpointRow[]> {
  if (endpoint === null) {
    const { deleteEndpoints } = await client.query(DELETE_ENDPOINTS, { environment, stopJobs });
    return deleteEndpoints.map(withoutCreated);
  }
  const { deleteEndpoint } = await client.query(DELETE_ENDPOINT, { environment, endpoint, stopJobs });
  return [withoutCreated(deleteEndpoint)];
}

/** `settings` are those of the schema's EndpointSettings. */
export async function updateEndpoint(
  client: GatewayClient,
  endpoint: string,
  settings: EndpointSettings,
): Promise<EndpointRow & { readonly settings: Readonly<Record<string, unknown>> }> {
  const { updateEndpoint: updated } = await client.query(UPDATE_ENDPOINT, { endpoint, settings });
  return { ...withoutCreated(updated), settings: Object.fromEntries(UPDATABLE.map((name) => [name, updated.all[name]])) };
}

export async function listEnvironments(client: GatewayClient): Promise<(EnvironmentRow & { readonly endpoints: number })[]> {
  const { environments } = await client.query(LIST_ENVIRONMENTS, {});
  return environments.map((environment) => ({ ...environment, endpoints: environment.endpoints.length }));
}

/** Returns null when none has this name. */
export async function getEnvironment(
  client: GatewayClient,
  name: string,
): Promise<(EnvironmentRow & { readonly endpoints: readonly EndpointRow[] }) | null> {
  const { environment } = await client.query(GET_ENVIRONMENT, { name });
  return environment === null ? null : { ...environment, endpoints: environment.endpoints.map(withoutCreated) };
}

export async function createEnvironment(client: GatewayClient, name: string): Promise<void> {
  await client.query(CREATE_ENVIRONMENT, { name });
}

export async function deleteEnvironment(
  client: GatewayClient,
  asked: { readonly name: string; readonly force: boolean; readonly stopJobs: boolean },
): Promise<EndpointRow[]> {
  const { deleteEnvironment: deleted } = await client.query(DELETE_ENVIRONMENT, asked);
  return deleted.map(withoutCreated);
}

export async function listBuilds(client: GatewayClient, environment: string | null, endpoint: string | null): Promise<readonly BuildRow[]> {
  return (await client.query(LIST_BUILDS, { environment, endpoint })).builds;
}

export type ReleaseRow = ListReleasesResult['builds'][number];

/** The kept releases of an endpoint, newest first. */
export async function listReleases(client: GatewayClient, environment: string, endpoint: string): Promise<readonly ReleaseRow[]> {
  return (await client.query(LIST_RELEASES, { environment, endpoint })).builds;
}

/** What differs between two builds, by their digests. */
export async function buildDifference(client: GatewayClient, from: string, to: string): Promise<Difference> {
  return (await client.query(GET_BUILD_DIFFERENCE, { from, to })).buildDifference;
}

/** A null account means that of the client's own key. */
export async function listKeys(client: GatewayClient, account: string | null): Promise<readonly KeyRow[]> {
  return (await client.query(LIST_KEYS, { account })).apiKeys;
}

export async function createKey(
  client: GatewayClient,
  asked: CreateKeyVariables,
): Promise<{ readonly plaintext: string; readonly key: KeyRow }> {
  return (await client.query(CREATE_KEY, asked)).createApiKey;
}

/** A null account means that of the client's own key. */
export async function revokeKey(client: GatewayClient, id: string, account: string | null): Promise<KeyRow> {
  return (await client.query(REVOKE_KEY, { id, account })).revokeApiKey;
}

export async function getAccount(client: GatewayClient): Promise<AccountRow> {
  return (await client.query(GET_ACCOUNT, {})).account;
}

export async function listAccounts(client: GatewayClient): Promise<readonly AccountRow[]> {
  return (await client.query(LIST_ACCOUNTS, {})).accounts;
}

/** A null cell means that of the client's own key. Only this result contains the plaintext of the account's first key. */
export async function createAccount(
  client: GatewayClient,
  id: string,
  { cell, ...quotas }: AccountChanges & { readonly cell: string | null },
): Promise<{ readonly account: AccountRow; readonly keyText: string }> {
  const variables = { id, cell, ...quotas };
  return (await client.query(CREATE_ACCOUNT, variables)).createAccount;
}

export async function updateAccount(client: GatewayClient, id: string, changes: AccountChanges): Promise<AccountRow> {
  return (await client.query(UPDATE_ACCOUNT, { id, ...changes })).updateAccount;
}

/** Returns the account as it was. @throws CapstanError CONFLICT while it has endpoints, unless forced. */
export async function deleteAccount(
  client: GatewayClient,
  request: { readonly id: string; readonly force: boolean; readonly stopJobs: boolean },
): Promise<AccountRow> {
  return (await client.query(DELETE_ACCOUNT, request)).deleteAccount;
}

function withoutCreated(data: EndpointFields): EndpointRow {
  const { created: _created, ...rest } = row(data);
  return rest;
}
