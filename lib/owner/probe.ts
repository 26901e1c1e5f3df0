/**
 * Watches one scheduler's health until it owns the queue. Health needs no credentials, so that a scheduler that is not
 * the owner receives none. The messages of grpc.health.v1 are two fields: they are read and written here.
 */
import {
  Client,
  Metadata,
  type ChannelCredentials,
  type ChannelInterface,
  type ChannelOptions,
  type ClientReadableStream,
} from '@grpc/grpc-js';

import { backoffMs } from '../backoff.ts';
import { ENDED_BY_SCHEDULER, readClientStream, type GuardLog } from '../stream-guard.ts';
import type { Candidate } from './addresses.ts';
import { termOf } from './term.ts';

const CHECK = '/grpc.health.v1.Health/Check';
const WATCH = '/grpc.health.v1.Health/Watch';
/** How long a reply of the health service may take, ms. */
const CHECK_MS = 2_000;

/** Connections of probes: several may be open at once, and each of them is short-lived. */
const OPTIONS: ChannelOptions = {
  'grpc.initial_reconnect_backoff_ms': 50,
  'grpc.max_reconnect_backoff_ms': 1_000,
  'grpc.keepalive_time_ms': 5_000,
  'grpc.keepalive_timeout_ms': 3_000,
  'grpc.use_local_subchannel_pool': 1,
  'grpc.enable_retries': 0,
  'grpc.enable_http_proxy': 0,
};

/** Values of `ServingStatus`. */
const SERVING = 1;
const SERVICE_UNKNOWN = 3;
/** The health of a scheduler as a whole. */
const WHOLE = '';

/** A reply of the health service. */
export interface HealthReply {
  readonly serving: boolean;
  readonly term: bigint | undefined;
}

export interface HealthProbe {
  readonly credentials: ChannelCredentials;
  readonly service: string;
  readonly timeoutMs?: number;
}

/** Options that make TLS verify the configured name of a scheduler, not its address. */
export function nameOptions({ authority }: Candidate): ChannelOptions {
  if (authority === undefined) return {};
  return { 'grpc.default_authority': authority, 'grpc.ssl_target_name_override': authority.replace(/:\d+$/, '') };
}

/** Requests the health once over an open channel. Rejects with the call's error. */
export function checkHealth(channel: ChannelInterface, { credentials, service, timeoutMs = CHECK_MS }: HealthProbe): Promise<HealthReply> {
  const client = new Client(channel.getTarget(), credentials, { channelOverride: channel });
  return new Promise((resolve, reject) => {
    let term: bigint | undefined;
    const deadline = Date.now() + timeoutMs;
    const call = client.makeUnaryRequest(CHECK, requestBytes, statusOf, service, new Metadata(), { deadline }, (error, serving) => {
      if (error !== null) reject(error);
      else resolve({ serving: serving === SERVING, term });
    });
    call.on('metadata', (metadata) => {
      term = termOf(metadata);
    });
  });
}

export interface ProbeOptions {
  readonly credentials: ChannelCredentials;
  readonly log: GuardLog;
  /** Service whose health tells the owner. */
  readonly service: string;
  /** A scheduler from before cells may be the owner: it does not know the service, listens only while it owns, and has no term. */
  readonly takesEarlier: () => boolean;
  /** Delay before it starts, ms. */
  readonly delayMs: number;
  /** The scheduler says that it serves. Returns false when it is not the owner all the same: it is asked again later. */
  readonly onServing: (reply: HealthReply) => boolean;
  /** It cannot be reached; for the log. */
  readonly onFailure: (reason: string) => void;
}

export class Probe {
  readonly candidate: Candidate;
  readonly #options: ProbeOptions;
  #client: Client | undefined;
  #call: ClientReadableStream<number> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #attempt = 0;
  #closed = false;

  constructor(candidate: Candidate, options: ProbeOptions) {
    this.candidate = candidate;
    this.#options = options;
    this.#later(options.delayMs);
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    const call = this.#call;
    this.#call = undefined;
    call?.cancel();
    this.#client?.close();
  }

  #later(delayMs: number): void {
    if (this.#closed) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#watch(), delayMs);
  }

  #watch(): void {
    const { credentials, log, service } = this.#options;
    this.#client ??= new Client(this.candidate.target, credentials, { ...OPTIONS, ...nameOptions(this.candidate) });
    const call = this.#client.makeServerStreamRequest(WATCH, requestBytes, statusOf, service, new Metadata());
    this.#call = call;
    readClientStream<number>(call, { name: 'Health.Watch', log, facts: { scheduler: this.candidate.key } }, (health) => {
      if (this.#call !== call) return;
      if (health === SERVING) void this.#check(call, service);
      else if (health === SERVICE_UNKNOWN && this.#options.takesEarlier()) void this.#check(call, WHOLE);
    });
    call.on('error', (error: Error) => this.#ended(call, error.message));
    call.on('end', () => this.#ended(call, ENDED_BY_SCHEDULER));
  }

  /** The watch says when to ask; the reply of a call names the term. */
  async #check(call: ClientReadableStream<number>, service: string): Promise<void> {
    const client = this.#client;
    if (client === undefined) return;
    let reply: HealthReply;
    try {
      reply = await checkHealth(client.getChannel(), { credentials: this.#options.credentials, service });
    } catch (error) {
      this.#ended(call, error instanceof Error ? error.message : String(error));
      return;
    }
    if (this.#call !== call) return;
    // An owner of another cell: the watch tells when it owns this one.
    if (service === WHOLE && reply.term !== undefined) return;
    if (reply.serving && this.#options.onServing(reply)) return;
    this.#ended(call, reply.serving ? 'it serves, but is not the owner' : 'it does not serve');
  }

  #ended(call: ClientReadableStream<number>, reason: string): void {
    if (this.#call !== call) return;
    this.#call = undefined;
    call.cancel();
    this.#options.onFailure(reason);
    this.#later(backoffMs(this.#attempt));
    this.#attempt += 1;
  }
}

/** `string service = 1`. */
function requestBytes(service: string): Buffer {
  const name = Buffer.from(service);
  return name.length === 0 ? name : Buffer.concat([Buffer.from([0x0a, name.length]), name]);
}

/** `ServingStatus status = 1`; 0 where it is left out. */
function statusOf(reply: Buffer): number {
  return reply.length >= 2 && reply[0] === 0x08 ? (reply[1] ?? 0) : 0;
}
