/** Generated from the schema by `npm run generate`; do not edit. */
/** Text of an operation, with the types of its result and its variables. */
export type Operation<Result, Variables> = string & { readonly _result?: Result; readonly _variables?: Variables };

export type AlertChannelKind = 'WEBHOOK' | 'EMAIL';

export type Kind = 'QUEUE' | 'LOAD_BALANCED';

export type JobStatus = 'IN_QUEUE' | 'IN_PROGRESS' | 'COMPLETED' | 'FAILED' | 'CANCELLED' | 'TIMED_OUT';

export type WebhookState = 'PENDING' | 'FAILED';

export type AttentionKind = 'CRASH_LOOP' | 'NO_CAPACITY' | 'WEBHOOKS_FAILING' | 'DISK_LOW' | 'NODE_DISCONNECTED' | 'GATEWAY_UNREACHABLE' | 'DEVICE_UNHEALTHY' | 'GATEWAY_UNKNOWN' | 'RELEASE_CRASHES' | 'PAUSED' | 'QUOTA_NEARLY_USED' | 'KEY_EXPIRES' | 'FAILURE_RATE' | 'QUEUE_DELAY' | 'GPU_IDLE' | 'CERTIFICATE_EXPIRES';

export type AttentionSeverity = 'CRITICAL' | 'WARNING';

export type KeyScope = 'ALL' | 'ENDPOINTS' | 'READ_ONLY' | 'ENVIRONMENT' | 'OPERATOR';

export type Cause = 'DEPLOY' | 'ROLLBACK';

export type BulkAction = 'RETRY' | 'CANCEL' | 'PURGE';

export type BulkState = 'RUNNING' | 'DONE' | 'STOPPED' | 'FAILED';

export type SchedulerRole = 'OWNER' | 'STANDBY';

export interface AuditFilter {
  readonly key?: string | null | undefined;
  readonly action?: string | null | undefined;
  readonly object?: string | null | undefined;
  readonly sinceMs?: number | null | undefined;
  readonly untilMs?: number | null | undefined;
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

export interface JobFilter {
  readonly status?: readonly JobStatus[] | null | undefined;
  readonly sinceMs?: number | null | undefined;
  readonly untilMs?: number | null | undefined;
  readonly text?: string | null | undefined;
  readonly tag?: string | null | undefined;
  readonly submittedBy?: string | null | undefined;
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

export interface EnvironmentRow {
  readonly name: string;
  readonly createdAt: string | null;
  readonly deployment: number;
  readonly endpoints: readonly {
    readonly id: string;
    readonly name: string;
  }[];
}

export interface AuditRow {
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

export interface AlertChannelRow {
  readonly id: string;
  readonly kind: AlertChannelKind;
  readonly address: string;
  readonly wholeService: boolean;
  readonly createdAt: string;
  readonly open: number;
  readonly failure: string | null;
}

export interface EndpointRow {
  readonly id: string;
  readonly name: string;
  readonly kind: Kind;
  readonly environment: string;
  readonly workers: {
    readonly total: number;
    readonly max: number;
  };
  readonly queue: {
    readonly inQueue: number;
    readonly inProgress: number;
    readonly reason: string | null;
    readonly detail: string | null;
  };
}

export interface ParameterData {
  readonly name: string;
  readonly required: boolean;
  readonly type: string | null;
  readonly schema: string | null;
  readonly takesBody: boolean;
}

export interface WorkerData {
  readonly id: string;
  readonly node: string;
  readonly state: string;
  readonly reason: string | null;
  readonly detail: string | null;
  readonly jobs: number;
  readonly maxConcurrency: number;
  readonly devices: readonly string[];
  readonly decision: string;
  readonly runtime: string;
  readonly start: {
    readonly artifactMs: number;
    readonly startedMs: number;
    readonly loadedMs: number;
  };
}

export interface EndpointData {
  readonly id: string;
  readonly name: string;
  readonly kind: Kind;
  readonly url: string;
  readonly hostUrl: string | null;
  readonly environment: string;
  readonly release: string;
  readonly build: {
    readonly digest: string;
  } | null;
  readonly functions: readonly string[];
  readonly envNames: readonly string[];
  readonly routes: readonly {
    readonly method: string;
    readonly path: string;
    readonly function: string;
  }[];
  readonly signatures: readonly {
    readonly name: string;
    readonly parameters: readonly ParameterData[];
  }[];
  readonly workers: {
    readonly total: number;
    readonly max: number;
  };
  readonly queue: {
    readonly inQueue: number;
    readonly inProgress: number;
    readonly reason: string | null;
    readonly detail: string | null;
  };
  readonly scaling: {
    readonly counts: Readonly<Record<string, number>>;
    readonly failedStarts: number;
    readonly lastStartError: string | null;
    readonly workers: readonly WorkerData[];
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
  } | null;
}

export interface Released {
  readonly settings: AllSettings;
  readonly routes: readonly {
    readonly method: string;
    readonly path: string;
    readonly function: string;
  }[];
  readonly envNames: readonly string[];
  readonly envChanged: readonly string[];
}

export interface Durations {
  readonly p50: readonly (number | null)[];
  readonly p95: readonly (number | null)[];
  readonly p99: readonly (number | null)[];
}

export interface History {
  readonly step: number;
  readonly at: readonly number[];
  readonly openSteps: number;
  readonly submitted: readonly number[];
  readonly completed: readonly number[];
  readonly failed: readonly number[];
  readonly timedOut: readonly number[];
  readonly inQueue: readonly number[];
  readonly longestQueue: readonly number[];
  readonly inProgress: readonly number[];
  readonly workers: {
    readonly idle: readonly number[];
    readonly running: readonly number[];
    readonly initializing: readonly number[];
    readonly throttled: readonly number[];
    readonly unhealthy: readonly number[];
  };
  readonly delay: Durations;
  readonly execution: Durations;
  readonly starts: {
    readonly count: readonly number[];
    readonly placed: readonly (number | null)[];
    readonly artifact: readonly (number | null)[];
    readonly started: readonly (number | null)[];
    readonly loaded: readonly (number | null)[];
  };
}

export interface RouteFigure {
  readonly method: string;
  readonly path: string;
  readonly requests: number;
  readonly refused: number;
  readonly errors: number;
  readonly perMinute: number;
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
}

export interface JobActivity {
  readonly at: readonly number[];
  readonly openSteps: number;
  readonly submitted: readonly number[];
  readonly completed: readonly number[];
  readonly failed: readonly number[];
  readonly timedOut: readonly number[];
  readonly delay: {
    readonly p95: readonly (number | null)[];
  };
}

export const JOB_ACTIVITY = 'at openSteps submitted completed failed timedOut delay{p95}';

export interface RouteActivity {
  readonly requestsByStep: readonly number[];
  readonly errorsByStep: readonly number[];
}

export const ROUTE_ACTIVITY = 'requestsByStep errorsByStep';

export interface JobCount {
  readonly count: number;
  readonly incomplete: boolean;
}

export interface Summary {
  readonly states: readonly {
    readonly status: JobStatus;
    readonly count: number;
    readonly incomplete: boolean;
  }[];
  readonly errors: readonly {
    readonly text: string;
    readonly message: string;
    readonly isCut: boolean;
    readonly count: number;
  }[];
}

export interface JobRow {
  readonly id: string;
  readonly endpoint: string;
  readonly worker: string | null;
  readonly node: string | null;
  readonly status: JobStatus;
  readonly submittedAt: string;
  readonly delayTime: number | null;
  readonly executionTime: number | null;
  readonly attempts: number;
  readonly error: string | null;
  readonly queueReason: string | null;
  readonly submittedBy: string | null;
  readonly tags: readonly string[];
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
  readonly chunks: number;
  readonly executionTimeout: number;
  readonly worker: string | null;
  readonly node: string | null;
  readonly queueReason: string | null;
  readonly error: string | null;
  readonly webhook: string | null;
  readonly traceId: string | null;
  readonly submittedBy: string | null;
  readonly tags: readonly string[];
  readonly input: string | null;
  readonly inputBytes: number | null;
  readonly output: string | null;
  readonly outputBytes: number | null;
  readonly pastAttempts: readonly PastAttempt[];
  readonly queueReasons: readonly QueueReason[];
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

export interface Delivery {
  readonly id: string;
  readonly state: WebhookState;
  readonly tries: number;
  readonly dueAt: string | null;
  readonly error: string | null;
}

export interface LogLine {
  readonly at: string;
  readonly worker: string;
  readonly stream: string;
  readonly level: string | null;
  readonly text: string;
  readonly job: string | null;
  readonly attempt: number | null;
}

export interface LogPage {
  readonly lines: readonly LogLine[];
  readonly incomplete: boolean;
  readonly missingNodes: readonly string[];
  readonly unfilteredNodes: readonly string[];
  readonly end: string;
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
  readonly xids: readonly {
    readonly code: number;
    readonly text: string;
    readonly at: string;
  }[];
}

export interface DeviceUser {
  readonly id: string;
  readonly node: string;
  readonly endpoint: string;
  readonly devices: readonly string[];
  readonly state: string;
}

export interface NamedEndpoint {
  readonly id: string;
  readonly name: string;
}

export interface NodeData {
  readonly id: string;
  readonly name: string;
  readonly connected: boolean;
  readonly lastSeenAt: string | null;
  readonly draining: boolean;
  readonly workers: number;
  readonly jobs: number;
  readonly cpus: number | null;
  readonly cpuPercent: number | null;
  readonly memoryBytes: number | null;
  readonly memoryAvailableBytes: number | null;
  readonly diskAvailableBytes: number | null;
  readonly agentVersion: string | null;
  readonly deviceProblem: string | null;
  readonly devices: readonly Device[];
  readonly isolation: {
    readonly processes: string;
    readonly containers: string | null;
    readonly processNetworks: readonly string[];
    readonly missing: readonly {
      readonly without: string;
      readonly reason: string;
      readonly remedy: string;
    }[];
  } | null;
}

export interface NamedNode {
  readonly id: string;
  readonly name: string;
  readonly connected: boolean;
  readonly lastSeenAt: string | null;
  readonly devices: readonly {
    readonly uuid: string;
    readonly model: string;
  }[];
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

export const DEVICE_HISTORY = 'step at utilization powerWatts memoryUsedBytes temperatureCelsius throttleReasons eccCorrected eccUncorrected xid';

export interface FoundEndpoint {
  readonly id: string;
  readonly name: string;
  readonly environment: string;
  readonly kind: Kind;
}

export interface AccountRow {
  readonly id: string;
  readonly cell: string;
  readonly createdAt: string | null;
  readonly endpoints: number;
  readonly quota: {
    readonly workers: number;
    readonly used: number;
  };
  readonly storage: {
    readonly builds: {
      readonly used: number;
    };
    readonly bodies: {
      readonly used: number;
    };
  };
  readonly isolation: {
    readonly least: string;
  } | null;
}

export interface JoinTokenRow {
  readonly id: string;
  readonly name: string;
  readonly cell: string;
  readonly createdAt: string | null;
  readonly expiresAt: string | null;
  readonly maxUses: number | null;
  readonly uses: number;
}

export interface Effect {
  readonly key: string;
  readonly kind: AttentionKind;
  readonly severity: AttentionSeverity;
  readonly subject: string;
  readonly since: string | null;
  readonly endpoint: string | null;
  readonly node: string | null;
  readonly message: string;
}

export interface Incident {
  readonly key: string;
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
  readonly effects: readonly Effect[];
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

export interface GetAccountResult {
  readonly account: {
    readonly id: string;
    readonly cell: string;
    readonly endpoints: number;
    readonly quota: {
      readonly workers: number;
      readonly used: number;
    };
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
    readonly isolation: {
      readonly least: string;
      readonly runtimes: readonly string[];
      readonly network: string;
    } | null;
  };
  readonly environments: readonly EnvironmentRow[];
  readonly builds: readonly {
    readonly digest: string;
    readonly environment: string;
    readonly size: number;
    readonly deployedAt: string;
    readonly current: readonly string[];
  }[];
}
export type GetAccountVariables = Readonly<Record<string, never>>;
export const GET_ACCOUNT =
  'query GetAccount{account{id cell endpoints quota{workers used}storage{builds{used quota}bodies{used quota}}isolation{least runtimes network}}environments{name createdAt deployment endpoints{id name}}builds{digest environment size deployedAt current}}' as Operation<GetAccountResult, GetAccountVariables>;

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
  readonly deleteEnvironment: readonly {
    readonly name: string;
  }[];
}
export type DeleteEnvironmentVariables = {
  readonly name: string;
};
export const DELETE_ENVIRONMENT =
  'mutation DeleteEnvironment($name:String!){deleteEnvironment(name:$name){name}}' as Operation<DeleteEnvironmentResult, DeleteEnvironmentVariables>;

export interface ListKeysResult {
  readonly apiKeys: readonly {
    readonly id: string;
    readonly name: string;
    readonly prefix: string;
    readonly scope: KeyScope;
    readonly environment: string | null;
    readonly createdAt: string | null;
    readonly expiresAt: string | null;
    readonly lastUsedAt: string | null;
  }[];
}
export type ListKeysVariables = Readonly<Record<string, never>>;
export const LIST_KEYS =
  'query ListKeys{apiKeys{id name prefix scope environment createdAt expiresAt lastUsedAt}}' as Operation<ListKeysResult, ListKeysVariables>;

export interface CreateKeyResult {
  readonly createApiKey: {
    readonly plaintext: string;
    readonly key: {
      readonly id: string;
    };
  };
}
export type CreateKeyVariables = {
  readonly name: string;
  readonly scope: KeyScope;
  readonly environment?: string | null | undefined;
  readonly expiresInS?: number | null | undefined;
};
export const CREATE_KEY =
  'mutation CreateKey($name:String!$scope:KeyScope!$environment:String$expiresInS:Int){createApiKey(name:$name scope:$scope environment:$environment expiresInS:$expiresInS){plaintext key{id}}}' as Operation<CreateKeyResult, CreateKeyVariables>;

export interface RevokeKeyResult {
  readonly revokeApiKey: {
    readonly id: string;
  };
}
export type RevokeKeyVariables = {
  readonly id: string;
};
export const REVOKE_KEY =
  'mutation RevokeKey($id:ID!){revokeApiKey(id:$id){id}}' as Operation<RevokeKeyResult, RevokeKeyVariables>;

export interface ListWebhooksResult {
  readonly webhooks: {
    readonly webhooks: readonly {
      readonly id: string;
      readonly endpoint: string;
      readonly url: string;
      readonly state: WebhookState;
      readonly tries: number;
      readonly dueAt: string | null;
      readonly error: string | null;
    }[];
    readonly next: string | null;
  };
}
export type ListWebhooksVariables = {
  readonly after?: string | null | undefined;
};
export const LIST_WEBHOOKS =
  'query ListWebhooks($after:ID){webhooks(after:$after limit:50 newestFirst:true){webhooks{id endpoint url state tries dueAt error}next}}' as Operation<ListWebhooksResult, ListWebhooksVariables>;

export interface RedeliverWebhookResult {
  readonly redeliverWebhook: string;
}
export type RedeliverWebhookVariables = {
  readonly id: string;
};
export const REDELIVER_WEBHOOK =
  'mutation RedeliverWebhook($id:ID!){redeliverWebhook(id:$id)}' as Operation<RedeliverWebhookResult, RedeliverWebhookVariables>;

export interface ListActivityResult {
  readonly audit: {
    readonly entries: readonly AuditRow[];
    readonly next: string | null;
  };
}
export type ListActivityVariables = {
  readonly filter?: AuditFilter | null | undefined;
  readonly before?: string | null | undefined;
};
export const LIST_ACTIVITY =
  'query ListActivity($filter:AuditFilter$before:ID){audit(filter:$filter before:$before limit:50){entries{id at key keyName address action object before after}next}}' as Operation<ListActivityResult, ListActivityVariables>;

export interface ListActivityKeysResult {
  readonly apiKeys: readonly {
    readonly id: string;
    readonly name: string;
  }[];
}
export type ListActivityKeysVariables = Readonly<Record<string, never>>;
export const LIST_ACTIVITY_KEYS =
  'query ListActivityKeys{apiKeys{id name}}' as Operation<ListActivityKeysResult, ListActivityKeysVariables>;

export interface ListAlertChannelsResult {
  readonly alertChannels: readonly AlertChannelRow[];
}
export type ListAlertChannelsVariables = Readonly<Record<string, never>>;
export const LIST_ALERT_CHANNELS =
  'query ListAlertChannels{alertChannels{id kind address wholeService createdAt open failure}}' as Operation<ListAlertChannelsResult, ListAlertChannelsVariables>;

export interface AddAlertChannelResult {
  readonly addAlertChannel: {
    readonly id: string;
    readonly address: string;
  };
}
export type AddAlertChannelVariables = {
  readonly kind: AlertChannelKind;
  readonly address: string;
};
export const ADD_ALERT_CHANNEL =
  'mutation AddAlertChannel($kind:AlertChannelKind!$address:String!){addAlertChannel(kind:$kind address:$address){id address}}' as Operation<AddAlertChannelResult, AddAlertChannelVariables>;

export interface TestAlertChannelResult {
  readonly testAlertChannel: string | null;
}
export type TestAlertChannelVariables = {
  readonly id: string;
};
export const TEST_ALERT_CHANNEL =
  'mutation TestAlertChannel($id:ID!){testAlertChannel(id:$id)}' as Operation<TestAlertChannelResult, TestAlertChannelVariables>;

export interface RemoveAlertChannelResult {
  readonly removeAlertChannel: {
    readonly id: string;
  };
}
export type RemoveAlertChannelVariables = {
  readonly id: string;
};
export const REMOVE_ALERT_CHANNEL =
  'mutation RemoveAlertChannel($id:ID!){removeAlertChannel(id:$id){id}}' as Operation<RemoveAlertChannelResult, RemoveAlertChannelVariables>;

export interface ListEndpointsResult {
  readonly endpoints: readonly EndpointRow[];
}
export type ListEndpointsVariables = Readonly<Record<string, never>>;
export const LIST_ENDPOINTS =
  'query ListEndpoints{endpoints{id name kind environment workers{total max}queue{inQueue inProgress reason detail}}}' as Operation<ListEndpointsResult, ListEndpointsVariables>;

export interface GetEndpointResult {
  readonly endpoint: EndpointData | null;
}
export type GetEndpointVariables = {
  readonly id: string;
};
export const GET_ENDPOINT =
  'query GetEndpoint($id:ID!){endpoint(id:$id){id name kind url hostUrl environment release build{digest}functions envNames routes{method path function}signatures{name parameters{name required type schema takesBody}}workers{total max}queue{inQueue inProgress reason detail}scaling{counts failedStarts lastStartError workers{id node state reason detail jobs maxConcurrency devices decision runtime start{artifactMs startedMs loadedMs}}rejections{reason nodes examples{node detail}}decisions{at kind worker node reason}}}}' as Operation<GetEndpointResult, GetEndpointVariables>;

export interface DeleteEndpointResult {
  readonly deleteEndpoint: {
    readonly id: string;
  };
}
export type DeleteEndpointVariables = {
  readonly id: string;
};
export const DELETE_ENDPOINT =
  'mutation DeleteEndpoint($id:ID!){deleteEndpoint(endpoint:$id){id}}' as Operation<DeleteEndpointResult, DeleteEndpointVariables>;

export interface GetSettingsResult {
  readonly endpoint: {
    readonly settings: AllSettings;
  } | null;
}
export type GetSettingsVariables = {
  readonly id: string;
};
export const GET_SETTINGS =
  'query GetSettings($id:ID!){endpoint(id:$id){settings{description workersMin workersMax idleTimeout keepIdle startTimeout executionTimeoutMs scalerType scalerValue delayTarget maxConcurrency maxAttempts gpuIds gpuCount minCuda minDriver cpu imageName runtime network requestsPerWorker rateLimits public}}}' as Operation<GetSettingsResult, GetSettingsVariables>;

export interface UpdateSettingsResult {
  readonly updateEndpoint: {
    readonly id: string;
  };
}
export type UpdateSettingsVariables = {
  readonly id: string;
  readonly settings: EndpointSettings;
};
export const UPDATE_SETTINGS =
  'mutation UpdateSettings($id:ID!$settings:EndpointSettings!){updateEndpoint(endpoint:$id settings:$settings){id}}' as Operation<UpdateSettingsResult, UpdateSettingsVariables>;

export interface ListReleasesResult {
  readonly builds: readonly {
    readonly digest: string;
    readonly size: number;
    readonly deployedAt: string;
    readonly functions: readonly string[];
    readonly settings: Released | null;
    readonly release: {
      readonly number: number;
      readonly cause: Cause;
      readonly key: string | null;
      readonly keyName: string | null;
      readonly source: {
        readonly commit: string;
        readonly message: string;
        readonly isDirty: boolean;
      } | null;
    };
  }[];
  readonly endpoint: {
    readonly settings: AllSettings;
  } | null;
}
export type ListReleasesVariables = {
  readonly id: string;
  readonly endpoint: string;
  readonly environment: string;
};
export const LIST_RELEASES =
  'query ListReleases($id:ID!$endpoint:String!$environment:String!){builds(endpoint:$endpoint environment:$environment){digest size deployedAt functions settings{settings{description workersMin workersMax idleTimeout keepIdle startTimeout executionTimeoutMs scalerType scalerValue delayTarget maxConcurrency maxAttempts gpuIds gpuCount minCuda minDriver cpu imageName runtime network requestsPerWorker rateLimits public}routes{method path function}envNames envChanged}release{number cause key keyName source{commit message isDirty}}}endpoint(id:$id){settings{description workersMin workersMax idleTimeout keepIdle startTimeout executionTimeoutMs scalerType scalerValue delayTarget maxConcurrency maxAttempts gpuIds gpuCount minCuda minDriver cpu imageName runtime network requestsPerWorker rateLimits public}}}' as Operation<ListReleasesResult, ListReleasesVariables>;

export interface ListDeploymentTimesResult {
  readonly deployments: readonly {
    readonly number: number;
    readonly at: string;
    readonly cause: Cause;
    readonly endpoints: readonly {
      readonly id: string;
    }[];
  }[];
}
export type ListDeploymentTimesVariables = {
  readonly environment: string;
};
export const LIST_DEPLOYMENT_TIMES =
  'query ListDeploymentTimes($environment:String!){deployments(environment:$environment limit:100){number at cause endpoints{id}}}' as Operation<ListDeploymentTimesResult, ListDeploymentTimesVariables>;

export interface RollbackResult {
  readonly rollback: {
    readonly environment: string;
  };
}
export type RollbackVariables = {
  readonly environment: string;
  readonly endpoint: string;
  readonly build: string;
};
export const ROLLBACK =
  'mutation Rollback($environment:String!$endpoint:ID!$build:String!){rollback(environment:$environment endpoint:$endpoint build:$build){environment}}' as Operation<RollbackResult, RollbackVariables>;

export interface GetHistoryResult {
  readonly history: History;
}
export type GetHistoryVariables = {
  readonly endpoint: string;
  readonly from: number;
  readonly to?: number | null | undefined;
};
export const GET_HISTORY =
  'query GetHistory($endpoint:ID!$from:Float!$to:Float){history(endpoint:$endpoint from:$from to:$to){step at openSteps submitted completed failed timedOut inQueue longestQueue inProgress workers{idle running initializing throttled unhealthy}delay{p50 p95 p99}execution{p50 p95 p99}starts{count placed artifact started loaded}}}' as Operation<GetHistoryResult, GetHistoryVariables>;

export interface GetRouteHistoryResult {
  readonly routeHistory: {
    readonly step: number;
    readonly at: readonly number[];
    readonly openSteps: number;
    readonly all: {
      readonly requests: readonly number[];
      readonly refused: readonly number[];
      readonly errors: readonly number[];
      readonly durations: Durations;
    };
    readonly routes: readonly {
      readonly method: string;
      readonly path: string;
      readonly requests: readonly number[];
      readonly refused: readonly number[];
      readonly errors: readonly number[];
      readonly durations: Durations;
    }[];
  };
}
export type GetRouteHistoryVariables = {
  readonly endpoint: string;
  readonly from: number;
  readonly to?: number | null | undefined;
};
export const GET_ROUTE_HISTORY =
  'query GetRouteHistory($endpoint:ID!$from:Float!$to:Float){routeHistory(endpoint:$endpoint from:$from to:$to){step at openSteps all{requests refused errors durations{p50 p95 p99}}routes{method path requests refused errors durations{p50 p95 p99}}}}' as Operation<GetRouteHistoryResult, GetRouteHistoryVariables>;

export interface GetRouteFiguresResult {
  readonly routeFigures: readonly RouteFigure[];
}
export type GetRouteFiguresVariables = {
  readonly endpoint: string;
};
export const GET_ROUTE_FIGURES =
  'query GetRouteFigures($endpoint:ID!){routeFigures(endpoint:$endpoint){method path requests refused errors perMinute p50 p95 p99}}' as Operation<GetRouteFiguresResult, GetRouteFiguresVariables>;

export interface GetBuildDifferenceResult {
  readonly buildDifference: {
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
  };
}
export type GetBuildDifferenceVariables = {
  readonly from: string;
  readonly to: string;
};
export const GET_BUILD_DIFFERENCE =
  'query GetBuildDifference($from:String!$to:String!){buildDifference(from:$from to:$to){files{path sizeBefore sizeAfter}filesOmitted packages{name before after}packagesOmitted}}' as Operation<GetBuildDifferenceResult, GetBuildDifferenceVariables>;

export interface CountJobsResult {
  readonly countJobs: JobCount;
}
export type CountJobsVariables = {
  readonly endpoint: string;
  readonly action: BulkAction;
  readonly filter?: JobFilter | null | undefined;
};
export const COUNT_JOBS =
  'query CountJobs($endpoint:ID!$action:BulkAction!$filter:JobFilter){countJobs(endpoint:$endpoint action:$action filter:$filter){count incomplete}}' as Operation<CountJobsResult, CountJobsVariables>;

export interface StartBulkOperationResult {
  readonly startBulkOperation: {
    readonly id: string;
  };
}
export type StartBulkOperationVariables = {
  readonly endpoint: string;
  readonly action: BulkAction;
  readonly filter?: JobFilter | null | undefined;
};
export const START_BULK_OPERATION =
  'mutation StartBulkOperation($endpoint:ID!$action:BulkAction!$filter:JobFilter){startBulkOperation(endpoint:$endpoint action:$action filter:$filter){id}}' as Operation<StartBulkOperationResult, StartBulkOperationVariables>;

export interface ListBulkOperationsResult {
  readonly bulkOperations: readonly {
    readonly id: string;
    readonly action: BulkAction;
    readonly state: BulkState;
    readonly examined: number;
    readonly changed: number;
    readonly skipped: number;
    readonly startedAt: string | null;
    readonly error: string | null;
  }[];
}
export type ListBulkOperationsVariables = {
  readonly endpoint: string;
};
export const LIST_BULK_OPERATIONS =
  'query ListBulkOperations($endpoint:ID!){bulkOperations(endpoint:$endpoint){id action state examined changed skipped startedAt error}}' as Operation<ListBulkOperationsResult, ListBulkOperationsVariables>;

export interface StopBulkOperationResult {
  readonly stopBulkOperation: {
    readonly id: string;
  };
}
export type StopBulkOperationVariables = {
  readonly id: string;
};
export const STOP_BULK_OPERATION =
  'mutation StopBulkOperation($id:ID!){stopBulkOperation(id:$id){id}}' as Operation<StopBulkOperationResult, StopBulkOperationVariables>;

export interface SummarizeJobsResult {
  readonly jobSummary: Summary;
}
export type SummarizeJobsVariables = {
  readonly endpoint: string;
  readonly filter?: JobFilter | null | undefined;
};
export const SUMMARIZE_JOBS =
  'query SummarizeJobs($endpoint:ID!$filter:JobFilter){jobSummary(endpoint:$endpoint filter:$filter){states{status count incomplete}errors{text message isCut count}}}' as Operation<SummarizeJobsResult, SummarizeJobsVariables>;

export interface SearchJobsResult {
  readonly jobs: {
    readonly jobs: readonly JobRow[];
    readonly cursor: string | null;
    readonly incomplete: boolean;
  };
}
export type SearchJobsVariables = {
  readonly endpoint: string;
  readonly filter?: JobFilter | null | undefined;
  readonly cursor?: string | null | undefined;
};
export const SEARCH_JOBS =
  'query SearchJobs($endpoint:ID!$filter:JobFilter$cursor:String){jobs(endpoint:$endpoint filter:$filter limit:50 cursor:$cursor){jobs{id endpoint worker node status submittedAt delayTime executionTime attempts error queueReason submittedBy tags}cursor incomplete}}' as Operation<SearchJobsResult, SearchJobsVariables>;

export interface GetJobResult {
  readonly job: Job | null;
  readonly endpoint: {
    readonly name: string;
    readonly url: string;
    readonly queue: {
      readonly reason: string | null;
      readonly detail: string | null;
    };
    readonly scaling: {
      readonly workers: readonly {
        readonly id: string;
        readonly node: string;
        readonly state: string;
        readonly decision: string;
        readonly start: {
          readonly artifactMs: number;
          readonly startedMs: number;
          readonly loadedMs: number;
        };
      }[];
      readonly decisions: readonly {
        readonly at: string;
        readonly kind: string;
        readonly worker: string | null;
      }[];
      readonly rejections: readonly {
        readonly reason: string;
        readonly examples: readonly {
          readonly node: string;
          readonly detail: string;
        }[];
      }[];
    } | null;
  } | null;
}
export type GetJobVariables = {
  readonly endpoint: string;
  readonly id: string;
};
export const GET_JOB =
  'query GetJob($endpoint:ID!$id:ID!){job(endpoint:$endpoint id:$id){id endpoint status isSync lowPriority submittedAt startedAt endedAt deleteAt delayTime executionTime attempts chunks executionTimeout worker node queueReason error webhook traceId submittedBy tags input inputBytes output outputBytes pastAttempts{submittedAt attempt worker node leasedAt startedAt endedAt reason error count}queueReasons{at until reason detail}}endpoint(id:$endpoint){name url queue{reason detail}scaling{workers{id node state decision start{artifactMs startedMs loadedMs}}decisions{at kind worker}rejections{reason examples{node detail}}}}}' as Operation<GetJobResult, GetJobVariables>;

export interface ListDeliveriesResult {
  readonly webhooks: {
    readonly webhooks: readonly Delivery[];
  };
}
export type ListDeliveriesVariables = {
  readonly after: string;
};
export const LIST_DELIVERIES =
  'query ListDeliveries($after:ID!){webhooks(after:$after limit:5){webhooks{id state tries dueAt error}}}' as Operation<ListDeliveriesResult, ListDeliveriesVariables>;

export interface ReadJobLogsResult {
  readonly searchLogs: {
    readonly lines: readonly LogLine[];
    readonly missingNodes: readonly string[];
  };
}
export type ReadJobLogsVariables = {
  readonly endpoint: string;
  readonly job: string;
};
export const READ_JOB_LOGS =
  'query ReadJobLogs($endpoint:ID!$job:ID!){searchLogs(endpoint:$endpoint filter:{job:$job}limit:200){lines{at worker stream level text job attempt}missingNodes}}' as Operation<ReadJobLogsResult, ReadJobLogsVariables>;

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
  'query SearchLogs($endpoint:ID!$filter:LogFilter$limit:Int$cursor:String$waitMs:Int){searchLogs(endpoint:$endpoint filter:$filter limit:$limit cursor:$cursor waitMs:$waitMs){lines{at worker stream level text job attempt}incomplete missingNodes unfilteredNodes end}}' as Operation<SearchLogsResult, SearchLogsVariables>;

export interface GetNodeResult {
  readonly node: NodeData | null;
  readonly workers: readonly DeviceUser[];
  readonly endpoints: readonly NamedEndpoint[];
}
export type GetNodeVariables = {
  readonly id: string;
};
export const GET_NODE =
  'query GetNode($id:ID!){node(id:$id){id name connected lastSeenAt draining workers jobs cpus cpuPercent memoryBytes memoryAvailableBytes diskAvailableBytes agentVersion deviceProblem devices{uuid model memoryBytes memoryUsedBytes healthy problem temperatureCelsius utilizationPercent xids{code text at}}isolation{processes containers processNetworks missing{without reason remedy}}}workers{id node endpoint devices state}endpoints{id name}}' as Operation<GetNodeResult, GetNodeVariables>;

export interface ListNodesResult {
  readonly nodes: readonly NodeData[];
  readonly workers: readonly DeviceUser[];
  readonly endpoints: readonly NamedEndpoint[];
}
export type ListNodesVariables = Readonly<Record<string, never>>;
export const LIST_NODES =
  'query ListNodes{nodes{id name connected lastSeenAt draining workers jobs cpus cpuPercent memoryBytes memoryAvailableBytes diskAvailableBytes agentVersion deviceProblem devices{uuid model memoryBytes memoryUsedBytes healthy problem temperatureCelsius utilizationPercent xids{code text at}}isolation{processes containers processNetworks missing{without reason remedy}}}workers{id node endpoint devices state}endpoints{id name}}' as Operation<ListNodesResult, ListNodesVariables>;

export interface SummarizeNodesResult {
  readonly nodes: readonly {
    readonly id: string;
    readonly name: string;
    readonly connected: boolean;
    readonly lastSeenAt: string | null;
    readonly draining: boolean;
    readonly workers: number;
    readonly jobs: number;
    readonly cpuPercent: number | null;
    readonly memoryBytes: number | null;
    readonly memoryAvailableBytes: number | null;
    readonly devices: readonly Device[];
  }[];
  readonly workers: readonly DeviceUser[];
}
export type SummarizeNodesVariables = Readonly<Record<string, never>>;
export const SUMMARIZE_NODES =
  'query SummarizeNodes{nodes(limit:100){id name connected lastSeenAt draining workers jobs cpuPercent memoryBytes memoryAvailableBytes devices{uuid model memoryBytes memoryUsedBytes healthy problem temperatureCelsius utilizationPercent xids{code text at}}}workers{id node endpoint devices state}}' as Operation<SummarizeNodesResult, SummarizeNodesVariables>;

export interface ListNodeNamesResult {
  readonly nodes: readonly NamedNode[];
}
export type ListNodeNamesVariables = Readonly<Record<string, never>>;
export const LIST_NODE_NAMES =
  'query ListNodeNames{nodes{id name connected lastSeenAt devices{uuid model}}}' as Operation<ListNodeNamesResult, ListNodeNamesVariables>;

export interface DrainNodeResult {
  readonly drainNode: {
    readonly id: string;
  };
}
export type DrainNodeVariables = {
  readonly id: string;
};
export const DRAIN_NODE =
  'mutation DrainNode($id:ID!){drainNode(id:$id){id}}' as Operation<DrainNodeResult, DrainNodeVariables>;

export interface ResumeNodeResult {
  readonly resumeNode: {
    readonly id: string;
  };
}
export type ResumeNodeVariables = {
  readonly id: string;
};
export const RESUME_NODE =
  'mutation ResumeNode($id:ID!){resumeNode(id:$id){id}}' as Operation<ResumeNodeResult, ResumeNodeVariables>;

export interface RemoveNodeResult {
  readonly removeNode: string;
}
export type RemoveNodeVariables = {
  readonly id: string;
};
export const REMOVE_NODE =
  'mutation RemoveNode($id:ID!){removeNode(id:$id)}' as Operation<RemoveNodeResult, RemoveNodeVariables>;

export interface ListFleetResult {
  readonly endpoints: readonly FoundEndpoint[];
  readonly nodes: readonly {
    readonly id: string;
    readonly name: string;
  }[];
  readonly workers: readonly {
    readonly id: string;
    readonly endpoint: string;
    readonly node: string;
  }[];
  readonly apiKeys: readonly {
    readonly id: string;
    readonly name: string;
    readonly prefix: string;
  }[];
}
export type ListFleetVariables = Readonly<Record<string, never>>;
export const LIST_FLEET =
  'query ListFleet{endpoints{id name environment kind}nodes{id name}workers{id endpoint node}apiKeys{id name prefix}}' as Operation<ListFleetResult, ListFleetVariables>;

export interface ListFoundEndpointsResult {
  readonly endpoints: readonly FoundEndpoint[];
}
export type ListFoundEndpointsVariables = Readonly<Record<string, never>>;
export const LIST_FOUND_ENDPOINTS =
  'query ListFoundEndpoints{endpoints{id name environment kind}}' as Operation<ListFoundEndpointsResult, ListFoundEndpointsVariables>;

export interface FindJobResult {
  readonly job: {
    readonly id: string;
    readonly status: JobStatus;
    readonly endpoint: string;
  } | null;
}
export type FindJobVariables = {
  readonly id: string;
};
export const FIND_JOB =
  'query FindJob($id:ID!){job(id:$id){id status endpoint}}' as Operation<FindJobResult, FindJobVariables>;

export interface GetServiceResult {
  readonly accounts: readonly AccountRow[];
  readonly joinTokens: readonly JoinTokenRow[];
}
export type GetServiceVariables = Readonly<Record<string, never>>;
export const GET_SERVICE =
  'query GetService{accounts{id cell createdAt endpoints quota{workers used}storage{builds{used}bodies{used}}isolation{least}}joinTokens{id name cell createdAt expiresAt maxUses uses}}' as Operation<GetServiceResult, GetServiceVariables>;

export interface CreateAccountResult {
  readonly createAccount: {
    readonly keyText: string;
  };
}
export type CreateAccountVariables = {
  readonly id: string;
};
export const CREATE_ACCOUNT =
  'mutation CreateAccount($id:ID!){createAccount(id:$id){keyText}}' as Operation<CreateAccountResult, CreateAccountVariables>;

export interface DeleteAccountResult {
  readonly deleteAccount: {
    readonly id: string;
  };
}
export type DeleteAccountVariables = {
  readonly id: string;
};
export const DELETE_ACCOUNT =
  'mutation DeleteAccount($id:ID!){deleteAccount(id:$id){id}}' as Operation<DeleteAccountResult, DeleteAccountVariables>;

export interface ListSchedulersResult {
  readonly cluster: {
    readonly schedulers: readonly {
      readonly cell: string;
      readonly role: SchedulerRole;
      readonly address: string;
    }[];
  };
}
export type ListSchedulersVariables = Readonly<Record<string, never>>;
export const LIST_SCHEDULERS =
  'query ListSchedulers{cluster{schedulers{cell role address}}}' as Operation<ListSchedulersResult, ListSchedulersVariables>;

export interface CreateJoinTokenResult {
  readonly createJoinToken: {
    readonly plaintext: string;
    readonly token: {
      readonly cell: string;
    };
  };
}
export type CreateJoinTokenVariables = {
  readonly name?: string | null | undefined;
  readonly expiresInS?: number | null | undefined;
  readonly never?: boolean | null | undefined;
};
export const CREATE_JOIN_TOKEN =
  'mutation CreateJoinToken($name:String$expiresInS:Int$never:Boolean){createJoinToken(name:$name expiresInS:$expiresInS neverExpires:$never){plaintext token{cell}}}' as Operation<CreateJoinTokenResult, CreateJoinTokenVariables>;

export interface RevokeJoinTokenResult {
  readonly revokeJoinToken: {
    readonly id: string;
  };
}
export type RevokeJoinTokenVariables = {
  readonly id: string;
};
export const REVOKE_JOIN_TOKEN =
  'mutation RevokeJoinToken($id:ID!){revokeJoinToken(id:$id){id}}' as Operation<RevokeJoinTokenResult, RevokeJoinTokenVariables>;

export interface ListIncidentsResult {
  readonly attention: {
    readonly omitted: number;
    readonly items: readonly Incident[];
  };
}
export type ListIncidentsVariables = Readonly<Record<string, never>>;
export const LIST_INCIDENTS =
  'query ListIncidents{attention{omitted items{key kind severity subject since endpoint node message runbook actions{label command}effects{key kind severity subject since endpoint node message}}}}' as Operation<ListIncidentsResult, ListIncidentsVariables>;
