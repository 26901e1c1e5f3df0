/** The tool's side of the scheduler's gRPC: control calls with an API key. */
import { Metadata, type ServiceError } from '@grpc/grpc-js';

import { messageLimits } from '../../lib/batches.ts';
import { clientCredentials, type TlsConfig } from '../../lib/grpc-tls.ts';
import type { CapstanError } from '../../lib/errors.ts';
import { ControlServiceClient } from '../../proto/gen/capstan/v1/control.ts';
import type {
  CreateJoinTokenRequest,
  CreateJoinTokenResponse,
  DrainNodeRequest,
  DrainNodeResponse,
  EndpointInfo,
  GetEndpointResponse,
  GetLogsRequest,
  JoinTokenInfo,
  ListJoinTokensRequest,
  ListNodesRequest,
  ListWebhooksRequest,
  ListWebhooksResponse,
  RotateWebhookSecretResponse,
  MasterKeyInfo,
  NodeInfo,
  ResumeNodeRequest,
  ResumeNodeResponse,
  WorkerInfo,
} from '../../proto/gen/capstan/v1/control.ts';
import type { LogLine } from '../../proto/gen/capstan/v1/nodes.ts';
import { fromServiceError } from '../../lib/grpc-errors.ts';
import { ToolError } from '../terminal/tool-error.ts';

/** google.rpc.Code of a method that a server lacks. */
const UNIMPLEMENTED = 12;
const CALL_MS = 15_000;
/** A copy of the database, or its secrets encrypted anew, take as long as the disk does. */
const WHOLE_MS = 3_600_000;

export interface SchedulerClient {
  readonly address: string;
  /** An empty environment means all. */
  listEndpoints(environment: string): Promise<EndpointInfo[]>;
  /** NOT_FOUND when there is none. */
  endpoint(endpointId: string): Promise<GetEndpointResponse>;
  listNodes(): Promise<NodeInfo[]>;
  createJoinToken(request: CreateJoinTokenRequest): Promise<CreateJoinTokenResponse>;
  listJoinTokens(): Promise<JoinTokenInfo[]>;
  revokeJoinToken(id: string): Promise<void>;
  drainNode(nodeId: string): Promise<NodeInfo | undefined>;
  resumeNode(nodeId: string): Promise<NodeInfo | undefined>;
  /** CONFLICT while it has workers, unless forced. */
  removeNode(nodeId: string, force: boolean): Promise<void>;
  /** An empty id means all. */
  listWorkers(endpointId: string): Promise<WorkerInfo[]>;
  logs(request: GetLogsRequest): Promise<LogLine[]>;
  /** One page. */
  listWebhooks(request: ListWebhooksRequest): Promise<ListWebhooksResponse>;
  redeliverWebhook(id: string): Promise<void>;
  webhookSecret(): Promise<string>;
  rotateWebhookSecret(): Promise<RotateWebhookSecretResponse>;
  /** Has the scheduler write a copy of its database; the copy's path on its host. */
  snapshotQueue(): Promise<string>;
  masterKey(): Promise<MasterKeyInfo>;
  /** Replaces it; resolves when everything is encrypted anew. CONFLICT while that, or a backup, is under way. */
  rotateMasterKey(): Promise<MasterKeyInfo>;
  close(): void;
}

type Unary<Request, Reply> = (
  request: Request,
  metadata: Metadata,
  options: { deadline: number },
  callback: (error: ServiceError | null, reply: Reply) => void,
) => unknown;

/**
 * A client of the scheduler at `host:port` or `unix:<path>`. Its calls throw CapstanError.
 * @throws CapstanError CONFIG when the scheduler is on another host and no certificates are set.
 */
export function connectScheduler(address: string, apiKey: string, tls: TlsConfig): SchedulerClient {
  const credentials = clientCredentials(address, tls);
  const options = {
    ...messageLimits,
    'grpc.enable_http_proxy': 0,
    'grpc.use_local_subchannel_pool': 1,
  };
  const control = new ControlServiceClient(address, credentials, options);
  const metadata = new Metadata();
  metadata.set('authorization', `Bearer ${apiKey}`);

  const call = <Request, Reply>(method: Unary<Request, Reply>, request: Request, withinMs = CALL_MS): Promise<Reply> =>
    new Promise((resolve, reject) => {
      method.call(control, request, metadata, { deadline: Date.now() + withinMs }, (error, reply) => {
        if (error === null) resolve(reply);
        else reject(explainService(error, address));
      });
    });
  return {
    address,
    listEndpoints: async (environment) =>
      (await call<{ environment: string }, { endpoints: EndpointInfo[] }>(control.listEndpoints, { environment })).endpoints,
    endpoint: (endpointId) => call<{ endpointId: string }, GetEndpointResponse>(control.getEndpoint, { endpointId }),
    createJoinToken: (request) => call<CreateJoinTokenRequest, CreateJoinTokenResponse>(control.createJoinToken, request),
    listJoinTokens: async () =>
      (await call<ListJoinTokensRequest, { tokens: JoinTokenInfo[] }>(control.listJoinTokens, { afterId: '', limit: 0 })).tokens,
    revokeJoinToken: async (id) => {
      await call<{ id: string }, object>(control.revokeJoinToken, { id });
    },
    drainNode: async (nodeId) => (await call<DrainNodeRequest, DrainNodeResponse>(control.drainNode, { nodeId })).node,
    resumeNode: async (nodeId) => (await call<ResumeNodeRequest, ResumeNodeResponse>(control.resumeNode, { nodeId })).node,
    removeNode: async (nodeId, force) => {
      await call<{ nodeId: string; force: boolean }, object>(control.removeNode, { nodeId, force });
    },
    listNodes: async () => (await call<ListNodesRequest, { nodes: NodeInfo[] }>(control.listNodes, { afterId: '', limit: 0 })).nodes,
    listWorkers: async (endpointId) =>
      (await call<{ endpointId: string }, { workers: WorkerInfo[] }>(control.listWorkers, { endpointId })).workers,
    logs: async (request) => (await call<GetLogsRequest, { lines: LogLine[] }>(control.getLogs, request)).lines,
    listWebhooks: (request) => call<ListWebhooksRequest, ListWebhooksResponse>(control.listWebhooks, request),
    redeliverWebhook: async (id) => {
      await call<{ id: string }, object>(control.redeliverWebhook, { id });
    },
    webhookSecret: async () => (await call<object, { secret: string }>(control.getWebhookSecret, {})).secret,
    rotateWebhookSecret: () => call<object, RotateWebhookSecretResponse>(control.rotateWebhookSecret, {}),
    snapshotQueue: async () => (await call<object, { file: string }>(control.snapshotQueue, {}, WHOLE_MS)).file,
    masterKey: () => call<object, MasterKeyInfo>(control.getMasterKey, {}),
    rotateMasterKey: () => call<object, MasterKeyInfo>(control.rotateMasterKey, {}, WHOLE_MS),
    close: () => control.close(),
  };
}

function explainService(thrown: ServiceError, address: string): CapstanError {
  const error = fromServiceError(thrown);
  switch (error.code) {
    case 'UNAVAILABLE':
    case 'DEADLINE_EXCEEDED':
      return new ToolError(
        error.code,
        `the scheduler at ${address} does not respond`,
        'Start it with: capstan up (or use another scheduler with --scheduler <host:port>).',
        { cause: error },
      );
    case 'UNAUTHENTICATED':
      return new ToolError(
        error.code,
        `the scheduler at ${address} rejected the API key: ${error.message}`,
        'Set SERVICE_API_KEY to a valid key, or unset it to use the one in the data folder.',
        {
          cause: error,
        },
      );
    default:
      if (thrown.code !== UNIMPLEMENTED) return error;
      return new ToolError(
        'CONFLICT',
        `the scheduler at ${address} does not implement this call`,
        'It is older than this tool. Upgrade it.',
        {
          cause: error,
        },
      );
  }
}
