/** Generated from the schema by `npm run generate`; do not edit. */
import type { EndpointSpec } from '../../../proto/gen/capstan/v1/control.ts';

export type Kind = 'QUEUE' | 'LOAD_BALANCED';

export type KeyScope = 'ALL' | 'ENDPOINTS' | 'READ_ONLY' | 'ENVIRONMENT' | 'OPERATOR';

export type Cause = 'DEPLOY' | 'ROLLBACK';

export interface Environment {
  readonly name: string;
  readonly createdAt: string | null;
  readonly endpoints: () => Promise<readonly Endpoint[]>;
  readonly workersMax: number;
  readonly deployment: number;
}

export interface Endpoint {
  readonly id: string;
  readonly name: string;
  readonly kind: Kind;
  readonly url: string;
  readonly hostUrl: string | null;
  readonly environment: string;
  readonly build: BuildRef | null;
  readonly release: string;
  readonly created: boolean;
  readonly routes: readonly Route[];
  readonly functions: readonly string[];
  readonly signatures: readonly Signature[];
  readonly exampleInput: unknown | null;
  readonly settings: Settings;
  readonly defaultMaxAttempts: number;
  readonly workers: WorkerCounts;
  readonly queue: Queue;
  readonly scaling: () => Promise<Scaling | null>;
  readonly envNames: () => Promise<readonly string[]>;
}

export interface Scaling {
  readonly counts: Readonly<Record<string, number>>;
  readonly workers: readonly Worker[];
  readonly rejections: readonly Rejection[];
  readonly decisions: readonly Decision[];
  readonly failedStarts: number;
  readonly lastStartError: string | null;
}

export interface Rejection {
  readonly reason: string;
  readonly nodes: number;
  readonly examples: readonly RejectedNode[];
}

export interface RejectedNode {
  readonly node: string;
  readonly detail: string;
}

export interface Decision {
  readonly at: string;
  readonly kind: string;
  readonly worker: string | null;
  readonly node: string | null;
  readonly reason: string;
}

export interface Signature {
  readonly name: string;
  readonly parameters: readonly Parameter[];
  readonly methods: readonly Method[] | null;
}

export interface Method {
  readonly name: string;
  readonly parameters: readonly Parameter[];
}

export interface Parameter {
  readonly name: string;
  readonly required: boolean;
  readonly type: string | null;
  readonly schema: string | null;
  readonly takesBody: boolean;
}

export interface BuildRef {
  readonly digest: string;
  readonly release: string;
}

export interface Route {
  readonly method: string;
  readonly path: string;
  readonly function: string;
}

export interface Settings {
  readonly description: string;
  readonly workersMin: number;
  readonly workersMax: number;
  readonly idleTimeout: number;
  readonly keepIdle: boolean;
  readonly startTimeout: number;
  readonly executionTimeoutMs: number;
  readonly scalerType: string;
  readonly scalerValue: number;
  readonly delayTarget: number;
  readonly maxConcurrency: number;
  readonly maxAttempts: number;
  readonly gpuIds: string;
  readonly gpuCount: number;
  readonly minCuda: string;
  readonly minDriver: string;
  readonly cpu: string;
  readonly imageName: string;
  readonly runtime: string;
  readonly network: string;
  readonly requestsPerWorker: number | null;
  readonly rateLimits: Readonly<Record<string, { readonly requests: number; readonly concurrent: number }>>;
  readonly public: boolean;
}

export interface RouteFigures {
  readonly method: string;
  readonly path: string;
  readonly requests: number;
  readonly refused: number;
  readonly errors: number;
  readonly perMinute: number;
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
  readonly requestsByStep: readonly number[];
  readonly errorsByStep: readonly number[];
}

export interface WorkerCounts {
  readonly total: number;
  readonly max: number;
}

export interface Queue {
  readonly inQueue: number;
  readonly inProgress: number;
  readonly reason: string | null;
  readonly detail: string | null;
}

export interface BuildDifference {
  readonly files: readonly FileChange[];
  readonly filesOmitted: number;
  readonly packages: readonly PackageChange[];
  readonly packagesOmitted: number;
}

export interface FileChange {
  readonly path: string;
  readonly sizeBefore: number | null;
  readonly sizeAfter: number | null;
}

export interface PackageChange {
  readonly name: string;
  readonly before: string | null;
  readonly after: string | null;
}

export interface DeployResult {
  readonly environment: string;
  readonly endpoints: readonly Endpoint[];
}

export interface Build {
  readonly digest: string;
  readonly size: number;
  readonly environment: string;
  readonly deployedAt: string;
  readonly endpoints: readonly string[];
  readonly current: readonly string[];
  readonly functions: readonly string[];
  readonly settings: ReleasedSettings | null;
  readonly release: Release;
}

export interface Release {
  readonly number: number;
  readonly cause: Cause;
  readonly key: string | null;
  readonly keyName: string | null;
  readonly source: SourceRevision | null;
}

export interface SourceRevision {
  readonly commit: string;
  readonly message: string;
  readonly isDirty: boolean;
}

export interface SourceRevisionInput {
  readonly commit: string;
  readonly message: string;
  readonly isDirty: boolean;
}

export interface ReleasedSettings {
  readonly settings: Settings;
  readonly routes: readonly Route[];
  readonly envNames: readonly string[];
  readonly envChanged: readonly string[];
  readonly keptSettings: readonly string[];
  readonly keptEnv: readonly string[];
}

export interface KeptSettings {
  readonly endpoint: string;
  readonly settings: readonly string[];
  readonly env: readonly string[];
}

export interface Deployment {
  readonly number: number;
  readonly environment: string;
  readonly at: string;
  readonly cause: Cause;
  readonly key: string | null;
  readonly keyName: string | null;
  readonly endpoints: readonly DeployedEndpoint[];
}

export interface DeployedEndpoint {
  readonly id: string;
  readonly name: string;
  readonly build: string;
  readonly source: SourceRevision | null;
}

export interface Worker {
  readonly id: string;
  readonly endpoint: string;
  readonly node: string;
  readonly state: string;
  readonly reason: string | null;
  readonly detail: string | null;
  readonly jobs: number;
  readonly maxConcurrency: number;
  readonly devices: readonly string[];
  readonly decision: string;
  readonly release: string;
  readonly runtime: string;
  readonly failures: number;
  readonly start: StartPhases;
}

export interface Attention {
  readonly items: readonly AttentionItem[];
  readonly omitted: number;
}

export interface AttentionItem {
  readonly key: string;
  readonly kind: AttentionKind;
  readonly severity: AttentionSeverity;
  readonly subject: string;
  readonly cell: string;
  readonly since: string | null;
  readonly endpoint: string | null;
  readonly account: string | null;
  readonly node: string | null;
  readonly message: string;
  readonly runbook: string;
  readonly actions: readonly AttentionAction[];
  readonly effects: readonly AttentionItem[];
}

export interface AlertChannel {
  readonly id: string;
  readonly kind: AlertChannelKind;
  readonly address: string;
  readonly wholeService: boolean;
  readonly createdAt: string;
  readonly open: number;
  readonly failure: string | null;
}

export type AlertChannelKind = 'WEBHOOK' | 'EMAIL';

export interface AttentionAction {
  readonly label: string;
  readonly command: string;
}

export type AttentionSeverity = 'CRITICAL' | 'WARNING';

export type AttentionKind = 'CRASH_LOOP' | 'NO_CAPACITY' | 'WEBHOOKS_FAILING' | 'DISK_LOW' | 'NODE_DISCONNECTED' | 'GATEWAY_UNREACHABLE' | 'DEVICE_UNHEALTHY' | 'GATEWAY_UNKNOWN' | 'RELEASE_CRASHES' | 'PAUSED' | 'QUOTA_NEARLY_USED' | 'KEY_EXPIRES' | 'FAILURE_RATE' | 'QUEUE_DELAY' | 'GPU_IDLE' | 'CERTIFICATE_EXPIRES';

export interface WorkerStart {
  readonly phase: StartPhase;
  readonly detail: string | null;
  readonly worker: string | null;
  readonly node: string | null;
  readonly release: string;
  readonly failures: number;
  readonly lastError: string | null;
}

export type StartPhase = 'PAUSED' | 'PLACING' | 'NO_NODE' | 'PREPARING' | 'STARTING' | 'READY' | 'CRASH_LOOP';

export interface StartPhases {
  readonly artifactMs: number;
  readonly startedMs: number;
  readonly loadedMs: number;
}

export interface Node {
  readonly id: string;
  readonly cell: string;
  readonly name: string;
  readonly connected: boolean;
  readonly lastSeenAt: string | null;
  readonly draining: boolean;
  readonly workers: number;
  readonly jobs: number;
  readonly cpus: number | null;
  readonly memoryBytes: number | null;
  readonly memoryAvailableBytes: number | null;
  readonly diskAvailableBytes: number | null;
  readonly cpuPercent: number | null;
  readonly allocated: Allocated;
  readonly allocatable: Allocatable;
  readonly runtimes: readonly string[];
  readonly packages: readonly string[];
  readonly packageVersions: Readonly<Record<string, string>>;
  readonly images: readonly string[];
  readonly devices: readonly Device[];
  readonly deviceProblem: string | null;
  readonly isolation: Isolation | null;
  readonly unreachableGateways: readonly UnreachableGateway[];
  readonly hardware: Hardware | null;
  readonly agentVersion: string | null;
}

export interface UnreachableGateway {
  readonly address: string;
  readonly dialed: string;
  readonly reason: string;
}

export interface Hardware {
  readonly manufacturer: string;
  readonly model: string;
  readonly isVirtual: boolean;
  readonly cpuCores: number | null;
  readonly cpuSockets: number | null;
  readonly swapBytes: number;
  readonly disks: readonly Disk[];
  readonly networkInterfaces: readonly NetworkInterface[];
}

export interface Disk {
  readonly name: string;
  readonly model: string;
  readonly kind: string;
  readonly sizeBytes: number;
}

export interface NetworkInterface {
  readonly name: string;
  readonly kind: string;
  readonly addresses: readonly string[];
  readonly mtu: number | null;
  readonly speedMbps: number | null;
  readonly isDefault: boolean;
}

export interface Isolation {
  readonly processes: string;
  readonly containers: string | null;
  readonly processNetworks: readonly string[];
  readonly containerNetworks: readonly string[];
  readonly missing: readonly MissingIsolation[];
}

export interface MissingIsolation {
  readonly without: string;
  readonly reason: string;
  readonly remedy: string;
}

export interface MachineType {
  readonly nodes: number;
  readonly os: string;
  readonly arch: string;
  readonly cpus: number;
  readonly cpuModel: string;
  readonly memoryBytes: number;
  readonly runtimes: readonly string[];
  readonly packages: readonly string[];
  readonly packageVersions: Readonly<Record<string, string>>;
  readonly images: readonly string[];
  readonly devices: readonly DeviceType[];
  readonly nodeVersion: string;
  readonly pythonVersion: string;
}

export interface DeviceType {
  readonly model: string;
  readonly memoryBytes: number;
  readonly count: number;
}

export interface Allocated {
  readonly cpus: number;
  readonly memoryBytes: number;
  readonly devices: number;
}

export interface Allocatable {
  readonly cpus: number | null;
  readonly memoryBytes: number | null;
}

export interface Device {
  readonly uuid: string;
  readonly model: string;
  readonly memoryBytes: number;
  readonly memoryUsedBytes: number | null;
  readonly healthy: boolean;
  readonly problem: string | null;
  readonly temperatureCelsius: number | null;
  readonly utilizationPercent: number | null;
  readonly powerWatts: number | null;
  readonly driverVersion: string | null;
  readonly cudaVersion: string | null;
  readonly computeCapability: string | null;
  readonly eccCorrected: number | null;
  readonly eccUncorrected: number | null;
  readonly recoveryAction: string;
  readonly pciBusId: string;
  readonly xids: readonly Xid[];
}

export interface Xid {
  readonly code: number;
  readonly text: string;
  readonly at: string;
}

export interface WebhookPage {
  readonly webhooks: readonly Webhook[];
  readonly next: string | null;
}

export interface Webhook {
  readonly id: string;
  readonly endpoint: string;
  readonly url: string;
  readonly state: WebhookState;
  readonly tries: number;
  readonly dueAt: string | null;
  readonly error: string | null;
}

export type WebhookState = 'PENDING' | 'FAILED';

export interface RotatedSecret {
  readonly secret: string;
  readonly previousUntil: string | null;
}

export interface Cell {
  readonly name: string;
  readonly accounts: number;
  readonly address: string | null;
}

export interface Account {
  readonly id: string;
  readonly cell: string;
  readonly createdAt: string | null;
  readonly quota: Quota;
  readonly endpoints: number;
  readonly storage: Storage;
  readonly isolation: IsolationRules | null;
}

export interface IsolationRules {
  readonly least: string;
  readonly runtimes: readonly string[];
  readonly network: string;
}

export interface IsolationRulesInput {
  readonly least?: string | null | undefined;
  readonly runtimes?: readonly string[] | null | undefined;
  readonly network?: string | null | undefined;
}

export interface Quota {
  readonly workers: number;
  readonly used: number;
}

export interface Storage {
  readonly builds: StorageUse;
  readonly bodies: StorageUse;
}

export interface StorageUse {
  readonly used: number;
  readonly quota: number;
}

export interface CreatedAccount {
  readonly account: Account;
  readonly keyText: string;
}

export interface Cluster {
  readonly cells: readonly CellStatus[];
  readonly schedulers: readonly Scheduler[];
  readonly database: Database | null;
  readonly answeredBy: string;
}

export interface CellStatus {
  readonly name: string;
  readonly ownerId: string;
  readonly ownerAddress: string;
  readonly term: number;
  readonly termAgeMs: number;
  readonly lastBatchAgeMs: number | null;
  readonly takeOvers: number;
  readonly previousOwnerAddress: string | null;
  readonly standbys: number;
  readonly masterKeyId: string | null;
}

export interface Scheduler {
  readonly id: string;
  readonly cell: string;
  readonly role: SchedulerRole;
  readonly address: string;
  readonly hostName: string;
  readonly version: string;
  readonly schemaVersion: number;
  readonly masterKeyIds: readonly string[];
  readonly roleAgeMs: number;
  readonly lastSeenAgeMs: number;
  readonly clockOffsetMs: number;
}

export type SchedulerRole = 'OWNER' | 'STANDBY';

export interface Database {
  readonly address: string;
  readonly version: string;
  readonly schemaVersion: number;
  readonly fsync: boolean;
  readonly synchronous: boolean;
  readonly synchronousStandbys: number | null;
}

export interface History {
  readonly step: number;
  readonly at: readonly number[];
  readonly openSteps: number;
  readonly submitted: readonly number[];
  readonly completed: readonly number[];
  readonly failed: readonly number[];
  readonly cancelled: readonly number[];
  readonly timedOut: readonly number[];
  readonly expired: readonly number[];
  readonly lost: readonly number[];
  readonly inQueue: readonly number[];
  readonly longestQueue: readonly number[];
  readonly inProgress: readonly number[];
  readonly workers: HistoryWorkers;
  readonly delay: HistoryDurations;
  readonly execution: HistoryDurations;
  readonly starts: HistoryStarts;
}

export interface DeviceHistory {
  readonly step: number;
  readonly at: readonly number[];
  readonly utilization: readonly (number | null)[];
  readonly powerWatts: readonly (number | null)[];
  readonly memoryUsedBytes: readonly (number | null)[];
  readonly temperatureCelsius: readonly (number | null)[];
  readonly throttleReasons: readonly (readonly string[])[];
  readonly eccCorrected: readonly (number | null)[];
  readonly eccUncorrected: readonly (number | null)[];
  readonly xid: readonly (number | null)[];
}

export interface HistoryWorkers {
  readonly idle: readonly number[];
  readonly running: readonly number[];
  readonly initializing: readonly number[];
  readonly throttled: readonly number[];
  readonly unhealthy: readonly number[];
}

export interface HistoryDurations {
  readonly p50: readonly (number | null)[];
  readonly p95: readonly (number | null)[];
  readonly p99: readonly (number | null)[];
}

export interface HistoryStarts {
  readonly count: readonly number[];
  readonly placed: readonly (number | null)[];
  readonly artifact: readonly (number | null)[];
  readonly started: readonly (number | null)[];
  readonly loaded: readonly (number | null)[];
}

export interface RouteHistory {
  readonly step: number;
  readonly at: readonly number[];
  readonly openSteps: number;
  readonly all: RouteSeries;
  readonly routes: readonly NamedRouteSeries[];
}

export interface RouteSeries {
  readonly requests: readonly number[];
  readonly refused: readonly number[];
  readonly errors: readonly number[];
  readonly durations: HistoryDurations;
}

export interface NamedRouteSeries {
  readonly method: string;
  readonly path: string;
  readonly requests: readonly number[];
  readonly refused: readonly number[];
  readonly errors: readonly number[];
  readonly durations: HistoryDurations;
}

export type BulkAction = 'RETRY' | 'CANCEL' | 'PURGE';

export type BulkState = 'RUNNING' | 'DONE' | 'STOPPED' | 'FAILED';

export interface JobCount {
  readonly count: number;
  readonly incomplete: boolean;
}

export interface BulkOperation {
  readonly id: string;
  readonly endpoint: string;
  readonly action: BulkAction;
  readonly state: BulkState;
  readonly examined: number;
  readonly lookedAt: number;
  readonly changed: number;
  readonly skipped: number;
  readonly startedAt: string | null;
  readonly endedAt: string | null;
  readonly error: string | null;
}

export type JobStatus = 'IN_QUEUE' | 'IN_PROGRESS' | 'COMPLETED' | 'FAILED' | 'CANCELLED' | 'TIMED_OUT';

export interface JobFilter {
  readonly status?: readonly JobStatus[] | null | undefined;
  readonly sinceMs?: number | null | undefined;
  readonly untilMs?: number | null | undefined;
  readonly text?: string | null | undefined;
  readonly tag?: string | null | undefined;
  readonly submittedBy?: string | null | undefined;
}

export interface JobSummary {
  readonly states: readonly JobStateCount[];
  readonly errors: readonly JobErrorGroup[];
}

export interface JobStateCount {
  readonly status: JobStatus;
  readonly count: number;
  readonly incomplete: boolean;
}

export interface JobErrorGroup {
  readonly text: string;
  readonly message: string;
  readonly isCut: boolean;
  readonly count: number;
}

export interface JobPage {
  readonly jobs: readonly Job[];
  readonly cursor: string | null;
  readonly incomplete: boolean;
}

export interface PastAttempt {
  readonly submittedAt: string;
  readonly attempt: number;
  readonly worker: string | null;
  readonly node: string | null;
  readonly leasedAt: string | null;
  readonly startedAt: string | null;
  readonly endedAt: string;
  readonly reason: string;
  readonly error: string | null;
  readonly count: number;
}

export interface QueueReason {
  readonly at: string;
  readonly until: string | null;
  readonly reason: string;
  readonly detail: string | null;
}

export interface Job {
  readonly id: string;
  readonly endpoint: string;
  readonly status: JobStatus;
  readonly isSync: boolean;
  readonly lowPriority: boolean;
  readonly submittedAt: string;
  readonly startedAt: string | null;
  readonly endedAt: string | null;
  readonly deleteAt: string;
  readonly delayTime: number | null;
  readonly executionTime: number | null;
  readonly attempts: number;
  readonly executionTimeout: number;
  readonly chunks: number;
  readonly ttl: number;
  readonly worker: string | null;
  readonly node: string | null;
  readonly queueReason: string | null;
  readonly error: string | null;
  readonly webhook: string | null;
  readonly traceId: string | null;
  readonly tags: readonly string[];
  readonly submittedBy: string | null;
  readonly pastAttempts: readonly PastAttempt[];
  readonly queueReasons: readonly QueueReason[];
  readonly input: string | null;
  readonly inputBytes: number | null;
  readonly output: string | null;
  readonly outputBytes: number | null;
}

export interface Secret {
  readonly name: string;
  readonly environment: string | null;
  readonly createdAt: string;
  readonly changedAt: string;
  readonly usedBy: readonly string[];
}

export interface AuditFilter {
  readonly key?: string | null | undefined;
  readonly action?: string | null | undefined;
  readonly object?: string | null | undefined;
  readonly sinceMs?: number | null | undefined;
  readonly untilMs?: number | null | undefined;
}

export interface AuditPage {
  readonly entries: readonly AuditEntry[];
  readonly next: string | null;
}

export interface AuditEntry {
  readonly id: string;
  readonly at: string;
  readonly key: string;
  readonly keyName: string;
  readonly address: string | null;
  readonly action: string;
  readonly object: string;
  readonly before: unknown | null;
  readonly after: unknown | null;
}

export interface JoinToken {
  readonly id: string;
  readonly cell: string;
  readonly name: string;
  readonly createdAt: string | null;
  readonly expiresAt: string | null;
  readonly maxUses: number | null;
  readonly uses: number;
}

export interface CreatedJoinToken {
  readonly plaintext: string;
  readonly text: string;
  readonly token: JoinToken;
}

export interface ApiKey {
  readonly id: string;
  readonly name: string;
  readonly prefix: string;
  readonly scope: KeyScope;
  readonly endpoints: readonly string[];
  readonly environment: string | null;
  readonly createdAt: string | null;
  readonly expiresAt: string | null;
  readonly lastUsedAt: string | null;
}

export interface CreatedApiKey {
  readonly plaintext: string;
  readonly text: string;
  readonly key: ApiKey;
}

export interface LogLine {
  readonly at: string;
  readonly worker: string;
  readonly release: string | null;
  readonly job: string | null;
  readonly attempt: number | null;
  readonly stream: string;
  readonly level: string | null;
  readonly text: string;
  readonly fields: string | null;
}

export interface LogPage {
  readonly lines: readonly LogLine[];
  readonly cursor: string | null;
  readonly incomplete: boolean;
  readonly missingNodes: readonly string[];
  readonly unfilteredNodes: readonly string[];
  readonly end: string;
}

export interface LogFilter {
  readonly worker?: string | null | undefined;
  readonly job?: string | null | undefined;
  readonly release?: string | null | undefined;
  readonly stream?: string | null | undefined;
  readonly level?: string | null | undefined;
  readonly contains?: string | null | undefined;
  readonly pattern?: string | null | undefined;
  readonly sinceMs?: number | null | undefined;
  readonly untilMs?: number | null | undefined;
  readonly oldestFirst: boolean | null;
}

export interface EndpointSettings {
  readonly description?: string | null | undefined;
  readonly workersMin?: number | null | undefined;
  readonly workersMax?: number | null | undefined;
  readonly idleTimeout?: number | null | undefined;
  readonly keepIdle?: boolean | null | undefined;
  readonly startTimeout?: number | null | undefined;
  readonly executionTimeoutMs?: number | null | undefined;
  readonly scalerType?: string | null | undefined;
  readonly scalerValue?: number | null | undefined;
  readonly delayTarget?: number | null | undefined;
  readonly maxConcurrency?: number | null | undefined;
  readonly maxAttempts?: number | null | undefined;
  readonly minCuda?: string | null | undefined;
  readonly minDriver?: string | null | undefined;
  readonly network?: string | null | undefined;
  readonly requestsPerWorker?: number | null | undefined;
  readonly rateLimits?: readonly RateLimit[] | null | undefined;
  readonly env?: unknown | null | undefined;
  readonly public?: boolean | null | undefined;
  readonly unsetEnv?: readonly string[] | null | undefined;
}

export interface RateLimit {
  readonly operation: string;
  readonly requests: number;
  readonly concurrent: number;
}

export interface EnvironmentArguments {
  readonly name: string;
}

export interface EndpointsArguments {
  readonly environment?: string | null | undefined;
}

export interface EndpointArguments {
  readonly id?: string | null | undefined;
  readonly environment?: string | null | undefined;
  readonly name?: string | null | undefined;
}

export interface BuildsArguments {
  readonly environment?: string | null | undefined;
  readonly endpoint?: string | null | undefined;
}

export interface BuildDifferenceArguments {
  readonly from: string;
  readonly to: string;
}

export interface DeploymentsArguments {
  readonly environment?: string | null | undefined;
  readonly limit?: number | null | undefined;
}

export interface WorkersArguments {
  readonly endpoint?: string | null | undefined;
}

export interface JobsArguments {
  readonly endpoint: string;
  readonly filter?: JobFilter | null | undefined;
  readonly limit?: number | null | undefined;
  readonly cursor?: string | null | undefined;
}

export interface JobSummaryArguments {
  readonly endpoint: string;
  readonly filter?: JobFilter | null | undefined;
}

export interface CountJobsArguments {
  readonly endpoint: string;
  readonly action: BulkAction;
  readonly filter?: JobFilter | null | undefined;
}

export interface BulkOperationsArguments {
  readonly endpoint?: string | null | undefined;
}

export interface JobArguments {
  readonly endpoint?: string | null | undefined;
  readonly id: string;
}

export interface HistoryArguments {
  readonly endpoint: string;
  readonly from: number;
  readonly to?: number | null | undefined;
  readonly step?: number | null | undefined;
}

export interface RouteHistoryArguments {
  readonly endpoint: string;
  readonly from: number;
  readonly to?: number | null | undefined;
  readonly step?: number | null | undefined;
}

export interface DeviceHistoryArguments {
  readonly node: string;
  readonly device: string;
  readonly from: number;
  readonly to?: number | null | undefined;
  readonly step?: number | null | undefined;
}

export interface RouteFiguresArguments {
  readonly endpoint: string;
}

export interface NodesArguments {
  readonly after?: string | null | undefined;
  readonly limit?: number | null | undefined;
}

export interface NodeArguments {
  readonly id: string;
}

export interface JoinTokensArguments {
  readonly after?: string | null | undefined;
  readonly limit?: number | null | undefined;
}

export interface WebhooksArguments {
  readonly after?: string | null | undefined;
  readonly limit?: number | null | undefined;
  readonly newestFirst?: boolean | null | undefined;
}

export interface ApiKeysArguments {
  readonly account?: string | null | undefined;
}

export interface AuditArguments {
  readonly account?: string | null | undefined;
  readonly filter?: AuditFilter | null | undefined;
  readonly before?: string | null | undefined;
  readonly limit?: number | null | undefined;
}

export interface AccountsArguments {
  readonly after?: string | null | undefined;
  readonly limit?: number | null | undefined;
}

export interface LogsArguments {
  readonly endpoint: string;
  readonly worker?: string | null | undefined;
  readonly limit?: number | null | undefined;
  readonly afterMs?: number | null | undefined;
}

export interface SearchLogsArguments {
  readonly endpoint: string;
  readonly filter?: LogFilter | null | undefined;
  readonly limit?: number | null | undefined;
  readonly cursor?: string | null | undefined;
  readonly waitMs?: number | null | undefined;
}

export interface CreateEnvironmentArguments {
  readonly name: string;
}

export interface DeleteEnvironmentArguments {
  readonly name: string;
  readonly force: boolean | null;
  readonly stopJobs: boolean | null;
}

export interface DeployArguments {
  readonly environment?: string | null | undefined;
  readonly build: string;
  readonly endpoints: readonly EndpointSpec[];
  readonly source?: SourceRevisionInput | null | undefined;
  readonly keep?: readonly KeptSettings[] | null | undefined;
}

export interface UpdateEndpointArguments {
  readonly endpoint: string;
  readonly settings: EndpointSettings;
}

export interface StartWorkerArguments {
  readonly endpoint: string;
}

export interface DeleteEndpointArguments {
  readonly environment?: string | null | undefined;
  readonly endpoint: string;
  readonly stopJobs: boolean | null;
}

export interface DeleteEndpointsArguments {
  readonly environment: string;
  readonly stopJobs: boolean | null;
}

export interface RollbackArguments {
  readonly environment?: string | null | undefined;
  readonly endpoint?: string | null | undefined;
  readonly build?: string | null | undefined;
}

export interface CreateApiKeyArguments {
  readonly name: string;
  readonly scope: KeyScope;
  readonly endpoints?: readonly string[] | null | undefined;
  readonly environment?: string | null | undefined;
  readonly expiresInS?: number | null | undefined;
  readonly account?: string | null | undefined;
}

export interface RevokeApiKeyArguments {
  readonly id: string;
  readonly account?: string | null | undefined;
}

export interface MoveAccountArguments {
  readonly id: string;
  readonly cell: string;
}

export interface AssignNodeArguments {
  readonly id: string;
  readonly cell: string;
}

export interface CreateCellArguments {
  readonly name: string;
}

export interface CreateAccountArguments {
  readonly id: string;
  readonly cell?: string | null | undefined;
  readonly workerQuota?: number | null | undefined;
  readonly buildQuotaBytes?: number | null | undefined;
  readonly bodyQuotaBytes?: number | null | undefined;
  readonly isolation?: IsolationRulesInput | null | undefined;
}

export interface UpdateAccountArguments {
  readonly id: string;
  readonly workerQuota?: number | null | undefined;
  readonly buildQuotaBytes?: number | null | undefined;
  readonly bodyQuotaBytes?: number | null | undefined;
  readonly isolation?: IsolationRulesInput | null | undefined;
}

export interface DeleteAccountArguments {
  readonly id: string;
  readonly force: boolean | null;
  readonly stopJobs: boolean | null;
}

export interface CreateJoinTokenArguments {
  readonly name?: string | null | undefined;
  readonly expiresInS?: number | null | undefined;
  readonly maxUses?: number | null | undefined;
  readonly neverExpires: boolean | null;
  readonly cell?: string | null | undefined;
}

export interface RevokeJoinTokenArguments {
  readonly id: string;
}

export interface DrainNodeArguments {
  readonly id: string;
}

export interface ResumeNodeArguments {
  readonly id: string;
}

export interface RemoveNodeArguments {
  readonly id: string;
  readonly force: boolean | null;
}

export interface StartBulkOperationArguments {
  readonly endpoint: string;
  readonly action: BulkAction;
  readonly filter?: JobFilter | null | undefined;
}

export interface StopBulkOperationArguments {
  readonly id: string;
}

export interface RedeliverWebhookArguments {
  readonly id: string;
}

export interface AddAlertChannelArguments {
  readonly kind: AlertChannelKind;
  readonly address: string;
}

export interface TestAlertChannelArguments {
  readonly id: string;
}

export interface RemoveAlertChannelArguments {
  readonly id: string;
}

export interface SetSecretArguments {
  readonly name: string;
  readonly environment?: string | null | undefined;
  readonly value: string;
}

export interface DeleteSecretArguments {
  readonly name: string;
  readonly environment?: string | null | undefined;
}

/** The resolvers of Query and Mutation. */
export interface Root {
  readonly environments: () => Promise<readonly Environment[]>;
  readonly environment: (args: EnvironmentArguments) => Promise<Environment | null>;
  readonly endpoints: (args: EndpointsArguments) => Promise<readonly Endpoint[]>;
  readonly endpoint: (args: EndpointArguments) => Promise<Endpoint | null>;
  readonly builds: (args: BuildsArguments) => Promise<readonly Build[]>;
  readonly buildDifference: (args: BuildDifferenceArguments) => Promise<BuildDifference>;
  readonly deployments: (args: DeploymentsArguments) => Promise<readonly Deployment[]>;
  readonly workers: (args: WorkersArguments) => Promise<readonly Worker[]>;
  readonly jobs: (args: JobsArguments) => Promise<JobPage>;
  readonly jobSummary: (args: JobSummaryArguments) => Promise<JobSummary>;
  readonly countJobs: (args: CountJobsArguments) => Promise<JobCount>;
  readonly bulkOperations: (args: BulkOperationsArguments) => Promise<readonly BulkOperation[]>;
  readonly job: (args: JobArguments) => Promise<Job | null>;
  readonly history: (args: HistoryArguments) => Promise<History>;
  readonly routeHistory: (args: RouteHistoryArguments) => Promise<RouteHistory>;
  readonly deviceHistory: (args: DeviceHistoryArguments) => Promise<DeviceHistory>;
  readonly routeFigures: (args: RouteFiguresArguments) => Promise<readonly RouteFigures[]>;
  readonly attention: () => Promise<Attention>;
  readonly alertChannels: () => Promise<readonly AlertChannel[]>;
  readonly nodes: (args: NodesArguments) => Promise<readonly Node[]>;
  readonly node: (args: NodeArguments) => Promise<Node | null>;
  readonly machineTypes: () => Promise<readonly MachineType[]>;
  readonly joinTokens: (args: JoinTokensArguments) => Promise<readonly JoinToken[]>;
  readonly webhooks: (args: WebhooksArguments) => Promise<WebhookPage>;
  readonly webhookSecret: () => Promise<string>;
  readonly secrets: () => Promise<readonly Secret[]>;
  readonly apiKeys: (args: ApiKeysArguments) => Promise<readonly ApiKey[]>;
  readonly audit: (args: AuditArguments) => Promise<AuditPage>;
  readonly account: () => Promise<Account>;
  readonly accounts: (args: AccountsArguments) => Promise<readonly Account[]>;
  readonly cells: () => Promise<readonly Cell[]>;
  readonly cluster: () => Promise<Cluster>;
  readonly logs: (args: LogsArguments) => Promise<readonly LogLine[]>;
  readonly searchLogs: (args: SearchLogsArguments) => Promise<LogPage>;
  readonly createEnvironment: (args: CreateEnvironmentArguments) => Promise<Environment>;
  readonly deleteEnvironment: (args: DeleteEnvironmentArguments) => Promise<readonly Endpoint[]>;
  readonly deploy: (args: DeployArguments) => Promise<DeployResult>;
  readonly updateEndpoint: (args: UpdateEndpointArguments) => Promise<Endpoint>;
  readonly startWorker: (args: StartWorkerArguments) => Promise<WorkerStart>;
  readonly deleteEndpoint: (args: DeleteEndpointArguments) => Promise<Endpoint>;
  readonly deleteEndpoints: (args: DeleteEndpointsArguments) => Promise<readonly Endpoint[]>;
  readonly rollback: (args: RollbackArguments) => Promise<DeployResult>;
  readonly createApiKey: (args: CreateApiKeyArguments) => Promise<CreatedApiKey>;
  readonly revokeApiKey: (args: RevokeApiKeyArguments) => Promise<ApiKey>;
  readonly moveAccount: (args: MoveAccountArguments) => Promise<string>;
  readonly assignNode: (args: AssignNodeArguments) => Promise<string>;
  readonly createCell: (args: CreateCellArguments) => Promise<Cell>;
  readonly createAccount: (args: CreateAccountArguments) => Promise<CreatedAccount>;
  readonly updateAccount: (args: UpdateAccountArguments) => Promise<Account>;
  readonly deleteAccount: (args: DeleteAccountArguments) => Promise<Account>;
  readonly createJoinToken: (args: CreateJoinTokenArguments) => Promise<CreatedJoinToken>;
  readonly revokeJoinToken: (args: RevokeJoinTokenArguments) => Promise<JoinToken>;
  readonly drainNode: (args: DrainNodeArguments) => Promise<Node>;
  readonly resumeNode: (args: ResumeNodeArguments) => Promise<Node>;
  readonly removeNode: (args: RemoveNodeArguments) => Promise<string>;
  readonly startBulkOperation: (args: StartBulkOperationArguments) => Promise<BulkOperation>;
  readonly stopBulkOperation: (args: StopBulkOperationArguments) => Promise<BulkOperation>;
  readonly redeliverWebhook: (args: RedeliverWebhookArguments) => Promise<string>;
  readonly addAlertChannel: (args: AddAlertChannelArguments) => Promise<AlertChannel>;
  readonly testAlertChannel: (args: TestAlertChannelArguments) => Promise<string | null>;
  readonly removeAlertChannel: (args: RemoveAlertChannelArguments) => Promise<AlertChannel>;
  readonly setSecret: (args: SetSecretArguments) => Promise<Secret>;
  readonly deleteSecret: (args: DeleteSecretArguments) => Promise<Secret>;
  readonly rotateWebhookSecret: () => Promise<RotatedSecret>;
}
