/** NodeService: nodes join, and keep one session each. */
import { randomBytes } from 'node:crypto';

import type { ServerDuplexStream } from '@grpc/grpc-js';

import { BatchWriter } from '../../lib/batches.ts';
import { CapstanError } from '../../lib/errors.ts';
import type {
  AgentMessage,
  LogsReply,
  LogsRequest,
  NodeServiceServer,
  SchedulerEvent,
  SchedulerMessage,
  UnreachableGateway,
} from '../../proto/gen/capstan/v1/nodes.ts';
import type { GetLogsResponse } from '../../proto/gen/capstan/v1/control.ts';
import { toStatus } from '../../lib/grpc-errors.ts';
import { isLocalPeer } from '../../lib/grpc-tls.ts';
import { inlineBytes, type Payload } from '../../lib/payload.ts';
import { readServerStream } from '../../lib/stream-guard.ts';
import type { Effect } from '../core/effects.ts';
import type { State } from '../core/state.ts';
import { reportedLines } from '../core/jobs/reported.ts';
import { places } from '../core/control/encryption.ts';
import { knownWorkers, workersByNode } from '../core/fleet/workers.ts';
import type { Engine } from '../engine/engine.ts';
import type { EngineLog } from '../engine/engine-options.ts';
import type { DesiredEffect } from '../engine/ports.ts';
import type { KnownCertificate } from '../incidents/of-certificates.ts';
import type { Cipher } from '../secrets/cipher.ts';
import { hashKey } from '../secrets/hash.ts';
import type { WorkerTokens } from '../secrets/worker-tokens.ts';
import type { Authorizer } from './auth.ts';
import { unary } from './calls.ts';
import { openS3 } from './job-service.ts';
import { ignoresFilter, mergedLines, type NodeLines } from './merged-lines.ts';
import { desiredEvent, dispatchEvent } from './node-events.ts';
import { peerCertificate } from './peer-certificate.ts';

type SessionCall = ServerDuplexStream<AgentMessage, SchedulerMessage>;

interface Session {
  readonly node: string;
  readonly call: SessionCall;
  readonly writer: BatchWriter<SchedulerEvent>;
}

interface LogSource {
  readonly node: string;
  readonly workers: ReadonlySet<string>;
}

/** A request for logs without a reply from all its nodes yet. */
interface OpenLogs {
  /** By session, the workers whose lines its node may return. */
  readonly waiting: Map<number, ReadonlySet<string>>;
  readonly replies: NodeLines[];
  /** Nodes whose agents do not know the filter. */
  readonly unfiltered: string[];
  readonly request: LogsQuery;
  /** All sessions that received the request. */
  readonly sessions: ReadonlySet<number>;
  /** The agents were told not to wait any longer, or need not wait. */
  isFinishing: boolean;
  /** Sets the time until the reply, ms. */
  readonly limit: (ms: number) => void;
  readonly done: () => void;
}

type LogsQuery = Omit<LogsRequest, 'requestId'>;

const PROTOCOL_VERSION = 1;
const LOGS_TIMEOUT_MS = 3_000;
/** Limit of nodes for one request for logs. */
const MAX_LOG_NODES = 100;
const LONGEST_INCARNATION = 128;

export interface NodeSessionsOptions {
  readonly engine: Engine;
  readonly auth: Authorizer;
  readonly cipher: Cipher;
  readonly tokens: WorkerTokens;
  readonly log: EngineLog;
}

/** The open sessions of agents, and the service that opens them. */
export class NodeSessions {
  readonly #sessions = new Map<number, Session>();
  readonly #logs = new Map<number, OpenLogs>();
  readonly #engine: Engine;
  readonly #auth: Authorizer;
  readonly #cipher: Cipher;
  readonly #tokens: WorkerTokens;
  readonly #log: EngineLog;
  #nextSession = 1;
  #nextLogs = 1;
  /** Called when a session has started. */
  onGreeted: (node: string, session: number) => void = () => undefined;
  /** Called with the gateways that a connected node does not reach; with none when it disconnects. */
  onUnreachable: (node: string, gateways: readonly UnreachableGateway[]) => void = () => undefined;

  constructor({ engine, auth, cipher, tokens, log }: NodeSessionsOptions) {
    this.#tokens = tokens;
    this.#engine = engine;
    this.#auth = auth;
    this.#cipher = cipher;
    this.#log = log;
  }

  service(): NodeServiceServer {
    return {
      join: unary(this.#log, 'Join', async ({ joinToken, name }) => {
        const nodeId = `node-${randomBytes(8).toString('hex')}`;
        const nodeSecret = randomBytes(32).toString('base64url');
        const node = { id: nodeId, name: name.slice(0, 128) || nodeId, secretHash: hashKey(nodeSecret).toString('hex') };
        await this.#engine.command({ kind: 'join', tokenHash: hashKey(joinToken).toString('hex'), node });
        return { nodeId, nodeSecret };
      }),
      session: (call) => this.#open(call),
    } satisfies NodeServiceServer;
  }

  send(node: string, session: number, event: SchedulerEvent): void {
    const open = this.#sessions.get(session);
    if (open?.node === node) open.writer.add(event, 0);
  }

  /** The certificates by which connected hosts identify themselves. */
  certificates(): KnownCertificate[] {
    const { nodes } = this.#engine.state;
    return [...this.#sessions.values()].flatMap(({ node, call }) => peerCertificate(`host ${nodes.get(node)?.config.name ?? node}`, call));
  }

  /** Sends every node with a session the event made for it. */
  broadcast(make: (node: string, session: number) => SchedulerEvent): void {
    for (const [session, { node }] of this.#sessions) this.send(node, session, make(node, session));
  }

  /** Whether the agent of a session is on this host. */
  isLocal(session: number): boolean {
    return isLocalPeer(this.#sessions.get(session)?.call.getPeer() ?? '');
  }

  /** Sends a leased job with its input. */
  sendJob(effect: Extract<Effect, { kind: 'dispatch' }>, input: Payload, s3: Uint8Array | null): void {
    const open = this.#sessions.get(effect.session);
    if (open === undefined) return;
    const s3Config = s3 === null ? undefined : openS3(this.#cipher, effect.job, s3);
    if ('blob' in input) this.#auth.inputs.sent(input.blob.id, effect);
    open.writer.add(dispatchEvent(effect, input, s3Config), inlineBytes(input));
  }

  /** Sends the whole desired set with the releases it names. */
  sendDesired({ node, session, epoch, workers }: DesiredEffect, state: State): void {
    const event = desiredEvent(
      state,
      { epoch, workers },
      {
        tokenOf: (worker) => this.#tokens.tokenOf(worker),
        openEnv: (config, encrypted) => openEnv(this.#cipher, config, encrypted),
        openSecret: (secret) => this.#cipher.decrypt(Buffer.from(secret.sealed, 'base64'), places.secret(secret)),
      },
    );
    this.send(node, session, event);
    if (this.#logs.size > 0) this.#finishWaitsWithout(session, workers, state);
  }

  closeSession(_node: string, session: number, reason: string): void {
    this.#close(session, new CapstanError('UNAVAILABLE', reason));
  }

  #close(session: number, reason: CapstanError): void {
    const open = this.#sessions.get(session);
    if (open === undefined) return;
    this.#sessions.delete(session);
    this.onUnreachable(open.node, []);
    open.writer.flush();
    open.call.emit('error', toStatus(reason));
  }

  closeAll(reason: CapstanError): void {
    for (const session of [...this.#sessions.keys()]) this.#close(session, reason);
  }

  /**
   * Requests log lines from the nodes that run or ran the endpoint. A node that does not reply in time, or that is not
   * connected, is named in the result. Throws INVALID_ARGUMENT for a filter that an agent refuses.
   */
  async logs(request: LogsQuery): Promise<GetLogsResponse> {
    const requestId = this.#nextLogs++;
    const { sources, absent } = this.#logSources(request);
    const replies: NodeLines[] = [];
    const unfiltered: string[] = [];
    const waiting = new Map([...sources].map(([session, { workers }]) => [session, workers]));
    if (waiting.size > 0) {
      await new Promise<void>((resolve) => {
        let timer: NodeJS.Timeout | undefined;
        const limit = (ms: number): void => {
          clearTimeout(timer);
          timer = setTimeout(resolve, ms);
        };
        const done = (): void => {
          clearTimeout(timer);
          resolve();
        };
        const waitMs = request.waitMs ?? 0;
        limit(waitMs + LOGS_TIMEOUT_MS);
        const sessions = new Set(sources.keys());
        this.#logs.set(requestId, { waiting, replies, unfiltered, request, sessions, isFinishing: waitMs === 0, limit, done });
        for (const [session, { node }] of sources) this.send(node, session, { event: { $case: 'logs', value: { ...request, requestId } } });
      });
      this.#logs.delete(requestId);
    }
    const replied = new Set(replies.map(({ session }) => session));
    const silent = [...sources].filter(([session, { node }]) => !replied.has(session) && !unfiltered.includes(node));
    const missingNodes = [...absent, ...silent.map(([, { node }]) => node)];
    return mergedLines(replies, request, { missingNodes, unfilteredNodes: unfiltered });
  }

  /** One node has lines, or runs the endpoint only now: the others reply with what they have. */
  #finishWait(requestId: number, open: OpenLogs): void {
    if (open.isFinishing) return;
    open.isFinishing = true;
    open.limit(LOGS_TIMEOUT_MS);
    for (const session of open.waiting.keys()) {
      const node = this.#sessions.get(session)?.node ?? '';
      this.send(node, session, { event: { $case: 'logs', value: { ...open.request, requestId, waitMs: 0 } } });
    }
  }

  /** Requests that wait were not sent to a node that gets its first worker of the endpoint, or has a new session. */
  #finishWaitsWithout(session: number, workers: DesiredEffect['workers'], state: State): void {
    const endpoints = new Set(workers.map(({ release }) => state.releases.get(release)?.endpoint));
    for (const [requestId, open] of this.#logs)
      if (!open.sessions.has(session) && endpoints.has(open.request.endpointId)) this.#finishWait(requestId, open);
  }

  /** Returns the sessions of the nodes that have lines of the endpoint, and the nodes that are not connected. */
  #logSources({ endpointId, workerId }: LogsQuery): { sources: Map<number, LogSource>; absent: string[] } {
    const { state } = this.#engine;
    const sources = new Map<number, LogSource>();
    const absent: string[] = [];
    const all = [...workersByNode(state, endpointId)];
    // A worker whose node was forgotten may have run on any node of the endpoint.
    const its = workerId === '' ? all : all.filter(([, workers]) => workers.has(workerId));
    for (const [node, workers] of its.length > 0 || state.workers.has(workerId) ? its : all) {
      const session = state.nodes.get(node)?.session ?? null;
      if (session === null || !this.#sessions.has(session) || sources.size >= MAX_LOG_NODES) absent.push(node);
      else sources.set(session, { node, workers });
    }
    return { sources, absent };
  }

  #open(call: SessionCall): void {
    let node: string;
    try {
      node = this.#auth.node(call.metadata);
    } catch (error) {
      call.emit('error', toStatus(error));
      return;
    }
    const session = this.#nextSession++;
    const writer = new BatchWriter<SchedulerEvent>((events) => call.write({ events }), { later: queueMicrotask });
    let greeted = false;
    readServerStream<AgentMessage>(
      call,
      { name: 'NodeService.Session', log: this.#log, facts: { node } },
      {
        onMessage: (message) => {
          if (!greeted) {
            greeted = true;
            this.#greet(node, session, { node, call, writer }, message);
          } else if (this.#sessions.has(session)) this.#receive(node, session, message);
        },
        onClosed: () => {
          for (const open of this.#logs.values()) this.#forgetLogs(open, session);
          if (!this.#sessions.delete(session)) return;
          this.#engine.handle({ kind: 'session-closed', node, session });
          this.onUnreachable(node, []);
        },
      },
    );
  }

  #greet(node: string, session: number, open: Session, message: AgentMessage): void {
    const first = message.events[0]?.event;
    if (first?.$case !== 'hello') throw new CapstanError('INVALID_ARGUMENT', 'the first event of a session must be Hello');
    const hello = first.value;
    if (hello.protocol !== PROTOCOL_VERSION) {
      throw new CapstanError('INVALID_ARGUMENT', `protocol: this scheduler supports version ${PROTOCOL_VERSION}, not ${hello.protocol}`);
    }
    if (hello.incarnation.length > LONGEST_INCARNATION)
      throw new CapstanError('INVALID_ARGUMENT', `incarnation: must have at most ${LONGEST_INCARNATION} characters`, {
        field: 'incarnation',
      });
    const known = this.#engine.state.nodes.get(node);
    if (known !== undefined && known.session !== null && known.incarnation !== hello.incarnation && this.#sessions.has(known.session)) {
      throw new CapstanError('ALREADY_EXISTS', `another agent already has a session for node ${known.config.name}`, {
        retryAfterMs: 1_000,
      });
    }
    this.#sessions.set(session, open);
    this.#engine.handle({ kind: 'session-opened', node, session, hello });
    this.onGreeted(node, session);
    this.onUnreachable(node, hello.inventory?.unreachableGateways ?? []);
    const rest = message.events.slice(1);
    if (rest.length > 0) this.#receive(node, session, { events: rest });
  }

  #receive(node: string, session: number, message: AgentMessage): void {
    for (const { event } of message.events) if (event?.$case === 'logs') this.#takeLogs(session, event.value);
    this.#engine.handle({ kind: 'agent', node, session, events: message.events });
    for (const { event } of message.events) if (event?.$case === 'inventory') this.onUnreachable(node, event.value.unreachableGateways);
  }

  /** Accepts one reply from each session that received the request, limited to the lines its node may return. */
  #takeLogs(session: number, reply: LogsReply): void {
    const open = this.#logs.get(reply.requestId);
    const workers = open?.waiting.get(session);
    if (open === undefined || workers === undefined) return;
    const { endpointId, workerId, afterMs, limit } = open.request;
    // Workers that are forgotten are shown, those of other nodes or endpoints are not.
    const known = knownWorkers(this.#engine.state);
    const isShown = (worker: string): boolean => (workerId === '' || worker === workerId) && (workers.has(worker) || !known(worker));
    const lines = reportedLines({ endpointId, isShown, afterMs, limit }, reply.lines);
    if (ignoresFilter(open.request, reply)) open.unfiltered.push(this.#sessions.get(session)?.node ?? '');
    else if (!reply.failed)
      open.replies.push({ session, lines, stoppedAtUs: reply.stoppedAtUs, searchedUs: reply.searchedUs, error: reply.error });
    this.#forgetLogs(open, session);
    const isWaitOver = reply.lines.length > 0 || reply.failed || reply.error !== '' || reply.stoppedAtUs > 0n;
    if (open.waiting.size > 0 && (isWaitOver || reply.knowsWait !== true)) this.#finishWait(reply.requestId, open);
  }

  #forgetLogs({ waiting, done }: OpenLogs, session: number): void {
    if (waiting.delete(session) && waiting.size === 0) done();
  }
}

/** Decrypts the environment values of an endpoint. */
export function openEnv(cipher: Cipher, config: Parameters<typeof places.env>[0], encrypted: string): Record<string, string> {
  return JSON.parse(cipher.decrypt(Buffer.from(encrypted, 'base64'), places.env(config))) as Record<string, string>;
}
