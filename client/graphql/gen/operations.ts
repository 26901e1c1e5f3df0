/** Generated from the schema by `npm run generate`; do not edit. */
/** Text of an operation, with the types of its result and its variables. */
export type Operation<Result, Variables> = string & { readonly _result?: Result; readonly _variables?: Variables };

export type KeyScope = 'ALL' | 'ENDPOINTS' | 'READ_ONLY' | 'ENVIRONMENT' | 'OPERATOR';

export type AlertChannelKind = 'WEBHOOK' | 'EMAIL';

export type Kind = 'QUEUE' | 'LOAD_BALANCED';

export type Cause = 'DEPLOY' | 'ROLLBACK';

export type StartPhase = 'PAUSED' | 'PLACING' | 'NO_NODE' | 'PREPARING' | 'STARTING' | 'READY' | 'CRASH_LOOP';

export type BulkState = 'RUNNING' | 'DONE' | 'STOPPED' | 'FAILED';

export type JobStatus = 'IN_QUEUE' | 'IN_PROGRESS' | 'COMPLETED' | 'FAILED' | 'CANCELLED' | 'TIMED_OUT';

export type WebhookState = 'PENDING' | 'FAILED';

export type AttentionKind = 'CRASH_LOOP' | 'NO_CAPACITY' | 'WEBHOOKS_FAILING' | 'DISK_LOW' | 'NODE_DISCONNECTED' | 'GATEWAY_UNREACHABLE' | 'DEVICE_UNHEALTHY' | 'GATEWAY_UNKNOWN' | 'RELEASE_CRASHES' | 'PAUSED' | 'QUOTA_NEARLY_USED' | 'KEY_EXPIRES' | 'FAILURE_RATE' | 'QUEUE_DELAY' | 'GPU_IDLE' | 'CERTIFICATE_EXPIRES';

export type AttentionSeverity = 'CRITICAL' | 'WARNING';

export type SchedulerRole = 'OWNER' | 'STANDBY';

export interface IsolationRulesInput {
  readonly least?: string | null | undefined;
  readonly runtimes?: readonly string[] | null | undefined;
  readonly network?: string | null | undefined;
}

export interface AuditFilter {
  readonly key?: string | null | undefined;
  readonly action?: string | null | undefined;
  readonly object?: string | null | undefined;
  readonly sinceMs?: number | null | undefined;
  readonly untilMs?: number | null | undefined;
}

export interface SourceRevisionInput {
  readonly commit: string;
  readonly message: string;
  readonly isDirty: boolean;
}

export interface KeptSettings {
  readonly endpoint: string;
  readonly settings: readonly string[];
  readonly env: readonly string[];
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
  readonly oldestFirst?: boolean | null | undefined;
}

export interface KeyRow {
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

export interface AccountRow {
  readonly id: string;
  readonly cell: string;
  readonly createdAt: string | null;
  readonly quota: {
    readonly workers: number;
    readonly used: number;
  };
  readonly endpoints: number;
  readonly storage: {
    readonly builds: {
      readonly used: number;
      readonly quota: number;
    };
    readonly bodies: {
      readonly used: number;
      readonly quota: number;
    };
  };
  readonly isolation: IsolationRules | null;
}

export interface IsolationRules {
  readonly least: string;
  readonly runtimes: readonly string[];
  readonly network: string;
}

export interface AlertChannelRow {
  readonly id: string;
  readonly kind: AlertChannelKind;
  readonly address: string;
  readonly wholeService: boolean;
  readonly createdAt: string;
  readonly open: number;
  readonly failure: string | null;
}

export interface AuditRow {
  readonly at: string;
  readonly id: string;
  readonly key: string;
  readonly keyName: string;
  readonly address: string | null;
  readonly action: string;
  readonly object: string;
  readonly before: unknown | null;
  readonly after: unknown | null;
}

export interface EndpointFields {
  readonly id: string;
  readonly name: string;
  readonly kind: Kind;
  readonly url: string;
  readonly environment: string;
  readonly created: boolean;
  readonly build: {
    readonly digest: string;
  } | null;
  readonly release: string;
  readonly routes: readonly {
    readonly method: string;
    readonly path: string;
    readonly function: string;
  }[];
  readonly functions: readonly string[];
  readonly settings: {
    readonly workersMin: number;
    readonly workersMax: number;
  };
  readonly workers: {
    readonly total: number;
  };
  readonly queue: {
    readonly inQueue: number;
    readonly inProgress: number;
    readonly reason: string | null;
    readonly detail: string | null;
  };
}

export interface WorkerFields {
  readonly id: string;
  readonly endpointId: string;
  readonly state: string;
  readonly reason: string | null;
  readonly detail: string | null;
  readonly jobs: number;
  readonly maxConcurrency: number;
  readonly nodeId: string;
  readonly decision: string;
  readonly devices: readonly string[];
  readonly releaseId: string;
  readonly runtime: string;
  readonly failures: number;
  readonly start: {
    readonly artifactMs: number;
    readonly startedMs: number;
    readonly loadedMs: number;
  };
}

export interface DeployedFacts {
  readonly id: string;
  readonly name: string;
  readonly kind: Kind;
  readonly build: {
    readonly digest: string;
  } | null;
  readonly routes: readonly {
    readonly method: string;
    readonly path: string;
    readonly function: string;
  }[];
  readonly functions: readonly string[];
  readonly envNames: readonly string[];
  readonly settings: AllSettings;
}

export interface BuildRow {
  readonly digest: string;
  readonly size: number;
  readonly environment: string;
  readonly deployedAt: string;
  readonly endpoints: readonly string[];
  readonly current: readonly string[];
  readonly functions: readonly string[];
}

export interface ReleaseFacts {
  readonly number: number;
  readonly cause: Cause;
  readonly key: string | null;
  readonly keyName: string | null;
  readonly source: {
    readonly commit: string;
    readonly message: string;
    readonly isDirty: boolean;
  } | null;
}

export interface Difference {
  readonly files: readonly {
    readonly path: string;
    readonly sizeBefore: number | null;
    readonly sizeAfter: number | null;
  }[];
  readonly filesOmitted: number;
  readonly packages: readonly {
    readonly name: string;
    readonly before: string | null;
    readonly after: string | null;
  }[];
  readonly packagesOmitted: number;
}

export interface WorkerStart {
  readonly phase: StartPhase;
  readonly detail: string | null;
  readonly worker: string | null;
  readonly node: string | null;
  readonly release: string;
  readonly failures: number;
  readonly lastError: string | null;
}

export interface EnvironmentRow {
  readonly name: string;
  readonly createdAt: string | null;
  readonly workersMax: number;
  readonly deployment: number;
}

export interface SecretRow {
  readonly name: string;
  readonly environment: string | null;
  readonly createdAt: string;
  readonly changedAt: string;
  readonly usedBy: readonly string[];
}

export interface BulkProgress {
  readonly id: string;
  readonly state: BulkState;
  readonly changed: number;
  readonly error: string | null;
}

export interface JobStory {
  readonly status: JobStatus;
  readonly submittedAt: string;
  readonly startedAt: string | null;
  readonly endedAt: string | null;
  readonly delayTime: number | null;
  readonly attempts: number;
  readonly worker: string | null;
  readonly node: string | null;
  readonly pastAttempts: readonly {
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
  }[];
  readonly queueReasons: readonly {
    readonly at: string;
    readonly until: string | null;
    readonly reason: string;
    readonly detail: string | null;
  }[];
}

export interface LogRow {
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
  readonly cursor: string | null;
  readonly incomplete: boolean;
  readonly missingNodes: readonly string[];
  readonly unfilteredNodes: readonly string[];
  readonly lines: readonly LogRow[];
}

export interface WebhookFields {
  readonly id: string;
  readonly endpoint: string;
  readonly url: string;
  readonly state: WebhookState;
  readonly tries: number;
  readonly dueAt: string | null;
  readonly error: string | null;
}

export interface IncidentFields {
  readonly kind: AttentionKind;
  readonly severity: AttentionSeverity;
  readonly subject: string;
  readonly since: string | null;
  readonly endpoint: string | null;
  readonly node: string | null;
  readonly message: string;
  readonly runbook: string;
}

export interface AttentionRow {
  readonly kind: AttentionKind;
  readonly severity: AttentionSeverity;
  readonly subject: string;
  readonly since: string | null;
  readonly endpoint: string | null;
  readonly node: string | null;
  readonly message: string;
  readonly runbook: string;
  readonly actions: readonly {
    readonly label: string;
    readonly command: string;
  }[];
  readonly effects: readonly IncidentFields[];
}

export interface NodeFields {
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
  readonly allocated: {
    readonly cpus: number;
    readonly memoryBytes: number;
    readonly devices: number;
  };
  readonly allocatable: {
    readonly cpus: number | null;
    readonly memoryBytes: number | null;
  };
  readonly memoryAvailableBytes: number | null;
  readonly diskAvailableBytes: number | null;
  readonly cpuPercent: number | null;
  readonly runtimes: readonly string[];
  readonly packages: Readonly<Record<string, string>>;
  readonly deviceProblem: string | null;
  readonly unreachableGateways: readonly {
    readonly address: string;
    readonly dialed: string;
    readonly reason: string;
  }[];
  readonly isolation: {
    readonly processes: string;
    readonly containers: string | null;
    readonly processNetworks: readonly string[];
    readonly containerNetworks: readonly string[];
    readonly missing: readonly {
      readonly without: string;
      readonly reason: string;
      readonly remedy: string;
    }[];
  } | null;
  readonly hardware: {
    readonly manufacturer: string;
    readonly model: string;
    readonly isVirtual: boolean;
    readonly cpuCores: number | null;
    readonly cpuSockets: number | null;
    readonly swapBytes: number;
    readonly disks: readonly {
      readonly name: string;
      readonly model: string;
      readonly kind: string;
      readonly sizeBytes: number;
    }[];
    readonly networkInterfaces: readonly {
      readonly name: string;
      readonly kind: string;
      readonly addresses: readonly string[];
      readonly mtu: number | null;
      readonly speedMbps: number | null;
      readonly isDefault: boolean;
    }[];
  } | null;
  readonly devices: readonly {
    readonly uuid: string;
    readonly name: string;
    readonly memoryBytes: number;
    readonly healthy: boolean;
    readonly problem: string | null;
    readonly temperatureCelsius: number | null;
    readonly utilizationPercent: number | null;
    readonly eccCorrected: number | null;
    readonly eccUncorrected: number | null;
    readonly recoveryAction: string;
    readonly pciBusId: string;
    readonly xids: readonly {
      readonly code: number;
      readonly text: string;
      readonly at: string;
    }[];
  }[];
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
  readonly images: readonly string[];
  readonly devices: readonly {
    readonly model: string;
    readonly memoryBytes: number;
    readonly count: number;
  }[];
  readonly nodeVersion: string;
  readonly pythonVersion: string;
}

export interface JoinTokenRow {
  readonly id: string;
  readonly cell: string;
  readonly name: string;
  readonly createdAt: string | null;
  readonly expiresAt: string | null;
  readonly maxUses: number | null;
  readonly uses: number;
}

export interface CellRow {
  readonly name: string;
  readonly accounts: number;
  readonly address: string | null;
}

export interface AllSettings {
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

export interface ListKeysResult {
  readonly apiKeys: readonly KeyRow[];
}
export type ListKeysVariables = {
  readonly account?: string | null | undefined;
};
export const LIST_KEYS =
  'query ListKeys($account:ID){apiKeys(account:$account){id name prefix scope endpoints environment createdAt expiresAt lastUsedAt}}' as Operation<ListKeysResult, ListKeysVariables>;

export interface CreateKeyResult {
  readonly createApiKey: {
    readonly plaintext: string;
    readonly key: KeyRow;
  };
}
export type CreateKeyVariables = {
  readonly name: string;
  readonly scope: KeyScope;
  readonly endpoints?: readonly string[] | null | undefined;
  readonly environment?: string | null | undefined;
  readonly expiresInS?: number | null | undefined;
  readonly account?: string | null | undefined;
};
export const CREATE_KEY =
  'mutation CreateKey($name:String!$scope:KeyScope!$endpoints:[ID!]$environment:String$expiresInS:Int$account:String){createApiKey(name:$name scope:$scope endpoints:$endpoints environment:$environment expiresInS:$expiresInS account:$account){plaintext key{id name prefix scope endpoints environment createdAt expiresAt lastUsedAt}}}' as Operation<CreateKeyResult, CreateKeyVariables>;

export interface RevokeKeyResult {
  readonly revokeApiKey: KeyRow;
}
export type RevokeKeyVariables = {
  readonly id: string;
  readonly account?: string | null | undefined;
};
export const REVOKE_KEY =
  'mutation RevokeKey($id:ID!$account:ID){revokeApiKey(id:$id account:$account){id name prefix scope endpoints environment createdAt expiresAt lastUsedAt}}' as Operation<RevokeKeyResult, RevokeKeyVariables>;

export interface GetAccountResult {
  readonly account: AccountRow;
}
export type GetAccountVariables = Readonly<Record<string, never>>;
export const GET_ACCOUNT =
  'query GetAccount{account{id cell createdAt quota{workers used}endpoints storage{builds{used quota}bodies{used quota}}isolation{least runtimes network}}}' as Operation<GetAccountResult, GetAccountVariables>;

export interface ListAccountsResult {
  readonly accounts: readonly AccountRow[];
}
export type ListAccountsVariables = Readonly<Record<string, never>>;
export const LIST_ACCOUNTS =
  'query ListAccounts{accounts{id cell createdAt quota{workers used}endpoints storage{builds{used quota}bodies{used quota}}isolation{least runtimes network}}}' as Operation<ListAccountsResult, ListAccountsVariables>;

export interface CreateAccountResult {
  readonly createAccount: {
    readonly account: AccountRow;
    readonly keyText: string;
  };
}
export type CreateAccountVariables = {
  readonly id: string;
  readonly workerQuota?: number | null | undefined;
  readonly buildQuotaBytes?: number | null | undefined;
  readonly bodyQuotaBytes?: number | null | undefined;
  readonly isolation?: IsolationRulesInput | null | undefined;
  readonly cell?: string | null | undefined;
};
export const CREATE_ACCOUNT =
  'mutation CreateAccount($id:ID!$workerQuota:Int$buildQuotaBytes:Float$bodyQuotaBytes:Float$isolation:IsolationRulesInput$cell:String){createAccount(id:$id workerQuota:$workerQuota buildQuotaBytes:$buildQuotaBytes bodyQuotaBytes:$bodyQuotaBytes isolation:$isolation cell:$cell){account{id cell createdAt quota{workers used}endpoints storage{builds{used quota}bodies{used quota}}isolation{least runtimes network}}keyText}}' as Operation<CreateAccountResult, CreateAccountVariables>;

export interface UpdateAccountResult {
  readonly updateAccount: AccountRow;
}
export type UpdateAccountVariables = {
  readonly id: string;
  readonly workerQuota?: number | null | undefined;
  readonly buildQuotaBytes?: number | null | undefined;
  readonly bodyQuotaBytes?: number | null | undefined;
  readonly isolation?: IsolationRulesInput | null | undefined;
};
export const UPDATE_ACCOUNT =
  'mutation UpdateAccount($id:ID!$workerQuota:Int$buildQuotaBytes:Float$bodyQuotaBytes:Float$isolation:IsolationRulesInput){updateAccount(id:$id workerQuota:$workerQuota buildQuotaBytes:$buildQuotaBytes bodyQuotaBytes:$bodyQuotaBytes isolation:$isolation){id cell createdAt quota{workers used}endpoints storage{builds{used quota}bodies{used quota}}isolation{least runtimes network}}}' as Operation<UpdateAccountResult, UpdateAccountVariables>;

export interface DeleteAccountResult {
  readonly deleteAccount: AccountRow;
}
export type DeleteAccountVariables = {
  readonly id: string;
  readonly force?: boolean | null | undefined;
  readonly stopJobs?: boolean | null | undefined;
};
export const DELETE_ACCOUNT =
  'mutation DeleteAccount($id:ID!$force:Boolean$stopJobs:Boolean){deleteAccount(id:$id force:$force stopJobs:$stopJobs){id cell createdAt quota{workers used}endpoints storage{builds{used quota}bodies{used quota}}isolation{least runtimes network}}}' as Operation<DeleteAccountResult, DeleteAccountVariables>;

export interface MoveAccountResult {
  readonly moveAccount: string;
}
export type MoveAccountVariables = {
  readonly id: string;
  readonly cell: string;
};
export const MOVE_ACCOUNT =
  'mutation MoveAccount($id:ID!$cell:String!){moveAccount(id:$id cell:$cell)}' as Operation<MoveAccountResult, MoveAccountVariables>;

export interface ListAlertChannelsResult {
  readonly alertChannels: readonly AlertChannelRow[];
}
export type ListAlertChannelsVariables = Readonly<Record<string, never>>;
export const LIST_ALERT_CHANNELS =
  'query ListAlertChannels{alertChannels{id kind address wholeService createdAt open failure}}' as Operation<ListAlertChannelsResult, ListAlertChannelsVariables>;

export interface AddAlertChannelResult {
  readonly added: AlertChannelRow;
}
export type AddAlertChannelVariables = {
  readonly kind: AlertChannelKind;
  readonly address: string;
};
export const ADD_ALERT_CHANNEL =
  'mutation AddAlertChannel($kind:AlertChannelKind!$address:String!){added:addAlertChannel(kind:$kind address:$address){id kind address wholeService createdAt open failure}}' as Operation<AddAlertChannelResult, AddAlertChannelVariables>;

export interface TestAlertChannelResult {
  readonly error: string | null;
}
export type TestAlertChannelVariables = {
  readonly id: string;
};
export const TEST_ALERT_CHANNEL =
  'mutation TestAlertChannel($id:ID!){error:testAlertChannel(id:$id)}' as Operation<TestAlertChannelResult, TestAlertChannelVariables>;

export interface RemoveAlertChannelResult {
  readonly removed: AlertChannelRow;
}
export type RemoveAlertChannelVariables = {
  readonly id: string;
};
export const REMOVE_ALERT_CHANNEL =
  'mutation RemoveAlertChannel($id:ID!){removed:removeAlertChannel(id:$id){id kind address wholeService createdAt open failure}}' as Operation<RemoveAlertChannelResult, RemoveAlertChannelVariables>;

export interface ListAuditResult {
  readonly audit: {
    readonly entries: readonly AuditRow[];
    readonly next: string | null;
  };
}
export type ListAuditVariables = {
  readonly account?: string | null | undefined;
  readonly filter?: AuditFilter | null | undefined;
  readonly before?: string | null | undefined;
  readonly limit?: number | null | undefined;
};
export const LIST_AUDIT =
  'query ListAudit($account:ID$filter:AuditFilter$before:ID$limit:Int){audit(account:$account filter:$filter before:$before limit:$limit){entries{at id key keyName address action object before after}next}}' as Operation<ListAuditResult, ListAuditVariables>;

export interface ListEndpointsResult {
  readonly endpoints: readonly EndpointFields[];
}
export type ListEndpointsVariables = {
  readonly environment?: string | null | undefined;
};
export const LIST_ENDPOINTS =
  'query ListEndpoints($environment:String){endpoints(environment:$environment){id name kind url environment created build{digest}release routes{method path function}functions settings{workersMin workersMax}workers{total}queue{inQueue inProgress reason detail}}}' as Operation<ListEndpointsResult, ListEndpointsVariables>;

export interface GetEndpointResult {
  readonly endpoint: {
    readonly settings: AllSettings;
    readonly scaling: {
      readonly counts: Readonly<Record<string, number>>;
      readonly workers: readonly WorkerFields[];
      readonly rejections: readonly {
        readonly reason: string;
        readonly nodes: number;
        readonly examples: readonly {
          readonly node: string;
          readonly detail: string;
        }[];
      }[];
      readonly decisions: readonly {
        readonly at: string;
        readonly kind: string;
        readonly worker: string | null;
        readonly node: string | null;
        readonly reason: string;
      }[];
      readonly failedStarts: number;
      readonly lastStartError: string | null;
    } | null;
  } | null;
}
export type GetEndpointVariables = {
  readonly id: string;
};
export const GET_ENDPOINT =
  'query GetEndpoint($id:ID!){endpoint(id:$id){settings{description workersMin workersMax idleTimeout keepIdle startTimeout executionTimeoutMs scalerType scalerValue delayTarget maxConcurrency maxAttempts gpuIds gpuCount minCuda minDriver cpu imageName runtime network requestsPerWorker rateLimits public}scaling{counts workers{id endpointId:endpoint state reason detail jobs maxConcurrency nodeId:node decision devices releaseId:release runtime failures start{artifactMs startedMs loadedMs}}rejections{reason nodes examples{node detail}}decisions{at kind worker node reason}failedStarts lastStartError}}}' as Operation<GetEndpointResult, GetEndpointVariables>;

export interface ListDeployedFactsResult {
  readonly endpoints: readonly {
    readonly id: string;
    readonly name: string;
    readonly kind: Kind;
    readonly build: {
      readonly digest: string;
    } | null;
    readonly routes: readonly {
      readonly method: string;
      readonly path: string;
      readonly function: string;
    }[];
    readonly functions: readonly string[];
    readonly envNames: readonly string[];
    readonly settings: AllSettings;
    readonly defaultMaxAttempts: number;
  }[];
}
export type ListDeployedFactsVariables = {
  readonly environment?: string | null | undefined;
};
export const LIST_DEPLOYED_FACTS =
  'query ListDeployedFacts($environment:String){endpoints(environment:$environment){id name kind build{digest}routes{method path function}functions envNames settings{description workersMin workersMax idleTimeout keepIdle startTimeout executionTimeoutMs scalerType scalerValue delayTarget maxConcurrency maxAttempts gpuIds gpuCount minCuda minDriver cpu imageName runtime network requestsPerWorker rateLimits public}defaultMaxAttempts}}' as Operation<ListDeployedFactsResult, ListDeployedFactsVariables>;

export interface ListEarlierFactsResult {
  readonly endpoints: readonly DeployedFacts[];
}
export type ListEarlierFactsVariables = {
  readonly environment?: string | null | undefined;
};
export const LIST_EARLIER_FACTS =
  'query ListEarlierFacts($environment:String){endpoints(environment:$environment){id name kind build{digest}routes{method path function}functions envNames settings{description workersMin workersMax idleTimeout keepIdle startTimeout executionTimeoutMs scalerType scalerValue delayTarget maxConcurrency maxAttempts gpuIds gpuCount minCuda minDriver cpu imageName runtime network requestsPerWorker rateLimits public}}}' as Operation<ListEarlierFactsResult, ListEarlierFactsVariables>;

export interface ListWorkersResult {
  readonly workers: readonly WorkerFields[];
}
export type ListWorkersVariables = {
  readonly endpoint?: string | null | undefined;
};
export const LIST_WORKERS =
  'query ListWorkers($endpoint:ID){workers(endpoint:$endpoint){id endpointId:endpoint state reason detail jobs maxConcurrency nodeId:node decision devices releaseId:release runtime failures start{artifactMs startedMs loadedMs}}}' as Operation<ListWorkersResult, ListWorkersVariables>;

export interface ListBuildsResult {
  readonly builds: readonly BuildRow[];
}
export type ListBuildsVariables = {
  readonly environment?: string | null | undefined;
  readonly endpoint?: string | null | undefined;
};
export const LIST_BUILDS =
  'query ListBuilds($environment:String$endpoint:String){builds(environment:$environment endpoint:$endpoint){digest size environment deployedAt endpoints current functions}}' as Operation<ListBuildsResult, ListBuildsVariables>;

export interface ListReleasesResult {
  readonly builds: readonly {
    readonly digest: string;
    readonly size: number;
    readonly environment: string;
    readonly deployedAt: string;
    readonly endpoints: readonly string[];
    readonly current: readonly string[];
    readonly functions: readonly string[];
    readonly release: ReleaseFacts;
  }[];
}
export type ListReleasesVariables = {
  readonly environment?: string | null | undefined;
  readonly endpoint: string;
};
export const LIST_RELEASES =
  'query ListReleases($environment:String$endpoint:String!){builds(environment:$environment endpoint:$endpoint){digest size environment deployedAt endpoints current functions release{number cause key keyName source{commit message isDirty}}}}' as Operation<ListReleasesResult, ListReleasesVariables>;

export interface ListDeployedSettingsResult {
  readonly builds: readonly {
    readonly current: readonly string[];
    readonly settings: {
      readonly settings: AllSettings;
      readonly envNames: readonly string[];
      readonly envChanged: readonly string[];
      readonly keptSettings: readonly string[];
      readonly keptEnv: readonly string[];
    } | null;
  }[];
}
export type ListDeployedSettingsVariables = {
  readonly environment?: string | null | undefined;
  readonly endpoint: string;
};
export const LIST_DEPLOYED_SETTINGS =
  'query ListDeployedSettings($environment:String$endpoint:String!){builds(environment:$environment endpoint:$endpoint){current settings{settings{description workersMin workersMax idleTimeout keepIdle startTimeout executionTimeoutMs scalerType scalerValue delayTarget maxConcurrency maxAttempts gpuIds gpuCount minCuda minDriver cpu imageName runtime network requestsPerWorker rateLimits public}envNames envChanged keptSettings keptEnv}}}' as Operation<ListDeployedSettingsResult, ListDeployedSettingsVariables>;

export interface GetBuildDifferenceResult {
  readonly buildDifference: Difference;
}
export type GetBuildDifferenceVariables = {
  readonly from: string;
  readonly to: string;
};
export const GET_BUILD_DIFFERENCE =
  'query GetBuildDifference($from:String!$to:String!){buildDifference(from:$from to:$to){files{path sizeBefore sizeAfter}filesOmitted packages{name before after}packagesOmitted}}' as Operation<GetBuildDifferenceResult, GetBuildDifferenceVariables>;

export interface DeploySourceResult {
  readonly deploy: {
    readonly environment: string;
    readonly endpoints: readonly EndpointFields[];
  };
}
export type DeploySourceVariables = {
  readonly environment?: string | null | undefined;
  readonly build: string;
  readonly endpoints: readonly object[];
  readonly source: SourceRevisionInput;
};
export const DEPLOY_SOURCE =
  'mutation DeploySource($environment:String$build:String!$endpoints:[EndpointSpec!]!$source:SourceRevisionInput!){deploy(environment:$environment build:$build endpoints:$endpoints source:$source){environment endpoints{id name kind url environment created build{digest}release routes{method path function}functions settings{workersMin workersMax}workers{total}queue{inQueue inProgress reason detail}}}}' as Operation<DeploySourceResult, DeploySourceVariables>;

export interface DeployKeepingResult {
  readonly deploy: {
    readonly environment: string;
    readonly endpoints: readonly EndpointFields[];
  };
}
export type DeployKeepingVariables = {
  readonly environment?: string | null | undefined;
  readonly build: string;
  readonly endpoints: readonly object[];
  readonly source?: SourceRevisionInput | null | undefined;
  readonly keep: readonly KeptSettings[];
};
export const DEPLOY_KEEPING =
  'mutation DeployKeeping($environment:String$build:String!$endpoints:[EndpointSpec!]!$source:SourceRevisionInput$keep:[KeptSettings!]!){deploy(environment:$environment build:$build endpoints:$endpoints source:$source keep:$keep){environment endpoints{id name kind url environment created build{digest}release routes{method path function}functions settings{workersMin workersMax}workers{total}queue{inQueue inProgress reason detail}}}}' as Operation<DeployKeepingResult, DeployKeepingVariables>;

export interface DeployResult {
  readonly deploy: {
    readonly environment: string;
    readonly endpoints: readonly EndpointFields[];
  };
}
export type DeployVariables = {
  readonly environment?: string | null | undefined;
  readonly build: string;
  readonly endpoints: readonly object[];
};
export const DEPLOY =
  'mutation Deploy($environment:String$build:String!$endpoints:[EndpointSpec!]!){deploy(environment:$environment build:$build endpoints:$endpoints){environment endpoints{id name kind url environment created build{digest}release routes{method path function}functions settings{workersMin workersMax}workers{total}queue{inQueue inProgress reason detail}}}}' as Operation<DeployResult, DeployVariables>;

export interface RollbackResult {
  readonly rollback: {
    readonly environment: string;
    readonly endpoints: readonly EndpointFields[];
  };
}
export type RollbackVariables = {
  readonly environment?: string | null | undefined;
  readonly endpoint?: string | null | undefined;
  readonly build?: string | null | undefined;
};
export const ROLLBACK =
  'mutation Rollback($environment:String$endpoint:ID$build:String){rollback(environment:$environment endpoint:$endpoint build:$build){environment endpoints{id name kind url environment created build{digest}release routes{method path function}functions settings{workersMin workersMax}workers{total}queue{inQueue inProgress reason detail}}}}' as Operation<RollbackResult, RollbackVariables>;

export interface DeleteEndpointResult {
  readonly deleteEndpoint: EndpointFields;
}
export type DeleteEndpointVariables = {
  readonly environment?: string | null | undefined;
  readonly endpoint: string;
  readonly stopJobs?: boolean | null | undefined;
};
export const DELETE_ENDPOINT =
  'mutation DeleteEndpoint($environment:String$endpoint:ID!$stopJobs:Boolean){deleteEndpoint(environment:$environment endpoint:$endpoint stopJobs:$stopJobs){id name kind url environment created build{digest}release routes{method path function}functions settings{workersMin workersMax}workers{total}queue{inQueue inProgress reason detail}}}' as Operation<DeleteEndpointResult, DeleteEndpointVariables>;

export interface DeleteEndpointsResult {
  readonly deleteEndpoints: readonly EndpointFields[];
}
export type DeleteEndpointsVariables = {
  readonly environment: string;
  readonly stopJobs?: boolean | null | undefined;
};
export const DELETE_ENDPOINTS =
  'mutation DeleteEndpoints($environment:String!$stopJobs:Boolean){deleteEndpoints(environment:$environment stopJobs:$stopJobs){id name kind url environment created build{digest}release routes{method path function}functions settings{workersMin workersMax}workers{total}queue{inQueue inProgress reason detail}}}' as Operation<DeleteEndpointsResult, DeleteEndpointsVariables>;

export interface UpdateEndpointResult {
  readonly updateEndpoint: {
    readonly id: string;
    readonly name: string;
    readonly kind: Kind;
    readonly url: string;
    readonly environment: string;
    readonly created: boolean;
    readonly build: {
      readonly digest: string;
    } | null;
    readonly release: string;
    readonly routes: readonly {
      readonly method: string;
      readonly path: string;
      readonly function: string;
    }[];
    readonly functions: readonly string[];
    readonly settings: {
      readonly workersMin: number;
      readonly workersMax: number;
    };
    readonly workers: {
      readonly total: number;
    };
    readonly queue: {
      readonly inQueue: number;
      readonly inProgress: number;
      readonly reason: string | null;
      readonly detail: string | null;
    };
    readonly all: AllSettings;
  };
}
export type UpdateEndpointVariables = {
  readonly endpoint: string;
  readonly settings: EndpointSettings;
};
export const UPDATE_ENDPOINT =
  'mutation UpdateEndpoint($endpoint:ID!$settings:EndpointSettings!){updateEndpoint(endpoint:$endpoint settings:$settings){id name kind url environment created build{digest}release routes{method path function}functions settings{workersMin workersMax}workers{total}queue{inQueue inProgress reason detail}all:settings{description workersMin workersMax idleTimeout keepIdle startTimeout executionTimeoutMs scalerType scalerValue delayTarget maxConcurrency maxAttempts gpuIds gpuCount minCuda minDriver cpu imageName runtime network requestsPerWorker rateLimits public}}}' as Operation<UpdateEndpointResult, UpdateEndpointVariables>;

export interface StartWorkerResult {
  readonly startWorker: WorkerStart;
}
export type StartWorkerVariables = {
  readonly endpoint: string;
};
export const START_WORKER =
  'mutation StartWorker($endpoint:ID!){startWorker(endpoint:$endpoint){phase detail worker node release failures lastError}}' as Operation<StartWorkerResult, StartWorkerVariables>;

export interface ListEnvironmentsResult {
  readonly environments: readonly {
    readonly name: string;
    readonly createdAt: string | null;
    readonly workersMax: number;
    readonly deployment: number;
    readonly endpoints: readonly {
      readonly id: string;
    }[];
  }[];
}
export type ListEnvironmentsVariables = Readonly<Record<string, never>>;
export const LIST_ENVIRONMENTS =
  'query ListEnvironments{environments{name createdAt workersMax deployment endpoints{id}}}' as Operation<ListEnvironmentsResult, ListEnvironmentsVariables>;

export interface GetEnvironmentResult {
  readonly environment: {
    readonly name: string;
    readonly createdAt: string | null;
    readonly workersMax: number;
    readonly deployment: number;
    readonly endpoints: readonly EndpointFields[];
  } | null;
}
export type GetEnvironmentVariables = {
  readonly name: string;
};
export const GET_ENVIRONMENT =
  'query GetEnvironment($name:String!){environment(name:$name){name createdAt workersMax deployment endpoints{id name kind url environment created build{digest}release routes{method path function}functions settings{workersMin workersMax}workers{total}queue{inQueue inProgress reason detail}}}}' as Operation<GetEnvironmentResult, GetEnvironmentVariables>;

export interface CreateEnvironmentResult {
  readonly createEnvironment: {
    readonly name: string;
  };
}
export type CreateEnvironmentVariables = {
  readonly name: string;
};
export const CREATE_ENVIRONMENT =
  'mutation CreateEnvironment($name:String!){createEnvironment(name:$name){name}}' as Operation<CreateEnvironmentResult, CreateEnvironmentVariables>;

export interface DeleteEnvironmentResult {
  readonly deleteEnvironment: readonly EndpointFields[];
}
export type DeleteEnvironmentVariables = {
  readonly name: string;
  readonly force?: boolean | null | undefined;
  readonly stopJobs?: boolean | null | undefined;
};
export const DELETE_ENVIRONMENT =
  'mutation DeleteEnvironment($name:String!$force:Boolean$stopJobs:Boolean){deleteEnvironment(name:$name force:$force stopJobs:$stopJobs){id name kind url environment created build{digest}release routes{method path function}functions settings{workersMin workersMax}workers{total}queue{inQueue inProgress reason detail}}}' as Operation<DeleteEnvironmentResult, DeleteEnvironmentVariables>;

export interface ListSecretsResult {
  readonly secrets: readonly SecretRow[];
}
export type ListSecretsVariables = Readonly<Record<string, never>>;
export const LIST_SECRETS =
  'query ListSecrets{secrets{name environment createdAt changedAt usedBy}}' as Operation<ListSecretsResult, ListSecretsVariables>;

export interface SetSecretResult {
  readonly setSecret: SecretRow;
}
export type SetSecretVariables = {
  readonly name: string;
  readonly environment?: string | null | undefined;
  readonly value: string;
};
export const SET_SECRET =
  'mutation SetSecret($name:String!$environment:String$value:String!){setSecret(name:$name environment:$environment value:$value){name environment createdAt changedAt usedBy}}' as Operation<SetSecretResult, SetSecretVariables>;

export interface DeleteSecretResult {
  readonly deleteSecret: SecretRow;
}
export type DeleteSecretVariables = {
  readonly name: string;
  readonly environment?: string | null | undefined;
};
export const DELETE_SECRET =
  'mutation DeleteSecret($name:String!$environment:String){deleteSecret(name:$name environment:$environment){name environment createdAt changedAt usedBy}}' as Operation<DeleteSecretResult, DeleteSecretVariables>;

export interface RetryFailedResult {
  readonly operation: BulkProgress;
}
export type RetryFailedVariables = {
  readonly endpoint: string;
};
export const RETRY_FAILED =
  'mutation RetryFailed($endpoint:ID!){operation:startBulkOperation(endpoint:$endpoint action:RETRY filter:{status:[FAILED TIMED_OUT]}){id state changed error}}' as Operation<RetryFailedResult, RetryFailedVariables>;

export interface ListBulkOperationsResult {
  readonly bulkOperations: readonly BulkProgress[];
}
export type ListBulkOperationsVariables = {
  readonly endpoint: string;
};
export const LIST_BULK_OPERATIONS =
  'query ListBulkOperations($endpoint:ID!){bulkOperations(endpoint:$endpoint){id state changed error}}' as Operation<ListBulkOperationsResult, ListBulkOperationsVariables>;

export interface GetJobStoryResult {
  readonly job: {
    readonly submittedBy: string | null;
    readonly status: JobStatus;
    readonly submittedAt: string;
    readonly startedAt: string | null;
    readonly endedAt: string | null;
    readonly delayTime: number | null;
    readonly attempts: number;
    readonly worker: string | null;
    readonly node: string | null;
    readonly pastAttempts: readonly {
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
    }[];
    readonly queueReasons: readonly {
      readonly at: string;
      readonly until: string | null;
      readonly reason: string;
      readonly detail: string | null;
    }[];
  } | null;
}
export type GetJobStoryVariables = {
  readonly endpoint: string;
  readonly id: string;
};
export const GET_JOB_STORY =
  'query GetJobStory($endpoint:ID!$id:ID!){job(endpoint:$endpoint id:$id){submittedBy status submittedAt startedAt endedAt delayTime attempts worker node pastAttempts{submittedAt attempt worker node leasedAt startedAt endedAt reason error count}queueReasons{at until reason detail}}}' as Operation<GetJobStoryResult, GetJobStoryVariables>;

export interface SearchLogsResult {
  readonly searchLogs: LogPage;
}
export type SearchLogsVariables = {
  readonly endpoint: string;
  readonly filter?: LogFilter | null | undefined;
  readonly limit?: number | null | undefined;
  readonly cursor?: string | null | undefined;
  readonly waitMs?: number | null | undefined;
};
export const SEARCH_LOGS =
  'query SearchLogs($endpoint:ID!$filter:LogFilter$limit:Int$cursor:String$waitMs:Int){searchLogs(endpoint:$endpoint filter:$filter limit:$limit cursor:$cursor waitMs:$waitMs){cursor incomplete missingNodes unfilteredNodes lines{at worker release job attempt stream level text fields}}}' as Operation<SearchLogsResult, SearchLogsVariables>;

export interface ListWebhooksResult {
  readonly webhooks: {
    readonly webhooks: readonly WebhookFields[];
    readonly next: string | null;
  };
}
export type ListWebhooksVariables = {
  readonly after?: string | null | undefined;
  readonly limit?: number | null | undefined;
};
export const LIST_WEBHOOKS =
  'query ListWebhooks($after:ID$limit:Int){webhooks(after:$after limit:$limit){webhooks{id endpoint url state tries dueAt error}next}}' as Operation<ListWebhooksResult, ListWebhooksVariables>;

export interface RedeliverWebhookResult {
  readonly redeliverWebhook: string;
}
export type RedeliverWebhookVariables = {
  readonly id: string;
};
export const REDELIVER_WEBHOOK =
  'mutation RedeliverWebhook($id:ID!){redeliverWebhook(id:$id)}' as Operation<RedeliverWebhookResult, RedeliverWebhookVariables>;

export interface GetWebhookSecretResult {
  readonly webhookSecret: string;
}
export type GetWebhookSecretVariables = Readonly<Record<string, never>>;
export const GET_WEBHOOK_SECRET =
  'query GetWebhookSecret{webhookSecret}' as Operation<GetWebhookSecretResult, GetWebhookSecretVariables>;

export interface RotateWebhookSecretResult {
  readonly rotated: {
    readonly secret: string;
    readonly previousUntil: string | null;
  };
}
export type RotateWebhookSecretVariables = Readonly<Record<string, never>>;
export const ROTATE_WEBHOOK_SECRET =
  'mutation RotateWebhookSecret{rotated:rotateWebhookSecret{secret previousUntil}}' as Operation<RotateWebhookSecretResult, RotateWebhookSecretVariables>;

export interface ListAttentionResult {
  readonly attention: {
    readonly omitted: number;
    readonly items: readonly AttentionRow[];
  };
}
export type ListAttentionVariables = Readonly<Record<string, never>>;
export const LIST_ATTENTION =
  'query ListAttention{attention{omitted items{kind severity subject since endpoint node message runbook actions{label command}effects{kind severity subject since endpoint node message runbook}}}}' as Operation<ListAttentionResult, ListAttentionVariables>;

export interface ListNodesResult {
  readonly nodes: readonly NodeFields[];
}
export type ListNodesVariables = Readonly<Record<string, never>>;
export const LIST_NODES =
  'query ListNodes{nodes{id cell name connected lastSeenAt draining workers jobs cpus memoryBytes allocated{cpus memoryBytes devices}allocatable{cpus memoryBytes}memoryAvailableBytes diskAvailableBytes cpuPercent runtimes packages:packageVersions deviceProblem unreachableGateways{address dialed reason}isolation{processes containers processNetworks containerNetworks missing{without reason remedy}}hardware{manufacturer model isVirtual cpuCores cpuSockets swapBytes disks{name model kind sizeBytes}networkInterfaces{name kind addresses mtu speedMbps isDefault}}devices{uuid name:model memoryBytes healthy problem temperatureCelsius utilizationPercent eccCorrected eccUncorrected recoveryAction pciBusId xids{code text at}}}}' as Operation<ListNodesResult, ListNodesVariables>;

export interface DrainNodeResult {
  readonly node: NodeFields;
}
export type DrainNodeVariables = {
  readonly id: string;
};
export const DRAIN_NODE =
  'mutation DrainNode($id:ID!){node:drainNode(id:$id){id cell name connected lastSeenAt draining workers jobs cpus memoryBytes allocated{cpus memoryBytes devices}allocatable{cpus memoryBytes}memoryAvailableBytes diskAvailableBytes cpuPercent runtimes packages:packageVersions deviceProblem unreachableGateways{address dialed reason}isolation{processes containers processNetworks containerNetworks missing{without reason remedy}}hardware{manufacturer model isVirtual cpuCores cpuSockets swapBytes disks{name model kind sizeBytes}networkInterfaces{name kind addresses mtu speedMbps isDefault}}devices{uuid name:model memoryBytes healthy problem temperatureCelsius utilizationPercent eccCorrected eccUncorrected recoveryAction pciBusId xids{code text at}}}}' as Operation<DrainNodeResult, DrainNodeVariables>;

export interface ResumeNodeResult {
  readonly node: NodeFields;
}
export type ResumeNodeVariables = {
  readonly id: string;
};
export const RESUME_NODE =
  'mutation ResumeNode($id:ID!){node:resumeNode(id:$id){id cell name connected lastSeenAt draining workers jobs cpus memoryBytes allocated{cpus memoryBytes devices}allocatable{cpus memoryBytes}memoryAvailableBytes diskAvailableBytes cpuPercent runtimes packages:packageVersions deviceProblem unreachableGateways{address dialed reason}isolation{processes containers processNetworks containerNetworks missing{without reason remedy}}hardware{manufacturer model isVirtual cpuCores cpuSockets swapBytes disks{name model kind sizeBytes}networkInterfaces{name kind addresses mtu speedMbps isDefault}}devices{uuid name:model memoryBytes healthy problem temperatureCelsius utilizationPercent eccCorrected eccUncorrected recoveryAction pciBusId xids{code text at}}}}' as Operation<ResumeNodeResult, ResumeNodeVariables>;

export interface RemoveNodeResult {
  readonly removeNode: string;
}
export type RemoveNodeVariables = {
  readonly id: string;
  readonly force?: boolean | null | undefined;
};
export const REMOVE_NODE =
  'mutation RemoveNode($id:ID!$force:Boolean){removeNode(id:$id force:$force)}' as Operation<RemoveNodeResult, RemoveNodeVariables>;

export interface AssignNodeResult {
  readonly assignNode: string;
}
export type AssignNodeVariables = {
  readonly id: string;
  readonly cell: string;
};
export const ASSIGN_NODE =
  'mutation AssignNode($id:ID!$cell:String!){assignNode(id:$id cell:$cell)}' as Operation<AssignNodeResult, AssignNodeVariables>;

export interface ListMachineTypesResult {
  readonly machineTypes: readonly MachineType[];
}
export type ListMachineTypesVariables = Readonly<Record<string, never>>;
export const LIST_MACHINE_TYPES =
  'query ListMachineTypes{machineTypes{nodes os arch cpus cpuModel memoryBytes runtimes packages images devices{model memoryBytes count}nodeVersion pythonVersion}}' as Operation<ListMachineTypesResult, ListMachineTypesVariables>;

export interface ListJoinTokensResult {
  readonly joinTokens: readonly JoinTokenRow[];
}
export type ListJoinTokensVariables = Readonly<Record<string, never>>;
export const LIST_JOIN_TOKENS =
  'query ListJoinTokens{joinTokens{id cell name createdAt expiresAt maxUses uses}}' as Operation<ListJoinTokensResult, ListJoinTokensVariables>;

export interface CreateJoinTokenResult {
  readonly created: {
    readonly plaintext: string;
    readonly token: JoinTokenRow;
  };
}
export type CreateJoinTokenVariables = {
  readonly name?: string | null | undefined;
  readonly expiresInS?: number | null | undefined;
  readonly maxUses?: number | null | undefined;
  readonly neverExpires?: boolean | null | undefined;
  readonly cell?: string | null | undefined;
};
export const CREATE_JOIN_TOKEN =
  'mutation CreateJoinToken($name:String$expiresInS:Int$maxUses:Int$neverExpires:Boolean$cell:String){created:createJoinToken(name:$name expiresInS:$expiresInS maxUses:$maxUses neverExpires:$neverExpires cell:$cell){plaintext token{id cell name createdAt expiresAt maxUses uses}}}' as Operation<CreateJoinTokenResult, CreateJoinTokenVariables>;

export interface RevokeJoinTokenResult {
  readonly revoked: JoinTokenRow;
}
export type RevokeJoinTokenVariables = {
  readonly id: string;
};
export const REVOKE_JOIN_TOKEN =
  'mutation RevokeJoinToken($id:ID!){revoked:revokeJoinToken(id:$id){id cell name createdAt expiresAt maxUses uses}}' as Operation<RevokeJoinTokenResult, RevokeJoinTokenVariables>;

export interface ListCellsResult {
  readonly cells: readonly CellRow[];
}
export type ListCellsVariables = Readonly<Record<string, never>>;
export const LIST_CELLS =
  'query ListCells{cells{name accounts address}}' as Operation<ListCellsResult, ListCellsVariables>;

export interface CreateCellResult {
  readonly created: CellRow;
}
export type CreateCellVariables = {
  readonly name: string;
};
export const CREATE_CELL =
  'mutation CreateCell($name:String!){created:createCell(name:$name){name accounts address}}' as Operation<CreateCellResult, CreateCellVariables>;

export interface GetClusterResult {
  readonly cluster: {
    readonly cells: readonly {
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
    }[];
    readonly schedulers: readonly {
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
    }[];
    readonly database: {
      readonly address: string;
      readonly version: string;
      readonly schemaVersion: number;
      readonly fsync: boolean;
      readonly synchronous: boolean;
      readonly synchronousStandbys: number | null;
    } | null;
    readonly answeredBy: string;
  };
}
export type GetClusterVariables = Readonly<Record<string, never>>;
export const GET_CLUSTER =
  'query GetCluster{cluster{cells{name ownerId ownerAddress term termAgeMs lastBatchAgeMs takeOvers previousOwnerAddress standbys masterKeyId}schedulers{id cell role address hostName version schemaVersion masterKeyIds roleAgeMs lastSeenAgeMs clockOffsetMs}database{address version schemaVersion fsync synchronous synchronousStandbys}answeredBy}}' as Operation<GetClusterResult, GetClusterVariables>;

export interface PingResult {
  readonly __typename: 'Query';
}
export type PingVariables = Readonly<Record<string, never>>;
export const PING =
  'query Ping{__typename}' as Operation<PingResult, PingVariables>;

export interface ListSchedulerVersionsResult {
  readonly cluster: {
    readonly schedulers: readonly {
      readonly address: string;
      readonly role: SchedulerRole;
      readonly version: string;
      readonly lastSeenAgeMs: number;
    }[];
  };
}
export type ListSchedulerVersionsVariables = Readonly<Record<string, never>>;
export const LIST_SCHEDULER_VERSIONS =
  'query ListSchedulerVersions{cluster{schedulers{address role version lastSeenAgeMs}}}' as Operation<ListSchedulerVersionsResult, ListSchedulerVersionsVariables>;

export interface ListAgentVersionsResult {
  readonly nodes: readonly {
    readonly name: string;
    readonly connected: boolean;
    readonly agentVersion: string | null;
  }[];
}
export type ListAgentVersionsVariables = Readonly<Record<string, never>>;
export const LIST_AGENT_VERSIONS =
  'query ListAgentVersions{nodes{name connected agentVersion}}' as Operation<ListAgentVersionsResult, ListAgentVersionsVariables>;

export interface ListConnectedNodesResult {
  readonly nodes: readonly {
    readonly name: string;
    readonly connected: boolean;
  }[];
}
export type ListConnectedNodesVariables = Readonly<Record<string, never>>;
export const LIST_CONNECTED_NODES =
  'query ListConnectedNodes{nodes{name connected}}' as Operation<ListConnectedNodesResult, ListConnectedNodesVariables>;
