/** The control plane's schema. Its descriptions are the reference, which introspection shows. */
import { buildSchema } from 'graphql';

import { ATTENTION_TYPES } from './attention-types.ts';
import { WORKER_START_TYPES } from './worker-start.ts';
import { HISTORY_TYPES } from './history-types.ts';
import { JOB_TYPES, LOG_TYPES } from './job-types.ts';
import { KEY_TYPES } from './key-types.ts';
import { NODE_TYPES } from './node-types.ts';
import { OPERATOR_TYPES } from './operator-types.ts';
import { RELEASE_TYPES } from './release-types.ts';
import { SETTINGS_INPUT, SETTINGS_OUTPUT } from './settings-types.ts';

const SCHEMA_TEXT = `
"""A JSON value."""
scalar JSON
"""An endpoint in a deployment: the JSON form of the message EndpointSpec (docs/api-control-plane.md lists its fields)."""
scalar EndpointSpec
"""A timestamp, ISO 8601."""
scalar Time

type Query {
  "All environments that the key covers."
  environments: [Environment!]!
  environment(name: String!): Environment
  "The endpoints of one environment, or of all."
  endpoints(environment: String): [Endpoint!]!
  "An endpoint by id, or by name in an environment ('default' when omitted)."
  endpoint(id: ID, environment: String, name: String): Endpoint
  "The kept builds, newest first. endpoint: an id, or a name in the environment."
  builds(environment: String, endpoint: String): [Build!]!
  "Which files and packages differ between two builds of the account, by their digests. Requires the scope ALL: it reads their code."
  buildDifference(from: String!, to: String!): BuildDifference!
  "The kept deployments of an environment, newest first."
  deployments(environment: String, limit: Int): [Deployment!]!
  "The workers of one endpoint (its id), or of all."
  workers(endpoint: ID): [Worker!]!
  "Jobs of an endpoint, the latest submission or retry first. limit: 1 to 100, 20 if omitted. cursor: of an earlier page."
  jobs(endpoint: ID!, filter: JobFilter, limit: Int, cursor: String): JobPage!
  "How many jobs of an endpoint the filter admits by state, and the errors of those that failed, in groups."
  jobSummary(endpoint: ID!, filter: JobFilter): JobSummary!
  "How many jobs of an endpoint startBulkOperation would change now."
  countJobs(endpoint: ID!, action: BulkAction!, filter: JobFilter): JobCount!
  "Operations on many jobs, newest first: running ones, and those that ended within the last hour."
  bulkOperations(endpoint: ID): [BulkOperation!]!
  "One job, with its input and output; null if it does not exist (any more). endpoint: any that the key covers if omitted."
  job(endpoint: ID, id: ID!): Job
  "History of an endpoint between two times, in ms since the Unix epoch (to: now if omitted). step: seconds, a multiple of 10; one that suits the range if omitted."
  history(endpoint: ID!, from: Float!, to: Float, step: Int): History!
  "The same of the requests of a load-balanced endpoint, by route."
  routeHistory(endpoint: ID!, from: Float!, to: Float, step: Int): RouteHistory!
  "Requires the scope OPERATOR. Gauges of a GPU or MIG slice between two times, in ms since the Unix epoch (to: now if omitted). step: seconds, a multiple of 60; one that suits the range if omitted."
  deviceHistory(node: ID!, device: ID!, from: Float!, to: Float, step: Int): DeviceHistory!
  "The last hour of a load-balanced endpoint by route, the busiest first."
  routeFigures(endpoint: ID!): [RouteFigures!]!
  "What needs attention now: problems of the account; with the scope OPERATOR those of the whole service."
  attention: Attention!
  "Where the account is told of these problems, by alerts. The oldest first."
  alertChannels: [AlertChannel!]!
  "With the scope OPERATOR all nodes; with ALL or READ_ONLY those on which workers of the account run. In order of id: at most limit nodes (1 to 1000; all if omitted) that follow the id after."
  nodes(after: ID, limit: Int): [Node!]!
  "One of these nodes; null if there is none with this id, or the key does not see it."
  node(id: ID!): Node
  "What the nodes that accept work offer: processors, GPUs, packages, images. The same for every account."
  machineTypes: [MachineType!]!
  "Requires the scope OPERATOR. Tokens with which hosts join; revoked ones are not listed. In order of id; after and limit as for nodes."
  joinTokens(after: ID, limit: Int): [JoinToken!]!
  "Undelivered webhooks: pending ones, and those that failed within the last 24 hours. In order of their jobs' submission; newestFirst: the latest first. after: the id to continue after. limit: 1 to 1000."
  webhooks(after: ID, limit: Int, newestFirst: Boolean): WebhookPage!
  "The secret that signs the account's webhooks (Standard Webhooks)."
  webhookSecret: String!
  "Secrets that environments refer to as {{ CAPSTAN_SECRET_NAME }} or {{ RUNPOD_SECRET_NAME }}. In order of name; values are never returned."
  secrets: [Secret!]!
  "Of the key's own account; another account requires the scope OPERATOR."
  apiKeys(account: ID): [ApiKey!]!
  "Who changed what, newest first, for 90 days. Changes of hosts, cells and the service itself are in the log of the account default. account: another one requires the scope OPERATOR. before: the id to continue before. limit: 1 to 1000, default 100. With a filter a page may be short and not the last: one call examines 5,000 entries."
  audit(account: ID, filter: AuditFilter, before: ID, limit: Int): AuditPage!
  "The key's own account."
  account: Account!
  "Requires the scope OPERATOR. In order of id; after and limit as for nodes."
  accounts(after: ID, limit: Int): [Account!]!
  "Requires the scope OPERATOR. In the order of their creation; without PostgreSQL there is one, default."
  cells: [Cell!]!
  "Requires the scope OPERATOR. Cells with their owners, and the schedulers, owners and standbys. Any scheduler answers it, so it also works while a cell has no owner and the gateway knows the key."
  cluster: Cluster!
  "What the endpoint's workers printed, oldest first: the last lines after a time (ms since the Unix epoch)."
  logs(endpoint: ID!, worker: ID, limit: Int, afterMs: Float): [LogLine!]!
  "Searches what the endpoint's workers printed, on all its nodes: the newest matching lines (limit: 1 to 1,000, default 100), oldest first. cursor: of an earlier page. waitMs: without a matching line the page comes when one is printed, at the latest after this time (at most 5,000), or earlier without lines."
  searchLogs(endpoint: ID!, filter: LogFilter, limit: Int, cursor: String, waitMs: Int): LogPage!
}

type Mutation {
  createEnvironment(name: String!): Environment!
  "Deletes an environment and returns its deleted endpoints. Fails while it has endpoints, unless force is true."
  deleteEnvironment(name: String!, force: Boolean = false, stopJobs: Boolean = false): [Endpoint!]!
  "Creates or updates endpoints, all or none. build: the digest of an artifact that was uploaded to /builds/<digest>. source: the commit that it was built from, to be shown with the release. keep: settings that stay as they are, whatever endpoints says."
  deploy(environment: String, build: String!, endpoints: [EndpointSpec!]!, source: SourceRevisionInput, keep: [KeptSettings!]): DeployResult!
  "Changes settings without a new build; omitted settings stay. endpoint: an id, or a name in the environment default."
  updateEndpoint(endpoint: ID!, settings: EndpointSettings!): Endpoint!
  "Requests a first worker of the endpoint's release, whatever its load, and says how far its start is. It holds for 15 s; repeat it while you wait. endpoint: an id, or a name in the environment default."
  startWorker(endpoint: ID!): WorkerStart!
  "Deletes one endpoint. Its queued jobs are cancelled; its running jobs continue unless stopJobs is true."
  deleteEndpoint(environment: String, endpoint: ID!, stopJobs: Boolean = false): Endpoint!
  "Deletes every endpoint of an environment."
  deleteEndpoints(environment: String!, stopJobs: Boolean = false): [Endpoint!]!
  "Returns to the previous build, or to a given one (at least 6 digits of its digest): one endpoint, or all that the newest deployment changed."
  rollback(environment: String, endpoint: ID, build: String): DeployResult!
  "The key is only in this response; it cannot be read again. endpoints: ids, or names in the environment. The scope OPERATOR, and an account other than the key's own, require the scope OPERATOR."
  createApiKey(name: String!, scope: KeyScope!, endpoints: [ID!], environment: String, expiresInS: Int, account: String): CreatedApiKey!
  "By id, or by name if it is unique. Takes effect immediately. A key with the scope OPERATOR, and an account other than the key's own, require the scope OPERATOR."
  revokeApiKey(id: ID!, account: ID): ApiKey!
  "Requires the scope OPERATOR. Moves an account without workers, stored jobs and undelivered webhooks to another cell, with its keys, environments, endpoints and builds. Returns its id."
  moveAccount(id: ID!, cell: String!): ID!
  "Requires the scope OPERATOR. Moves a node without workers and running jobs to another cell; its agent follows. Returns its id."
  assignNode(id: ID!, cell: String!): ID!
  "Requires the scope OPERATOR. The name has 1 to 32 lowercase letters, digits or dashes, and starts with a letter. The cell serves once a scheduler runs with CAPSTAN_CELL set to it."
  createCell(name: String!): Cell!
  "Requires the scope OPERATOR. An omitted quota or rule is the service's default. cell: the cell of the account, that of the key if omitted. The id is unique over all cells."
  createAccount(id: ID!, cell: String, workerQuota: Int, buildQuotaBytes: Float, bodyQuotaBytes: Float, isolation: IsolationRulesInput): CreatedAccount!
  "Requires the scope OPERATOR. An omitted quota or rule is unchanged; if all are omitted, all quotas return to the service's defaults. 0: the default. Workers that a new rule forbids finish their jobs and are replaced on nodes that satisfy it."
  updateAccount(id: ID!, workerQuota: Int, buildQuotaBytes: Float, bodyQuotaBytes: Float, isolation: IsolationRulesInput): Account!
  "Requires the scope OPERATOR. Deletes the account with its keys, environments and (with force) endpoints; running jobs continue to their end unless stopJobs is given. The id cannot be used again. Returns the account as it was."
  deleteAccount(id: ID!, force: Boolean = false, stopJobs: Boolean = false): Account!
  "Requires the scope OPERATOR. The token is only in this response; it cannot be read again. expiresInS: 24 hours if omitted, unless neverExpires is true. maxUses: nodes that may join with it, 100 if omitted. cell: the one that the nodes join, that of the key if omitted."
  createJoinToken(name: String, expiresInS: Int, maxUses: Int, neverExpires: Boolean = false, cell: String): CreatedJoinToken!
  "Requires the scope OPERATOR. No node joins with the token any more; nodes that joined with it stay. Returns the token as it was."
  revokeJoinToken(id: ID!): JoinToken!
  "Requires the scope OPERATOR. The node receives no new work; running work continues, and its workers are replaced on other nodes."
  drainNode(id: ID!): Node!
  "Requires the scope OPERATOR. Assigns work to a drained node again."
  resumeNode(id: ID!): Node!
  "Requires the scope OPERATOR. Revokes the node's identity and forgets it; refused while it has workers, unless forced. Returns its id."
  removeNode(id: ID!, force: Boolean = false): ID!
  "Retries, cancels or purges the jobs of the endpoint that match the filter at the time of the call. Returns immediately; bulkOperations shows the progress. An endpoint has at most one running operation. An operation ends when its scheduler stops; start it again to continue."
  startBulkOperation(endpoint: ID!, action: BulkAction!, filter: JobFilter): BulkOperation!
  "Stops an operation. Its changes so far are kept."
  stopBulkOperation(id: ID!): BulkOperation!
  "Redelivers an undelivered webhook; its attempts start over. Returns its id."
  redeliverWebhook(id: ID!): ID!
  "Tells the account of problems and of their ends: address is a URL that takes a Slack-compatible message, or an e-mail address. With the scope OPERATOR it tells of the whole service. At most 10."
  addAlertChannel(kind: AlertChannelKind!, address: String!): AlertChannel!
  "Sends a test message once. Returns why it was not delivered; null if it was."
  testAlertChannel(id: ID!): String
  "Returns the channel as it was."
  removeAlertChannel(id: ID!): AlertChannel!
  "Creates a secret or replaces its value; workers that use it are replaced. environment: only for endpoints of this environment, where it goes before the account's secret of the same name; every environment if omitted."
  setSecret(name: String!, environment: String, value: String!): Secret!
  "Refused while endpoints use the secret. Returns it as it was."
  deleteSecret(name: String!, environment: String): Secret!
  "Creates a new secret. For 24 hours webhooks are signed with the previous one, too."
  rotateWebhookSecret: RotatedSecret!
}

enum Kind { QUEUE LOAD_BALANCED }
enum KeyScope {
  "Everything of the account."
  ALL
  "Calls to the endpoints that it names."
  ENDPOINTS
  "Read-only calls."
  READ_ONLY
  "Calls to the endpoints of one environment, and listing them."
  ENVIRONMENT
  "Everything of the account default, and the service itself: nodes, join tokens, accounts. Only keys of the account default have it, and only a key that has it creates or revokes one."
  OPERATOR
}
enum Cause { DEPLOY ROLLBACK }

type Environment {
  name: String!
  createdAt: Time
  endpoints: [Endpoint!]!
  "Sum of workersMax over its endpoints."
  workersMax: Int!
  "Number of its newest deployment, 0 before the first."
  deployment: Int!
}

type Endpoint {
  id: ID!
  name: String!
  kind: Kind!
  "Base URL: of the queue API, or of the endpoint's own routes."
  url: String!
  "Base URL on a host of its own, where the gateway has a domain that the caller can resolve; load-balanced endpoints only."
  hostUrl: String
  environment: String!
  "Absent when its own image serves it."
  build: BuildRef
  "The release that its workers run: a build and the settings that workers depend on."
  release: String!
  "True in the response to the deployment that created it."
  created: Boolean!
  routes: [Route!]!
  functions: [String!]!
  "How its functions are called, as the build read it from the sources."
  signatures: [Signature!]!
  "An input that obeys the schemas of a queue endpoint's function; null where the source does not show what it takes."
  exampleInput: JSON
  settings: Settings!
  "maxAttempts of an endpoint that leaves it to the service."
  defaultMaxAttempts: Int!
  workers: WorkerCounts!
  queue: Queue!
  "State of its workers and the scaling decisions, read from the scheduler per endpoint."
  scaling: Scaling
  "Names of its environment values, sorted; the values are secret. Empty for keys that do not cover the whole account."
  envNames: [String!]!
}
type Scaling {
  "Number of workers by state: idle, running, initializing, throttled, unhealthy."
  counts: JSON!
  workers: [Worker!]!
  "Why the last wanted worker had no eligible node; empty when it had one."
  rejections: [Rejection!]!
  "The last 50 decisions since the scheduler started, oldest first."
  decisions: [Decision!]!
  "Consecutive failed starts of the current release."
  failedStarts: Int!
  lastStartError: String
}
"""The nodes that were not eligible for a worker, for one reason."""
type Rejection { reason: String! nodes: Int! examples: [RejectedNode!]! }
type RejectedNode { node: String! detail: String! }
type Decision { at: Time! kind: String! worker: ID node: ID reason: String! }

type Signature {
  name: String!
  parameters: [Parameter!]!
  "Of a class: its methods, as far as the sources show them; null for a function. The input's key method selects one of several."
  methods: [Method!]
}
type Method { name: String! parameters: [Parameter!]! }
type Parameter {
  name: String!
  required: Boolean!
  "string, number, integer, boolean, array, object or request; null if the source does not state it."
  type: String
  "JSON Schema of its values, as text; null if the source does not state it."
  schema: String
  "It takes the whole input or body instead of a key of it."
  takesBody: Boolean!
}

type BuildRef { digest: String! release: String! }
type Route { method: String! path: String! function: String! }
type Settings {
${SETTINGS_OUTPUT}
}
"""Requests of one route."""
type RouteFigures {
  "Both empty for requests without a route, for WebSockets, and for endpoints that declare no routes. A path * stands for all routes after the first 50 that had requests."
  method: String!
  path: String!
  requests: Int!
  "Status 400 to 499."
  refused: Int!
  "Status 500 and above."
  errors: Int!
  "Requests a minute."
  perMinute: Float!
  "From the head of a request to the end of its response, ms, at most 9 % off."
  p50: Float!
  p95: Float!
  p99: Float!
  "In steps of five minutes, oldest first; the last one goes on."
  requestsByStep: [Int!]!
  errorsByStep: [Int!]!
}
type WorkerCounts { total: Int! max: Int! }
type Queue {
  inQueue: Int!
  inProgress: Int!
  "Why jobs are waiting; null when there is no problem."
  reason: String
  detail: String
}

${RELEASE_TYPES}

type Worker {
  id: ID!
  endpoint: ID!
  node: ID!
  state: String!
  reason: String
  detail: String
  jobs: Int!
  maxConcurrency: Int!
  devices: [String!]!
  "Why the scheduler started it, or is stopping it."
  decision: String!
  release: String!
  runtime: String!
  "Consecutive failed starts."
  failures: Int!
  start: StartPhases!
}
${ATTENTION_TYPES}
${WORKER_START_TYPES}
"""Phases of the last start, ms since the request; 0 if not reached."""
type StartPhases { artifactMs: Int! startedMs: Int! loadedMs: Int! }
${NODE_TYPES}

type WebhookPage {
  webhooks: [Webhook!]!
  "Pass it as after to get the next page; null at the end. A short page may not be the last."
  next: ID
}
type Webhook {
  "The value of the header webhook-id."
  id: ID!
  endpoint: ID!
  url: String!
  state: WebhookState!
  "Failed tries since the end of the job, or since the last redelivery."
  tries: Int!
  "PENDING: time of the next try. FAILED: time of its deletion."
  dueAt: Time
  error: String
}
enum WebhookState { PENDING FAILED }
type RotatedSecret { secret: String! previousUntil: Time }

${OPERATOR_TYPES}
${HISTORY_TYPES}
${JOB_TYPES}
${KEY_TYPES}

${LOG_TYPES}

input EndpointSettings {
${SETTINGS_INPUT}
  "Names of environment values to remove."
  unsetEnv: [String!]
}
input RateLimit { operation: String! requests: Int! concurrent: Int! }
`;

export const schema = buildSchema(SCHEMA_TEXT);
