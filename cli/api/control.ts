/** The tool's client of the control plane: queries and the rows that they return. */
import type { EndpointSpec } from '../../proto/gen/capstan/v1/control.ts';
import { EndpointSpec as EndpointForm } from '../../proto/gen/json/capstan/v1/control.ts';
import { READABLE_NAMES, UPDATABLE_NAMES } from '../../lib/endpoint-settings.ts';
import type { EndpointRow } from './endpoint-row.ts';
import type { GatewayClient } from './gateway-client.ts';

const ENDPOINT = `id name kind url environment created build { digest } release routes { method path function } functions
  settings { workersMin workersMax } workers { total } queue { inQueue inProgress reason detail }`;

interface EndpointData {
  readonly id: string;
  readonly name: string;
  readonly kind: 'QUEUE' | 'LOAD_BALANCED';
  readonly url: string;
  readonly environment: string;
  readonly created: boolean;
  readonly build: { readonly digest: string } | null;
  readonly release: string;
  readonly routes: readonly { readonly method: string; readonly path: string; readonly function: string }[];
  readonly functions: readonly string[];
  readonly settings: { readonly workersMin: number; readonly workersMax: number };
  readonly workers: { readonly total: number };
  readonly queue: {
    readonly inQueue: number;
    readonly inProgress: number;
    readonly reason: string | null;
    readonly detail: string | null;
  };
}

export interface Deployed {
  readonly environment: string;
  readonly endpoints: readonly (EndpointRow & { readonly created: boolean })[];
}

export interface EnvironmentRow {
  readonly name: string;
  readonly createdAt: string | null;
  readonly workersMax: number;
  readonly deployment: number;
}

export interface BuildRow {
  readonly digest: string;
  /** Bytes. */
  readonly size: number;
  readonly environment: string;
  readonly deployedAt: string;
  readonly endpoints: readonly string[];
  readonly current: readonly string[];
  readonly functions: readonly string[];
}

export interface KeyRow {
  readonly id: string;
  readonly name: string;
  readonly prefix: string;
  readonly scope: string;
  readonly endpoints: readonly string[];
  readonly environment: string | null;
  readonly createdAt: string | null;
  readonly expiresAt: string | null;
  readonly lastUsedAt: string | null;
}

export interface AccountRow {
  readonly id: string;
  /** The cell of the account. */
  readonly cell: string;
  readonly createdAt: string | null;
  readonly quota: { readonly workers: number; readonly used: number };
  readonly endpoints: number;
  /** Bytes. */
  /** Rules for its workers; null where the scheduler does not know rules. */
  readonly isolation: IsolationRules | null;
  readonly storage: { readonly [Kind in 'builds' | 'bodies']: { readonly used: number; readonly quota: number } };
}

export interface IsolationRules {
  /** Least level. */
  readonly least: string;
  readonly runtimes: readonly string[];
  /** The widest one. */
  readonly network: string;
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

const UPDATABLE = READABLE_NAMES.filter((name) => UPDATABLE_NAMES.some((each) => each === name)).join(' ');
const KEY = 'id name prefix scope endpoints environment createdAt expiresAt lastUsedAt';
const ACCOUNT =
  'id cell createdAt quota { workers used } endpoints storage { builds { used quota } bodies { used quota } } isolation { least runtimes network }';
const QUOTAS = '$id: ID!, $workerQuota: Int, $buildQuotaBytes: Float, $bodyQuotaBytes: Float, $isolation: IsolationRulesInput';
const GIVEN =
  'id: $id, workerQuota: $workerQuota, buildQuotaBytes: $buildQuotaBytes, bodyQuotaBytes: $bodyQuotaBytes, isolation: $isolation';
const BUILD = 'digest size environment deployedAt endpoints current functions';

function row(data: EndpointData): EndpointRow & { readonly created: boolean } {
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
  const query = `query ($environment: String) { endpoints(environment: $environment) { ${ENDPOINT} } }`;
  const { endpoints } = await client.query<{ endpoints: EndpointData[] }>(query, { environment });
  return endpoints.map(withoutCreated);
}

export async function deploy(
  client: GatewayClient,
  asked: { readonly environment: string; readonly build: string; readonly endpoints: readonly EndpointSpec[] },
): Promise<Deployed> {
  const query = `mutation ($environment: String, $build: String!, $endpoints: [EndpointSpec!]!) {
    deploy(environment: $environment, build: $build, endpoints: $endpoints) { environment endpoints { ${ENDPOINT} } } }`;
  // The JSON form omits zeros, and an omitted workersMax means the service's default: 0 would not remain a pause.
  const endpoints = asked.endpoints.map((spec) => ({ ...(EndpointForm.toJSON(spec) as object), workersMax: spec.workersMax }));
  const variables = { ...asked, endpoints };
  const { deploy: deployed } = await client.query<{ deploy: { environment: string; endpoints: EndpointData[] } }>(query, variables);
  return { environment: deployed.environment, endpoints: deployed.endpoints.map(row) };
}

export async function rollback(
  client: GatewayClient,
  asked: { readonly environment: string; readonly endpoint: string | null; readonly build: string | null },
): Promise<Deployed> {
  const query = `mutation ($environment: String, $endpoint: ID, $build: String) {
    rollback(environment: $environment, endpoint: $endpoint, build: $build) { environment endpoints { ${ENDPOINT} } } }`;
  const { rollback: back } = await client.query<{ rollback: { environment: string; endpoints: EndpointData[] } }>(query, { ...asked });
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
    const query = `mutation ($environment: String!, $stopJobs: Boolean) {
      deleteEndpoints(environment: $environment, stopJobs: $stopJobs) { ${ENDPOINT} } }`;
    const { deleteEndpoints } = await client.query<{ deleteEndpoints: EndpointData[] }>(query, { environment, stopJobs });
    return deleteEndpoints.map(withoutCreated);
  }
  const query = `mutation ($environment: String, $endpoint: ID!, $stopJobs: Boolean) {
    deleteEndpoint(environment: $environment, endpoint: $endpoint, stopJobs: $stopJobs) { ${ENDPOINT} } }`;
  const { deleteEndpoint } = await client.query<{ deleteEndpoint: EndpointData }>(query, { environment, endpoint, stopJobs });
  return [withoutCreated(deleteEndpoint)];
}

/** `settings` are those of the schema's EndpointSettings. */
export async function updateEndpoint(
  client: GatewayClient,
  endpoint: string,
  settings: Readonly<Record<string, unknown>>,
): Promise<EndpointRow & { readonly settings: Readonly<Record<string, unknown>> }> {
  const query = `mutation ($endpoint: ID!, $settings: EndpointSettings!) { updateEndpoint(endpoint: $endpoint, settings: $settings) {
    ${ENDPOINT} all: settings { ${UPDATABLE} } } }`;
  const { updateEndpoint: updated } = await client.query<{ updateEndpoint: EndpointData & { all: Record<string, unknown> } }>(query, {
    endpoint,
    settings,
  });
  return { ...withoutCreated(updated), settings: updated.all };
}

export async function listEnvironments(client: GatewayClient): Promise<(EnvironmentRow & { readonly endpoints: number })[]> {
  const query = '{ environments { name createdAt workersMax deployment endpoints { id } } }';
  const { environments } = await client.query<{ environments: (EnvironmentRow & { endpoints: unknown[] })[] }>(query);
  return environments.map((environment) => ({ ...environment, endpoints: environment.endpoints.length }));
}

/** Returns null when none has this name. */
export async function getEnvironment(
  client: GatewayClient,
  name: string,
): Promise<(EnvironmentRow & { readonly endpoints: readonly EndpointRow[] }) | null> {
  const query = `query ($name: String!) { environment(name: $name) { name createdAt workersMax deployment endpoints { ${ENDPOINT} } } }`;
  type Data = EnvironmentRow & { endpoints: EndpointData[] };
  const { environment } = await client.query<{ environment: Data | null }>(query, { name });
  return environment === null ? null : { ...environment, endpoints: environment.endpoints.map(withoutCreated) };
}

export async function createEnvironment(client: GatewayClient, name: string): Promise<void> {
  await client.query('mutation ($name: String!) { createEnvironment(name: $name) { name } }', { name });
}

export async function deleteEnvironment(
  client: GatewayClient,
  asked: { readonly name: string; readonly force: boolean; readonly stopJobs: boolean },
): Promise<EndpointRow[]> {
  const query = `mutation ($name: String!, $force: Boolean, $stopJobs: Boolean) {
    deleteEnvironment(name: $name, force: $force, stopJobs: $stopJobs) { ${ENDPOINT} } }`;
  const { deleteEnvironment: deleted } = await client.query<{ deleteEnvironment: EndpointData[] }>(query, { ...asked });
  return deleted.map(withoutCreated);
}

export async function listBuilds(client: GatewayClient, environment: string | null, endpoint: string | null): Promise<BuildRow[]> {
  const query = `query ($environment: String, $endpoint: String) { builds(environment: $environment, endpoint: $endpoint) { ${BUILD} } }`;
  return (await client.query<{ builds: BuildRow[] }>(query, { environment, endpoint })).builds;
}

/** A null account means that of the client's own key. */
export async function listKeys(client: GatewayClient, account: string | null): Promise<KeyRow[]> {
  const query = `query ($account: ID) { apiKeys(account: $account) { ${KEY} } }`;
  return (await client.query<{ apiKeys: KeyRow[] }>(query, { account })).apiKeys;
}

export async function createKey(
  client: GatewayClient,
  asked: Readonly<Record<string, unknown>>,
): Promise<{ readonly plaintext: string; readonly key: KeyRow }> {
  const query = `mutation ($name: String!, $scope: KeyScope!, $endpoints: [ID!], $environment: String, $expiresInS: Int, $account: String) {
    createApiKey(name: $name, scope: $scope, endpoints: $endpoints, environment: $environment, expiresInS: $expiresInS, account: $account) {
      plaintext key { ${KEY} } } }`;
  return (await client.query<{ createApiKey: { plaintext: string; key: KeyRow } }>(query, asked)).createApiKey;
}

/** A null account means that of the client's own key. */
export async function revokeKey(client: GatewayClient, id: string, account: string | null): Promise<KeyRow> {
  const query = `mutation ($id: ID!, $account: ID) { revokeApiKey(id: $id, account: $account) { ${KEY} } }`;
  return (await client.query<{ revokeApiKey: KeyRow }>(query, { id, account })).revokeApiKey;
}

export async function getAccount(client: GatewayClient): Promise<AccountRow> {
  return (await client.query<{ account: AccountRow }>(`{ account { ${ACCOUNT} } }`)).account;
}

export async function listAccounts(client: GatewayClient): Promise<AccountRow[]> {
  return (await client.query<{ accounts: AccountRow[] }>(`{ accounts { ${ACCOUNT} } }`)).accounts;
}

/** A null cell means that of the client's own key. Only this result contains the plaintext of the account's first key. */
export async function createAccount(
  client: GatewayClient,
  id: string,
  { cell, ...quotas }: AccountChanges & { readonly cell: string | null },
): Promise<{ readonly account: AccountRow; readonly keyText: string }> {
  const query = `mutation (${QUOTAS}, $cell: String) { createAccount(${GIVEN}, cell: $cell) { account { ${ACCOUNT} } keyText } }`;
  const variables = { id, cell, ...quotas };
  return (await client.query<{ createAccount: { account: AccountRow; keyText: string } }>(query, variables)).createAccount;
}

export async function updateAccount(client: GatewayClient, id: string, changes: AccountChanges): Promise<AccountRow> {
  const query = `mutation (${QUOTAS}) { updateAccount(${GIVEN}) { ${ACCOUNT} } }`;
  return (await client.query<{ updateAccount: AccountRow }>(query, { id, ...changes })).updateAccount;
}

/** Returns the account as it was. @throws CapstanError CONFLICT while it has endpoints, unless forced. */
export async function deleteAccount(
  client: GatewayClient,
  request: { readonly id: string; readonly force: boolean; readonly stopJobs: boolean },
): Promise<AccountRow> {
  const query = `mutation ($id: ID!, $force: Boolean, $stopJobs: Boolean) {
    deleteAccount(id: $id, force: $force, stopJobs: $stopJobs) { ${ACCOUNT} } }`;
  return (await client.query<{ deleteAccount: AccountRow }>(query, { ...request })).deleteAccount;
}

function withoutCreated(data: EndpointData): EndpointRow {
  const { created: _created, ...rest } = row(data);
  return rest;
}
