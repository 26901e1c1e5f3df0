/**
 * The permanent session with the scheduler.
 *
 *   dialling ──stream open, Hello sent──▶ open ──Welcome──▶ welcomed
 *      ▲                                    │                  │
 *      └──────────── backoff ◀── stream ends, or is silent ────┘
 *
 * Messages sent before Hello are dropped; the next Hello has the whole state.
 * Each dial uses its own channel, so that only the backoff here decides when the next dial is.
 */
import type { ClientDuplexStream } from '@grpc/grpc-js';
import type { Logger } from 'pino';

import { BatchWriter } from '../../lib/batches.ts';
import { cellOfJoinToken, DEFAULT_CELL } from '../../lib/cells.ts';
import { CapstanError } from '../../lib/errors.ts';
import { fromServiceError } from '../../lib/grpc-errors.ts';
import type { OwnerFinder } from '../../lib/owner/owner-finder.ts';
import type {
  AgentEvent,
  AgentMessage,
  Hello,
  JoinResponse,
  NodeServiceClient,
  SchedulerEvent,
  SchedulerMessage,
  Welcome,
} from '../../proto/gen/capstan/v1/nodes.ts';
import { readClientStream } from '../../lib/stream-guard.ts';
import { Backoff } from './backoff.ts';
import { joinMetadata, nodeClient, nodeMetadata } from './connection.ts';
import { readIdentity, writeIdentity, type Identity } from './identity.ts';
import { eventBytes } from './event-size.ts';

const FIRST_RETRY_MS = 50;
const LAST_RETRY_MS = 2_000;
/** Retries that need an operator first. */
const SLOW_RETRY_MS = 10_000;
/** A session that lasted this long, ms, resets the backoff. */
const STEADY_MS = 1_000;
/** Time within which the owner of a cell reads that a node was moved to it; before that it refuses the node's identity. */
const MOVED_MS = 30_000;
const JOIN_DEADLINE_MS = 10_000;
/** Limits until Welcome sets them, ms. */
const OPENING: Welcome = { heartbeatMs: 5_000, silenceMs: 15_000, publicUrl: '' };

export interface SessionOptions {
  readonly finder: OwnerFinder;
  readonly nodeName: string;
  /** Folder of node.json. */
  readonly folder: string;
  readonly joinToken: () => string | undefined;
  readonly log: Logger;
  readonly hello: () => Hello;
  /** Every event of a message, in order; Welcome first. */
  readonly onEvents: (events: readonly SchedulerEvent[]) => void;
  readonly onDisconnected: () => void;
  /** Whether messages wait for the connection: what can wait should, as later messages queue behind it. */
  readonly onCongested: (is: boolean) => void;
  /** The node received a new identity, or its own is known in another cell now: the epochs of desired sets begin anew. */
  readonly onRejoined: () => void;
  /** The node was removed: the scheduler has reassigned its work and accepts nothing from it any more. */
  readonly onRemoved: (error: CapstanError) => void;
}

/** Messages, of at most BATCH_BYTES each, that may wait for the connection before it counts as congested. */
const MAX_UNWRITTEN = 3;

interface Live {
  readonly client: NodeServiceClient;
  readonly stream: ClientDuplexStream<AgentMessage, SchedulerMessage>;
  limits: Welcome;
  welcomed: boolean;
  readonly openedAt: number;
  /** Messages that the connection has not taken. */
  unwritten: number;
  heardAt: number;
  sentAt: number;
  timer: NodeJS.Timeout | undefined;
}

export class Session {
  readonly #options: SessionOptions;
  readonly #unsent = new BatchWriter<AgentEvent>((events) => this.#write({ events }));
  readonly #backoff = new Backoff(FIRST_RETRY_MS, LAST_RETRY_MS);
  #identity: Identity | undefined;
  /** When the node was last moved to another cell, monotonic ms. */
  #movedAt = Number.NEGATIVE_INFINITY;
  #live: Live | undefined;
  #retry: NodeJS.Timeout | undefined;
  #closed = false;
  /** Problems already logged. */
  readonly #complaints = new Set<string>();
  /** The scheduler did not know the identity: the next dial joins again. */
  #rejoin = false;
  #joining = false;
  readonly #joined = Promise.withResolvers<string>();

  constructor(options: SessionOptions) {
    this.#options = options;
  }

  /** The node's id, once it has one. */
  get nodeId(): Promise<string> {
    return this.#joined.promise;
  }

  /** The node's current identity; absent before it joined. */
  get identity(): Identity | undefined {
    return this.#identity;
  }

  /** The cell of the node; while it joins, the one that its join token is for. */
  get cell(): string {
    const known = this.#identity?.cell;
    if (known !== undefined && !this.#joining) return known;
    return this.#hasToken() ? cellOfJoinToken(this.#options.joinToken() ?? '') : (known ?? DEFAULT_CELL);
  }

  /** Reads the stored identity and starts dialling. Throws DATA_DIR when it is unreadable. */
  async start(): Promise<void> {
    this.#identity = await readIdentity(this.#options.folder);
    if (this.#identity !== undefined) this.#joined.resolve(this.#identity.nodeId);
    this.#options.finder.start();
    this.#dial();
  }

  /** Sends at the end of this turn of the event loop; drops the message while no stream is open. */
  send(event: AgentEvent): void {
    if (this.#live !== undefined) this.#say(event);
  }

  /** Ends the session; messages sent before leave first. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#retry);
    const live = this.#live;
    if (live === undefined) return;
    this.#unsent.flush();
    clearTimeout(live.timer);
    await new Promise<void>((resolve) => {
      const force = setTimeout(() => live.stream.cancel(), 1_000);
      live.stream.once('status', () => {
        clearTimeout(force);
        resolve();
      });
      live.stream.end();
    });
    live.client.close();
  }

  #dial(): void {
    if (this.#closed) return;
    const identity = this.#rejoin ? undefined : this.#identity;
    this.#rejoin = false;
    this.#joining = identity === undefined;
    this.#options.finder.switchCell();
    const owner = this.#options.finder.known();
    const attempt = owner.then(() => (this.#closed || identity !== undefined ? identity : this.#join()));
    attempt.then(
      (joined) => {
        if (joined !== undefined) this.#open(joined);
      },
      (error: unknown) => this.#failed(error),
    );
  }

  async #join(): Promise<Identity> {
    const options = this.#options;
    const joinToken = options.joinToken();
    if (joinToken === undefined) throw noToken();
    const cell = cellOfJoinToken(joinToken);
    const client = nodeClient(options.finder);
    try {
      const response = await new Promise<JoinResponse>((resolve, reject) => {
        const deadline = Date.now() + JOIN_DEADLINE_MS;
        client.join({ joinToken, name: options.nodeName }, joinMetadata(cell), { deadline }, (error, reply) =>
          error === null ? resolve(reply) : reject(error),
        );
      });
      const identity = { nodeId: response.nodeId, nodeSecret: response.nodeSecret, cell };
      await writeIdentity(options.folder, identity);
      this.#identity = identity;
      this.#joining = false;
      options.log.info({ node: identity.nodeId, cell }, 'joined');
      this.#joined.resolve(identity.nodeId);
      options.onRejoined();
      return identity;
    } finally {
      client.close();
    }
  }

  #open(identity: Identity): void {
    if (this.#closed) return;
    const client = nodeClient(this.#options.finder);
    const stream = client.session(nodeMetadata(identity));
    const now = performance.now();
    const live: Live = {
      client,
      stream,
      limits: OPENING,
      welcomed: false,
      openedAt: now,
      unwritten: 0,
      heardAt: now,
      sentAt: now,
      timer: undefined,
    };
    this.#live = live;
    let failure: unknown;
    readClientStream<SchedulerMessage>(stream, { name: 'NodeService.Session', log: this.#options.log }, (message) =>
      this.#onMessage(live, message),
    );
    stream.on('error', (error: unknown) => {
      failure = error;
    });
    // The one event that ends every call, with or without an error.
    stream.once('status', () => this.#onClosed(live, failure));
    this.#say({ event: { $case: 'hello', value: this.#options.hello() } });
    this.#unsent.flush();
    this.#watch(live);
  }

  #onMessage(live: Live, message: SchedulerMessage): void {
    if (this.#live !== live) return;
    live.heardAt = performance.now();
    for (const { event } of message.events) {
      if (event?.$case !== 'welcome') continue;
      live.welcomed = true;
      live.limits = event.value;
      this.#complaints.clear();
      this.#options.log.info('session open');
      this.#watch(live);
    }
    this.#options.onEvents(message.events);
  }

  #write(message: AgentMessage): void {
    const live = this.#live;
    if (live === undefined) return;
    live.sentAt = performance.now();
    live.unwritten += 1;
    if (live.unwritten === MAX_UNWRITTEN) this.#options.onCongested(true);
    live.stream.write(message, () => {
      live.unwritten -= 1;
      if (live.unwritten === MAX_UNWRITTEN - 1 && this.#live === live) this.#options.onCongested(false);
    });
  }

  #say(event: AgentEvent): void {
    this.#unsent.add(event, eventBytes(event));
  }

  #watch(live: Live): void {
    clearTimeout(live.timer);
    if (this.#live !== live || this.#closed) return;
    const { heartbeatMs, silenceMs } = live.limits;
    const now = performance.now();
    if (now >= live.sentAt + heartbeatMs) this.#say({ event: { $case: 'heartbeat', value: {} } });
    if (now >= live.heardAt + silenceMs) {
      this.#checkSilence(live);
      return;
    }
    const beatAt = (now >= live.sentAt + heartbeatMs ? now : live.sentAt) + heartbeatMs;
    const next = Math.min(beatAt, live.heardAt + silenceMs);
    live.timer = setTimeout(() => this.#watch(live), Math.max(1, next - now));
  }

  /** A stalled loop does not prove a dead peer: the sockets are polled once more before closing (invariant 5). */
  #checkSilence(live: Live): void {
    setImmediate(() => {
      setImmediate(() => {
        if (this.#live !== live) return;
        if (performance.now() < live.heardAt + live.limits.silenceMs) this.#watch(live);
        else live.stream.cancel();
      });
    });
  }

  #onClosed(live: Live, failure: unknown): void {
    clearTimeout(live.timer);
    live.client.close();
    if (this.#live !== live) return;
    this.#live = undefined;
    this.#unsent.clear();
    // A scheduler that sends Welcome and then disconnects must not be dialled as fast as one that restarted.
    if (live.welcomed && performance.now() - live.openedAt >= STEADY_MS) this.#backoff.reset();
    if (this.#closed) return;
    this.#options.onDisconnected();
    this.#failed(failure ?? new CapstanError('UNAVAILABLE', 'the scheduler ended the session'));
  }

  #failed(thrown: unknown): void {
    if (this.#closed) return;
    const error = fromServiceError(thrown);
    if (error.code === 'NODE_REMOVED') {
      this.#complain('error', 'this node was removed', error);
      this.#options.onRemoved(error);
      return;
    }
    let wait = this.#backoff.next();
    const identity = this.#identity;
    if (error.cell !== undefined && identity !== undefined && !this.#joining && error.cell !== identity.cell) {
      this.#move({ ...identity, cell: error.cell }).then(
        () => this.#redial(wait),
        (failure: unknown) => {
          this.#complain('error', 'the cell of this node could not be stored', fromServiceError(failure));
          this.#redial(wait);
        },
      );
      return;
    }
    const isNew = performance.now() - this.#movedAt < MOVED_MS;
    if (error.code === 'UNAUTHENTICATED' && isNew && !this.#joining) {
      this.#complain('warn', 'the owner of the new cell does not know this node yet', error);
    } else if (error.code === 'UNAUTHENTICATED' || error.code === 'PERMISSION_DENIED') {
      const joining = this.#joining;
      if (!joining && this.#hasToken()) this.#rejoin = true;
      else wait = SLOW_RETRY_MS;
      this.#complain('error', joining ? 'the scheduler rejected the join token' : 'the scheduler does not know this node', error);
    } else if (error.code === 'CONFIG') {
      wait = SLOW_RETRY_MS;
      this.#complain('error', 'joining failed', error);
    } else if (error.code === 'ALREADY_EXISTS') {
      this.#complain('warn', 'another agent already has a session for this node', error);
    } else {
      this.#complain('warn', 'no session with the scheduler', error);
    }
    this.#redial(wait);
  }

  #redial(wait: number): void {
    if (!this.#closed) this.#retry = setTimeout(() => this.#dial(), wait);
  }

  /** The owner of its cell, which knows its credentials, says that the node was moved: they are valid in another cell. */
  async #move(identity: Identity): Promise<void> {
    await writeIdentity(this.#options.folder, identity);
    this.#identity = identity;
    this.#movedAt = performance.now();
    this.#options.log.info({ node: identity.nodeId, cell: identity.cell }, 'this node was moved to another cell');
    this.#options.onRejoined();
  }

  #hasToken(): boolean {
    try {
      return this.#options.joinToken() !== undefined;
    } catch (error) {
      this.#options.log.error({ error: fromServiceError(error).message }, 'no join token');
      return false;
    }
  }

  /** Logs each problem once, however often it recurs. */
  #complain(level: 'warn' | 'error', message: string, error: CapstanError): void {
    const trouble = `${message}: ${error.code}`;
    if (this.#complaints.has(trouble)) return;
    this.#complaints.add(trouble);
    this.#options.log[level]({ code: error.code, error: error.message }, message);
  }
}

/** A setting that a new node needs to join is missing. */
export function noToken(): CapstanError {
  return new CapstanError('CONFIG', 'this node has not joined and has no join token: set CAPSTAN_JOIN_TOKEN or CAPSTAN_JOIN_TOKEN_FILE');
}
