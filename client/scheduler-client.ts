/** The tool's client of the scheduler's gRPC, for commands on the scheduler's own host: backup, master key, doctor. */
import { Metadata, type ServiceError } from '@grpc/grpc-js';

import { messageLimits } from '../lib/batches.ts';
import { nameCell } from '../lib/cells.ts';
import { clientCredentials, type TlsConfig } from '../lib/grpc-tls.ts';
import type { CapstanError } from '../lib/errors.ts';
import { fixedCandidate } from '../lib/owner/addresses.ts';
import { OwnerChannel } from '../lib/owner/owner-channel.ts';
import { OwnerFinder } from '../lib/owner/owner-finder.ts';
import { ControlServiceClient } from '../proto/gen/capstan/v1/control.ts';
import type { ListNodesRequest, MasterKeyInfo, NodeInfo, PrepareMasterKeyResponse } from '../proto/gen/capstan/v1/control.ts';
import { fromServiceError } from '../lib/grpc-errors.ts';
import { ToolError } from '../terminal/tool-error.ts';

/** google.rpc.Code for a method that the server does not have. */
const UNIMPLEMENTED = 12;
const CALL_MS = 15_000;
/** The time to copy the database, or to encrypt its secrets again, depends on the disk. */
const WHOLE_MS = 3_600_000;

export interface SchedulerClient {
  /** Of several schedulers, the owner once it is found. */
  readonly address: string;
  listNodes(): Promise<NodeInfo[]>;
  /** Makes the scheduler write a copy of its database; returns the path of the copy on its host. */
  snapshotQueue(): Promise<string>;
  masterKey(): Promise<MasterKeyInfo>;
  /**
   * Replaces the key; resolves when everything is encrypted with the new one. CONFLICT while a rotation or a backup is
   * in progress.
   */
  rotateMasterKey(): Promise<MasterKeyInfo>;
  /** Makes the key of the next rotation on the scheduler's host, unless there is one. */
  prepareMasterKey(): Promise<PrepareMasterKeyResponse>;
  close(): void;
}

type Unary<Request, Reply> = (
  request: Request,
  metadata: Metadata,
  options: { deadline: number },
  callback: (error: ServiceError | null, reply: Reply) => void,
) => unknown;

/**
 * Creates a client of the scheduler at `host:port` or `unix:<path>`; of several, separated by commas or behind one name, of
 * the one that owns the cell. Its calls throw CapstanError.
 * @throws CapstanError CONFIG when the scheduler is on another host and no certificates are set.
 */
export function connectScheduler(address: string, apiKey: string, settings: TlsConfig & { readonly cell: string }): SchedulerClient {
  const { cell, ...tls } = settings;
  const credentials = clientCredentials(address, tls);
  const options = {
    ...messageLimits,
    'grpc.enable_http_proxy': 0,
    // No query for a TXT record: where no name server answers, it would keep the process for 20 s.
    'grpc.service_config_disable_resolution': 1,
    'grpc.use_local_subchannel_pool': 1,
  };
  const finder =
    fixedCandidate(address) === undefined ? new OwnerFinder({ setting: address, credentials, log: quiet, cell: () => cell }) : undefined;
  finder?.start();
  const over = finder === undefined ? options : { channelOverride: new OwnerChannel(finder, options) };
  const control = new ControlServiceClient(address, credentials, over);
  // Of several, the owner is looked for within the call's deadline.
  const metadata = new Metadata({ waitForReady: finder !== undefined });
  metadata.set('authorization', `Bearer ${apiKey}`);
  nameCell(metadata, cell);

  const call = <Request, Reply>(method: Unary<Request, Reply>, request: Request, withinMs = CALL_MS): Promise<Reply> =>
    new Promise((resolve, reject) => {
      method.call(control, request, metadata, { deadline: Date.now() + withinMs }, (error, reply) => {
        if (error === null) resolve(reply);
        else reject(explainService(error, address));
      });
    });
  return {
    get address() {
      return finder?.owner?.key ?? address;
    },
    listNodes: async () => (await call<ListNodesRequest, { nodes: NodeInfo[] }>(control.listNodes, { afterId: '', limit: 0 })).nodes,
    snapshotQueue: async () => (await call<object, { file: string }>(control.snapshotQueue, {}, WHOLE_MS)).file,
    masterKey: () => call<object, MasterKeyInfo>(control.getMasterKey, {}),
    prepareMasterKey: () => call<object, PrepareMasterKeyResponse>(control.prepareMasterKey, {}),
    rotateMasterKey: () => call<object, MasterKeyInfo>(control.rotateMasterKey, {}, WHOLE_MS),
    close: () => {
      control.close();
      finder?.close();
    },
  };
}

/** The search has no log of its own: its outcome is that of the calls. */
const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };

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
