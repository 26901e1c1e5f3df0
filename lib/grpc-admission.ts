/**
 * Decides from a call's metadata whether a gRPC server accepts it, before any of its messages is read: the caller's
 * identity and scope, its number of open calls, and its maximum message size. A refused call ends immediately, and data that its
 * caller still sends is dropped.
 *
 * A standby refuses every call before it looks at its credentials, except those that say so (`standby`). Methods without credentials (Join, health, reflection) accept small messages, from a limited number of calls. Failed
 * attempts to join are limited in rate, per peer and in total.
 */
import { constants, type ServerHttp2Stream } from 'node:http2';

import { Metadata, ServerInterceptingCall, status, type ServerInterceptor, type ServiceDefinition } from '@grpc/grpc-js';
import { LRUCache } from 'lru-cache';

import { CapstanError } from './errors.ts';
import { toStatus } from './grpc-errors.ts';
import { Rate } from './rate.ts';

/** The remote end of a connection. */
export interface ConnectionEnd {
  readonly remoteAddress?: string | undefined;
  readonly remotePort?: number | undefined;
}

/** A caller authenticated by its metadata. */
export interface Caller {
  /** Equal for calls that share the limit of open calls. */
  readonly name: string;
  /** Most concurrent calls. */
  readonly calls: number;
  /** Its largest message, bytes, unless the method's own limit is smaller. */
  readonly messageBytes: number;
}

export interface MethodRules {
  /** Largest message, bytes. */
  readonly messageBytes?: number;
  /** Most concurrent calls of one caller. */
  readonly perCaller?: number;
  /** Needs no credentials in its metadata. */
  readonly open?: boolean;
  /** Is answered also while the server refuses calls ({@link AdmissionOptions.refusal}). */
  readonly standby?: boolean;
  /** Its message contains the credentials: calls that fail because of them are limited in rate. */
  readonly credentialInMessage?: boolean;
  /** Throws a CapstanError for an authenticated caller that may not call it. */
  readonly permits?: (metadata: Metadata) => void;
  /** Authenticates its callers in place of the server's. */
  readonly identify?: (metadata: Metadata) => Caller;
}

type Checks = Pick<MethodRules, 'identify' | 'permits'>;
type AllRules = Required<Omit<MethodRules, keyof Checks>> & Checks;

export interface AdmissionOptions {
  /** Authenticates a caller. Throws a CapstanError without valid credentials. */
  readonly identify: (metadata: Metadata) => Caller;
  /** Why calls are refused, whatever their credentials; null while they are accepted. */
  readonly refusal?: (metadata: Metadata) => CapstanError | null;
  /** Metadata that goes ahead of every response. */
  readonly greeting?: () => Readonly<Record<string, string>>;
  /** A connection made a call with valid credentials. */
  readonly onTrusted?: (connection: ConnectionEnd) => void;
  /** Monotonic clock, ms. */
  readonly now?: () => number;
}

/** Messages of unary calls, and of streams that carry batches. */
const UNARY_BYTES = 4 * 1024 * 1024;
const STREAM_BYTES = 32 * 1024 * 1024;
/** Messages of methods without credentials. */
const OPEN_BYTES = 8 * 1024;
/** Open calls without credentials. */
const OPEN_CALLS_PER_PEER = 256;
const OPEN_CALLS = 2_048;
/** Calls that failed because of the credentials in their message, per second and burst. */
const FAILURES_PER_PEER = { perSecond: 10, burst: 50 };
const FAILURES = { perSecond: 100, burst: 1_000 };
/** Peers whose failures are tracked. */
const PEERS = 10_000;

/**
 * Members of the library's call object that its interface lacks; `test/integration/strangers.test.ts` detects a change.
 */
interface InnerCall {
  readonly stream: ServerHttp2Stream;
  readonly decoder: { maxReadMessageLength: number };
  maxReceiveMessageSize: number;
}

export class Admission {
  readonly #options: AdmissionOptions;
  readonly #rules = new Map<string, AllRules>();
  /** Open calls by the key that shares a limit. */
  readonly #open = new Map<string, number>();
  readonly #failuresOf = new LRUCache<string, Rate>({ max: PEERS });
  readonly #failures = new Rate(FAILURES.perSecond, FAILURES.burst);
  readonly #now: () => number;

  constructor(options: AdmissionOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
  }

  /** Rules of a service's methods by name in the definition; others use the default of their kind. */
  add(definition: ServiceDefinition, rules: Readonly<Record<string, MethodRules>> = {}): void {
    for (const [name, { path, requestStream }] of Object.entries(definition)) {
      const {
        open = false,
        standby = false,
        credentialInMessage = false,
        perCaller = Infinity,
        identify,
        permits,
        ...rest
      } = rules[name] ?? {};
      const { messageBytes = open ? OPEN_BYTES : requestStream ? STREAM_BYTES : UNARY_BYTES } = rest;
      const checks = { ...(identify === undefined ? {} : { identify }), ...(permits === undefined ? {} : { permits }) };
      this.#rules.set(path, { open, standby, credentialInMessage, perCaller, messageBytes, ...checks });
    }
  }

  get interceptor(): ServerInterceptor {
    return ({ path }, call) => {
      const connection = call.getConnectionInfo();
      const peer = peerOf(connection.remoteAddress);
      const rules = this.#rules.get(path);
      let held: readonly string[] = [];
      const release = (): void => {
        for (const name of held) this.#release(name);
        held = [];
      };
      return new ServerInterceptingCall(call, {
        start: (next) =>
          next({
            onReceiveMetadata: (metadata, pass) => {
              try {
                if (rules === undefined) throw new CapstanError('PERMISSION_DENIED', 'this method is not implemented');
                const refusal = rules.standby ? null : (this.#options.refusal?.(metadata) ?? null);
                if (refusal !== null) throw refusal;
                const { limits, messageBytes } = rules.open ? this.#admitOpen(path, peer, rules) : this.#admit(path, metadata, rules);
                if (!rules.open) this.#options.onTrusted?.(connection);
                rules.permits?.(metadata);
                held = this.#hold(limits);
                limitMessages(call, messageBytes);
              } catch (error) {
                call.sendStatus(this.#greeted({ ...ended, ...toStatus(error) }));
                reset(call);
                return;
              }
              pass(metadata);
            },
            onCancel: () => {
              release();
              // The library refused the message, and its sender may never end the call.
              if (rules?.open === true) reset(call);
            },
          }),
        sendMetadata: (metadata, next) => next(this.#greet(metadata)),
        sendStatus: (reply, next) => {
          release();
          if (rules?.credentialInMessage === true) this.#noteOutcome(reply.code, peer, connection);
          // A response of a status alone has no other metadata.
          next(this.#greeted(reply));
        },
      });
    };
  }

  #greet(metadata: Metadata): Metadata {
    for (const [key, value] of Object.entries(this.#options.greeting?.() ?? {})) metadata.set(key, value);
    return metadata;
  }

  #greeted<S extends { readonly metadata?: Metadata | null | undefined }>(reply: S): S & { metadata: Metadata } {
    return { ...reply, metadata: this.#greet(reply.metadata ?? new Metadata()) };
  }

  #admit(path: string, metadata: Metadata, rules: AllRules): Admitted {
    const caller = (rules.identify ?? this.#options.identify)(metadata);
    const limits = [{ name: `caller ${caller.name}`, most: caller.calls }];
    if (rules.perCaller !== Infinity) limits.push({ name: `caller ${caller.name} ${path}`, most: rules.perCaller });
    return { limits, messageBytes: Math.min(caller.messageBytes, rules.messageBytes) };
  }

  #admitOpen(path: string, peer: string, { messageBytes, credentialInMessage }: AllRules): Admitted {
    const now = this.#now();
    const failures = this.#failuresOf.get(peer);
    if (credentialInMessage && (failures?.has(now) === false || !this.#failures.has(now)))
      throw new CapstanError('RATE_LIMITED', 'too many calls with wrong credentials', { retryAfterMs: 1_000 });
    const limits = [
      { name: `open ${peer} ${path}`, most: OPEN_CALLS_PER_PEER },
      { name: 'open', most: OPEN_CALLS },
    ];
    return { limits, messageBytes };
  }

  #noteOutcome(code: status, peer: string, connection: ConnectionEnd): void {
    if (code === status.OK) this.#options.onTrusted?.(connection);
    if (code !== status.UNAUTHENTICATED && code !== status.INVALID_ARGUMENT) return;
    const now = this.#now();
    let failures = this.#failuresOf.get(peer);
    if (failures === undefined) {
      failures = new Rate(FAILURES_PER_PEER.perSecond, FAILURES_PER_PEER.burst);
      this.#failuresOf.set(peer, failures);
    }
    failures.take(now);
    this.#failures.take(now);
  }

  #hold(limits: Admitted['limits']): string[] {
    for (const { name, most } of limits) {
      if ((this.#open.get(name) ?? 0) >= most)
        throw new CapstanError('RATE_LIMITED', `at most ${most} such calls may be open at once`, { retryAfterMs: 1_000 });
    }
    const names = limits.map(({ name }) => name);
    for (const name of names) this.#open.set(name, (this.#open.get(name) ?? 0) + 1);
    return names;
  }

  #release(name: string): void {
    const left = (this.#open.get(name) ?? 0) - 1;
    if (left > 0) this.#open.set(name, left);
    else this.#open.delete(name);
  }
}

interface Admitted {
  readonly limits: readonly { readonly name: string; readonly most: number }[];
  readonly messageBytes: number;
}

const ended = { code: status.INTERNAL, details: '', metadata: new Metadata() };

/** Peers that share a limit: an IPv4 address, or the /64 of an IPv6 address. */
export function peerOf(address: string | undefined): string {
  if (address === undefined) return 'local';
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (mapped !== undefined) return mapped;
  if (!address.includes(':')) return address;
  const [before = '', after] = (address.split('%')[0] ?? '').split('::');
  const front = before === '' ? [] : before.split(':');
  const back = after === undefined || after === '' ? [] : after.split(':');
  const groups = after === undefined ? front : [...front, ...Array<string>(Math.max(0, 8 - front.length - back.length)).fill('0'), ...back];
  return `${groups.slice(0, 4).join(':')}::/64`;
}

/** The library has one limit for all methods; this sets the limit of one call before any of its data is read. */
function limitMessages(call: unknown, bytes: number): void {
  const inner = call as InnerCall;
  if (typeof inner.decoder?.maxReadMessageLength !== 'number')
    throw new Error('the gRPC library does not support a per-call message limit');
  inner.decoder.maxReadMessageLength = Math.min(inner.decoder.maxReadMessageLength, bytes);
  inner.maxReceiveMessageSize = Math.min(inner.maxReceiveMessageSize, bytes);
}

/** The status has been sent: the caller need not send the rest of its message. */
function reset(call: unknown): void {
  const { stream } = call as InnerCall;
  if (!stream.closed && !stream.readableEnded) stream.close(constants.NGHTTP2_NO_ERROR);
}
