/** The tool's side of the scheduler's gRPC: control calls and the upload of builds, with an API key. */
import { credentials, Metadata, type ServiceError } from '@grpc/grpc-js';

import type { CapstanError } from '../../proto/errors.ts';
import { BlobPurpose, BlobServiceClient, type PutBlobRequest, type PutBlobResponse } from '../../proto/gen/capstan/v1/blobs.ts';
import { ControlServiceClient } from '../../proto/gen/capstan/v1/control.ts';
import type {
  DeployRequest,
  DeployResponse,
  EndpointInfo,
  GetLogsRequest,
  ListWebhooksRequest,
  ListWebhooksResponse,
  NodeInfo,
  WorkerInfo,
} from '../../proto/gen/capstan/v1/control.ts';
import type { LogLine } from '../../proto/gen/capstan/v1/nodes.ts';
import { fromServiceError } from '../../proto/grpc-errors.ts';
import { ToolError } from '../terminal/tool-error.ts';

/** docs/architecture.md, Borders: bytes a message may have. */
const MAX_MESSAGE_BYTES = 32 * 1024 * 1024;
/** proto/capstan/v1/blobs.proto: bytes of one frame. */
const FRAME_BYTES = 256 * 1024;
const CALL_MS = 15_000;

export interface BuildUpload {
  readonly digest: string;
  /** Bytes. */
  readonly size: number;
  /** Frames or larger pieces, opened anew for every try. */
  readonly open: () => AsyncIterable<Buffer>;
  /** Told the bytes sent so far. */
  readonly progress?: (sent: number) => void;
}

export interface SchedulerClient {
  readonly address: string;
  /** True when the build was there already. */
  putBuild(build: BuildUpload): Promise<boolean>;
  deploy(request: DeployRequest): Promise<DeployResponse>;
  /** An empty environment means all. */
  listEndpoints(environment: string): Promise<EndpointInfo[]>;
  listNodes(): Promise<NodeInfo[]>;
  /** An empty id means all. */
  listWorkers(endpointId: string): Promise<WorkerInfo[]>;
  logs(request: GetLogsRequest): Promise<LogLine[]>;
  /** One page. */
  listWebhooks(request: ListWebhooksRequest): Promise<ListWebhooksResponse>;
  redeliverWebhook(id: string): Promise<void>;
  webhookSecret(): Promise<string>;
  close(): void;
}

type Unary<Request, Reply> = (
  request: Request,
  metadata: Metadata,
  options: { deadline: number },
  callback: (error: ServiceError | null, reply: Reply) => void,
) => unknown;

/** A client of the scheduler at `host:port` or `unix:<path>`. Its calls throw CapstanError. */
export function connectScheduler(address: string, apiKey: string): SchedulerClient {
  const options = {
    'grpc.max_receive_message_length': MAX_MESSAGE_BYTES,
    'grpc.max_send_message_length': MAX_MESSAGE_BYTES,
    'grpc.enable_http_proxy': 0,
    'grpc.use_local_subchannel_pool': 1,
  };
  const control = new ControlServiceClient(address, credentials.createInsecure(), options);
  const blobs = new BlobServiceClient(address, credentials.createInsecure(), { ...options, channelOverride: control.getChannel() });
  const metadata = new Metadata();
  metadata.set('authorization', `Bearer ${apiKey}`);

  const call = <Request, Reply>(method: Unary<Request, Reply>, request: Request): Promise<Reply> =>
    new Promise((resolve, reject) => {
      method.call(control, request, metadata, { deadline: Date.now() + CALL_MS }, (error, reply) => {
        if (error === null) resolve(reply);
        else reject(explainService(error, address));
      });
    });
  return {
    address,
    putBuild: (build) => putBuild(blobs, metadata, build, address),
    deploy: (request) => call<DeployRequest, DeployResponse>(control.deploy, request),
    listEndpoints: async (environment) =>
      (await call<{ environment: string }, { endpoints: EndpointInfo[] }>(control.listEndpoints, { environment })).endpoints,
    listNodes: async () => (await call<object, { nodes: NodeInfo[] }>(control.listNodes, {})).nodes,
    listWorkers: async (endpointId) =>
      (await call<{ endpointId: string }, { workers: WorkerInfo[] }>(control.listWorkers, { endpointId })).workers,
    logs: async (request) => (await call<GetLogsRequest, { lines: LogLine[] }>(control.getLogs, request)).lines,
    listWebhooks: (request) => call<ListWebhooksRequest, ListWebhooksResponse>(control.listWebhooks, request),
    redeliverWebhook: async (id) => {
      await call<{ id: string }, object>(control.redeliverWebhook, { id });
    },
    webhookSecret: async () => (await call<object, { secret: string }>(control.getWebhookSecret, {})).secret,
    close: () => control.close(),
  };
}

async function putBuild(client: BlobServiceClient, metadata: Metadata, build: BuildUpload, address: string): Promise<boolean> {
  const reply = Promise.withResolvers<PutBlobResponse>();
  const state = { answered: false, wake: (): void => undefined };
  const call = client.put(metadata, (error, response) => {
    state.answered = true;
    if (error === null) reply.resolve(response);
    else reply.reject(explainService(error, address));
    state.wake();
  });
  // The stream's own error says the same as the reply's.
  call.on('error', () => undefined);
  call.on('drain', () => state.wake());

  /** The server may answer before it has read everything: a build it has, or one it refuses. */
  const send = async (message: PutBlobRequest): Promise<void> => {
    if (call.write(message) || state.answered) return;
    await new Promise<void>((resolve) => {
      state.wake = resolve;
      if (state.answered) resolve();
    });
  };
  const sending = (async () => {
    await send({ part: { $case: 'header', value: { purpose: BlobPurpose.BUILD, size: build.size, digest: build.digest } } });
    let sent = 0;
    for await (const piece of build.open()) {
      for (let start = 0; start < piece.length; start += FRAME_BYTES) {
        if (state.answered) return;
        const frame = piece.subarray(start, start + FRAME_BYTES);
        await send({ part: { $case: 'data', value: frame } });
        sent += frame.length;
        build.progress?.(sent);
      }
    }
    if (!state.answered) call.end();
  })();
  try {
    const [response] = await Promise.all([reply.promise, sending]);
    return response.existed;
  } catch (error) {
    call.cancel();
    throw error;
  }
}

function explainService(thrown: ServiceError, address: string): CapstanError {
  const error = fromServiceError(thrown);
  switch (error.code) {
    case 'UNAVAILABLE':
    case 'DEADLINE_EXCEEDED':
      return new ToolError(
        error.code,
        `the scheduler at ${address} does not answer`,
        'Start it with: capstan up (or name it with --scheduler <host:port>).',
        { cause: error },
      );
    case 'UNAUTHENTICATED':
      return new ToolError(
        error.code,
        `the scheduler at ${address} refused the API key: ${error.message}`,
        'Set SERVICE_API_KEY to a valid key, or unset it to use the one in the data folder.',
        {
          cause: error,
        },
      );
    default:
      return error;
  }
}
