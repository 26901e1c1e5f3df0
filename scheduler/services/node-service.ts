/** NodeService: nodes join, and keep one session each. */
import { randomBytes } from 'node:crypto';

import type { ServerDuplexStream } from '@grpc/grpc-js';

import { BatchWriter } from '../../lib/batches.ts';
import { CapstanError } from '../../lib/errors.ts';
import type {
  AgentMessage,
  LogLine,
  LogsReply,
  LogsRequest,
  NodeServiceServer,
  SchedulerEvent,
  SchedulerMessage,
} from '../../proto/gen/capstan/v1/nodes.ts';
import { toStatus } from '../../lib/grpc-errors.ts';
import { inlineBytes, type Payload } from '../../lib/payload.ts';
import { readServerStream } from '../../lib/stream-guard.ts';
import type { Effect } from '../core/effects.ts';
import type { State } from '../core/state.ts';
import { reportedLines } from '../core/jobs/reported.ts';
import { places } from '../core/control/encryption.ts';
import { workersByNode } from '../core/fleet/workers.ts';
import type { Engine, EngineLog } from '../engine/engine.ts';
import type { DesiredEffect } from '../engine/ports.ts';
import type { Cipher } from '../secrets/cipher.ts';
import { hashKey } from '../secrets/hash.ts';
import type { WorkerTokens } from '../secrets/worker-tokens.ts';
import type { Authorizer } from './auth.ts';
import { unary } from './calls.ts';
import { openS3 } from './job-service.ts';
import { desiredEvent, dispatchEvent } from './node-events.ts';

type SessionCall = ServerDuplexStream<AgentMessage, SchedulerMessage>;

interface Session {
  readonly node: string;
  readonly call: SessionCall;
  readonly writer: BatchWriter<SchedulerEvent>;
}

/** A request for logs without a reply from all its nodes yet. */
interface OpenLogs {
  /** By session, the workers whose lines its node may return. */
  readonly waiting: Map<number, ReadonlySet<string>>;
  readonly request: Omit<LogsRequest, 'requestId'>;
  readonly lines: LogLine[];
  readonly done: () => void;
}

const PROTOCOL_VERSION = 1;
const LOGS_TIMEOUT_MS = 3_000;
/** Limit of nodes for one request for logs. */
const MOST_LOG_NODES = 100;
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

  /** Sends every node with a session the event made for it. */
  broadcast(make: (node: string) => SchedulerEvent): void {
    for (const [session, { node }] of this.#sessions) this.send(node, session, make(node));
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
      },
    );
    this.send(node, session, event);
  }

  closeSession(_node: string, session: number, reason: string): void {
    this.#close(session, new CapstanError('UNAVAILABLE', reason));
  }

  #close(session: number, reason: CapstanError): void {
    const open = this.#sessions.get(session);
    if (open === undefined) return;
    this.#sessions.delete(session);
    open.writer.flush();
    open.call.emit('error', toStatus(reason));
  }

  closeAll(reason: CapstanError): void {
    for (const session of [...this.#sessions.keys()]) this.#close(session, reason);
  }

  /** Requests log lines from the nodes that run or ran the endpoint. A node that does not reply in time is left out. */
  async logs(request: Omit<LogsRequest, 'requestId'>): Promise<LogLine[]> {
    const requestId = this.#nextLogs++;
    const waiting = this.#logSources(request);
    if (waiting.size === 0) return [];
    const asked = [...waiting.keys()];
    const lines: LogLine[] = [];
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, LOGS_TIMEOUT_MS);
      const done = (): void => {
        clearTimeout(timer);
        resolve();
      };
      this.#logs.set(requestId, { waiting, request, lines, done });
      for (const session of asked) {
        const node = this.#sessions.get(session)?.node ?? '';
        this.send(node, session, { event: { $case: 'logs', value: { ...request, requestId } } });
      }
    });
    this.#logs.delete(requestId);
    lines.sort((a, b) => (a.atMs < b.atMs ? -1 : a.atMs > b.atMs ? 1 : 0));
    return lines.slice(-request.limit);
  }

  /** Returns the sessions of the nodes that have lines of the endpoint, or of the named worker. */
  #logSources({ endpointId, workerId }: Omit<LogsRequest, 'requestId'>): Map<number, ReadonlySet<string>> {
    const { state: image } = this.#engine;
    const sources = new Map<number, ReadonlySet<string>>();
    for (const [node, workers] of workersByNode(image, endpointId)) {
      const session = image.nodes.get(node)?.session ?? null;
      if (session === null || !this.#sessions.has(session) || sources.size >= MOST_LOG_NODES) continue;
      if (workerId === '') sources.set(session, workers);
      else if (workers.has(workerId)) sources.set(session, new Set([workerId]));
    }
    return sources;
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
          if (this.#sessions.delete(session)) this.#engine.handle({ kind: 'session-closed', node, session });
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
      throw new CapstanError('ALREADY_EXISTS', `another agent has the session of node ${known.config.name}`, { retryAfterMs: 1_000 });
    }
    this.#sessions.set(session, open);
    this.#engine.handle({ kind: 'session-opened', node, session, hello });
    this.onGreeted(node, session);
    const rest = message.events.slice(1);
    if (rest.length > 0) this.#receive(node, session, { events: rest });
  }

  #receive(node: string, session: number, message: AgentMessage): void {
    for (const { event } of message.events) if (event?.$case === 'logs') this.#takeLogs(session, event.value);
    this.#engine.handle({ kind: 'agent', node, session, events: message.events });
  }

  /** Accepts one reply from each session that received the request, limited to the lines its node may return. */
  #takeLogs(session: number, { requestId, lines }: LogsReply): void {
    const open = this.#logs.get(requestId);
    const workers = open?.waiting.get(session);
    if (open === undefined || workers === undefined) return;
    const { endpointId, afterMs, limit } = open.request;
    open.lines.push(...reportedLines({ endpointId, workers, afterMs, limit }, lines));
    this.#forgetLogs(open, session);
  }

  #forgetLogs({ waiting, done }: OpenLogs, session: number): void {
    if (waiting.delete(session) && waiting.size === 0) done();
  }
}

/** Decrypts the environment values of an endpoint. */
export function openEnv(cipher: Cipher, config: Parameters<typeof places.env>[0], encrypted: string): Record<string, string> {
  return JSON.parse(cipher.decrypt(Buffer.from(encrypted, 'base64'), places.env(config))) as Record<string, string>;
}
