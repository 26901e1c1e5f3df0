/** InvokeService: the gRPC server that agents connect to, so that requests reach hosts behind NAT. */
import { Server, type Metadata } from '@grpc/grpc-js';

import { messageLimits } from '../../lib/batches.ts';
import { CapstanError } from '../../lib/errors.ts';
import { toStatus } from '../../lib/grpc-errors.ts';
import { Admission } from '../../lib/grpc-admission.ts';
import { GrpcListener } from '../../lib/grpc-listener.ts';
import { serverCredentials, type TlsConfig } from '../../lib/grpc-tls.ts';
import { InvokeServiceService, type InvokeFromAgent, type InvokeServiceServer } from '../../proto/gen/capstan/v1/invoke.ts';
import { readServerStream } from '../../lib/stream-guard.ts';
import type { Log } from '../log.ts';
import { AgentLink, type InvokeCall } from './agent-link.ts';
import type { Announcements } from './announcements.ts';
import { nodeOf } from './token.ts';

export interface InvokeServerOptions {
  readonly host: string;
  readonly port: number;
  readonly tls: TlsConfig;
  readonly gatewayToken: string;
  readonly log: Log;
  /** Receives the workers that each node announces. */
  readonly announcements: Announcements<AgentLink>;
}

const CLOSE_MS = 1_000;
/** Streams per node: an agent has one, and a second one until the gateway notices that the first has ended. */
const LINKS_PER_NODE = 4;
const CALLS_PER_NODE = 16;
/** Calls that one connection may have open at once. */
const STREAMS_PER_CONNECTION = 32;
/** Frames are batched up to 512 KiB; a piece of a body is within the credit of its request. */
const MESSAGE_BYTES = 4 * 1024 * 1024;

export class InvokeServer {
  readonly #listener = new GrpcListener();
  readonly #admission: Admission = new Admission({
    identify: (metadata) => ({ name: this.#nodeOf(metadata), calls: CALLS_PER_NODE, messageBytes: MESSAGE_BYTES }),
    onTrusted: (connection) => this.#listener.trust(connection),
  });
  readonly #server: Server;
  readonly #options: InvokeServerOptions;
  readonly #links = new Set<AgentLink>();
  /** Removed nodes, whose tokens may still be valid. */
  #removed: ReadonlySet<string> = new Set();

  private constructor(options: InvokeServerOptions) {
    this.#options = options;
    this.#admission.add(InvokeServiceService, { invoke: { messageBytes: MESSAGE_BYTES } });
    this.#server = new Server({
      ...messageLimits,
      'grpc.max_concurrent_streams': STREAMS_PER_CONNECTION,
      interceptors: [this.#admission.interceptor],
      'grpc.keepalive_time_ms': 10_000,
      'grpc.keepalive_timeout_ms': 5_000,
      'grpc-node.flow_control_window': 8 * 1024 * 1024,
    });
    this.#server.addService(InvokeServiceService, { invoke: (call) => this.#begin(call) } satisfies InvokeServiceServer);
  }

  /** Listens; returns the server and its address. Throws ADDRESS_IN_USE or CONFIG on failure. */
  static async listen(options: InvokeServerOptions): Promise<{ server: InvokeServer; address: string }> {
    const made = new InvokeServer(options);
    const host = options.host.includes(':') ? `[${options.host}]` : options.host;
    const address = `${host}:${options.port}`;
    const credentials = serverCredentials(address, options.tls);
    const at = { host: options.host, port: options.port, field: 'CAPSTAN_INVOKE_PORT' };
    const port = await made.#listener.listen(made.#server, at, credentials);
    return { server: made, address: `${host}:${port}` };
  }

  /** Ends the streams of these nodes and rejects new ones. The set replaces the previous one. */
  refuse(nodes: readonly string[]): void {
    this.#removed = new Set(nodes);
    for (const link of this.#links) if (this.#removed.has(link.node)) link.refuse(wasRemoved(link.node));
  }

  /** Ends every stream and the server. */
  async close(): Promise<void> {
    for (const link of this.#links) link.end();
    await this.#listener.shutDown(this.#server, CLOSE_MS);
  }

  /** The node that shows a valid token. */
  #nodeOf(metadata: Metadata): string {
    const token = (metadata.get('authorization')[0]?.toString() ?? '').replace(/^Bearer +/i, '');
    const node = nodeOf(token, this.#options.gatewayToken, Date.now());
    if (this.#removed.has(node)) throw wasRemoved(node);
    return node;
  }

  #begin(call: InvokeCall): void {
    let node: string;
    try {
      node = this.#nodeOf(call.metadata);
    } catch (error) {
      call.emit('error', toStatus(error));
      return;
    }
    const others = [...this.#links].filter((other) => other.node === node);
    if (others.length >= LINKS_PER_NODE)
      others[0]?.refuse(new CapstanError('UNAVAILABLE', `the node opened more than ${LINKS_PER_NODE} streams`));
    const stream = { name: 'InvokeService.Invoke', log: this.#options.log, facts: { node } };
    const link = new AgentLink(node, call, stream);
    this.#links.add(link);
    readServerStream<InvokeFromAgent>(call, stream, {
      onMessage: ({ frames }) => {
        if (!this.#links.has(link)) return;
        for (const { frame } of frames) if (frame?.$case === 'serving') this.#options.announcements.announce(link, frame.value.workers);
        link.onFrames(frames);
      },
      onClosed: () => {
        if (!this.#links.delete(link)) return;
        this.#options.log.info({ node }, 'agent disconnected');
        this.#options.announcements.gone(link);
        link.broken();
      },
    });
    this.#options.log.info({ node }, 'agent connected');
  }
}

function wasRemoved(node: string): CapstanError {
  return new CapstanError('NODE_REMOVED', `the node ${node} was removed`);
}
