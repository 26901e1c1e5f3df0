/**
 * The stream to one gateway: numbered requests arrive on it and their responses return on it. Reconnects when it
 * breaks.
 */
import { connectivityState, Metadata, type ChannelCredentials, type ClientDuplexStream } from '@grpc/grpc-js';
import type { Logger } from 'pino';

import { BatchWriter, FRAMES_BYTES, messageLimits } from '../../lib/batches.ts';
import { CapstanError } from '../../lib/errors.ts';
import { fromServiceError } from '../../lib/grpc-errors.ts';
import {
  InvokeServiceClient,
  type AgentFrame,
  type GatewayFrame,
  type InvokeFromAgent,
  type InvokeFromGateway,
  type Serving,
} from '../../proto/gen/capstan/v1/invoke.ts';
import { handleItem, readClientStream } from '../../lib/stream-guard.ts';
import type { HttpCall, HttpEvents, HttpRequest } from '../runtimes/runtime.ts';
import { Backoff } from '../session/backoff.ts';

export interface GatewayLinkOptions {
  readonly address: string;
  readonly credentials: ChannelCredentials;
  readonly log: Logger;
  readonly serving: () => Serving;
  /** Returns null when the worker does not accept the request: no part of it has reached a function. */
  readonly serve: (workerId: string, request: HttpRequest, events: HttpEvents) => HttpCall | null;
}

/** A stream that lasted this long over an open connection was accepted by the gateway, ms. */
const ACCEPTED_MS = 1_000;

type FrameBody = NonNullable<AgentFrame['frame']>;

export class GatewayLink {
  readonly #options: GatewayLinkOptions;
  readonly #client: InvokeServiceClient;
  readonly #backoff = new Backoff(50, 2_000);
  readonly #calls = new Map<number, HttpCall>();
  #token: string;
  #stream: ClientDuplexStream<InvokeFromAgent, InvokeFromGateway> | undefined;
  #retry: NodeJS.Timeout | undefined;
  readonly #frames = new BatchWriter<AgentFrame>((frames) => this.#stream?.write({ frames }), { bytes: FRAMES_BYTES });
  #complained = '';
  #closed = false;
  /** When the stream was opened, and since when the gateway is out of reach, monotonic ms. */
  #openedAt = 0;
  #outSince: number | undefined;
  #lastFailure = 'no connection yet';
  /** The last reported set of workers, so that only changes are reported. */
  #sent = '';

  constructor(options: GatewayLinkOptions, token: string) {
    this.#options = options;
    this.#token = token;
    this.#client = new InvokeServiceClient(options.address, options.credentials, {
      ...messageLimits,
      'grpc.initial_reconnect_backoff_ms': 50,
      'grpc.max_reconnect_backoff_ms': 1_000,
      'grpc.keepalive_time_ms': 10_000,
      'grpc.keepalive_timeout_ms': 5_000,
      'grpc.use_local_subchannel_pool': 1,
      'grpc.enable_retries': 0,
      'grpc-node.flow_control_window': 8 * 1024 * 1024,
    });
    this.#dial();
  }

  /** Presented at the next dial. */
  set token(token: string) {
    this.#token = token;
  }

  /** Returns for how long the gateway has been out of reach, ms, and the last error; undefined while it is reached. */
  get outOfReach(): { readonly ms: number; readonly reason: string } | undefined {
    const now = performance.now();
    const isOpen = this.#stream !== undefined && this.#client.getChannel().getConnectivityState(false) === connectivityState.READY;
    if (isOpen && now - this.#openedAt >= ACCEPTED_MS) this.#outSince = undefined;
    return this.#outSince === undefined ? undefined : { ms: now - this.#outSince, reason: this.#lastFailure };
  }

  /** Reports the workers that accept requests, if the set has changed. */
  tellServing(): void {
    if (this.#stream === undefined) return;
    const serving = this.#options.serving();
    const text = JSON.stringify(serving);
    if (text === this.#sent) return;
    this.#sent = text;
    this.#frames.add({ request: 0, frame: { $case: 'serving', value: serving } }, 0);
  }

  /** Ends the stream; responses of requests in progress are dropped. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#retry);
    this.#frames.flush();
    const stream = this.#stream;
    this.#stream = undefined;
    stream?.end();
    this.#abortAll();
    setTimeout(() => {
      stream?.cancel();
      this.#client.close();
    }, 100).unref();
  }

  #dial(): void {
    if (this.#closed) return;
    const metadata = new Metadata();
    metadata.set('authorization', `Bearer ${this.#token}`);
    const stream = this.#client.invoke(metadata);
    this.#stream = stream;
    this.#openedAt = performance.now();
    this.#outSince ??= this.#openedAt;
    this.#sent = '';
    this.#frames.clear();
    let failure: unknown;
    const guarded = { name: 'InvokeService.Invoke', log: this.#options.log, facts: { gateway: this.#options.address } };
    readClientStream<InvokeFromGateway>(stream, guarded, ({ frames }) => {
      for (const frame of frames) {
        handleItem(
          guarded,
          () => this.#onFrame(frame),
          () => this.#fault(frame.request),
        );
      }
      this.#backoff.reset();
      this.#complained = '';
      this.#outSince = undefined;
    });
    stream.on('error', (error: unknown) => {
      failure = error;
    });
    stream.once('status', () => this.#broken(stream, failure));
    this.tellServing();
  }

  #broken(stream: ClientDuplexStream<InvokeFromAgent, InvokeFromGateway>, failure: unknown): void {
    if (this.#stream !== stream) return;
    // A stream that was accepted and ends now leaves the gateway out of reach from now on.
    if (this.outOfReach === undefined) this.#outSince = performance.now();
    this.#stream = undefined;
    this.#abortAll();
    if (this.#closed) return;
    const error = failure === undefined ? new CapstanError('UNAVAILABLE', 'ended by the gateway') : fromServiceError(failure);
    this.#lastFailure = error.message;
    if (this.#complained !== error.code) {
      this.#options.log.warn({ gateway: this.#options.address, code: error.code, error: error.message }, 'no stream to the gateway');
      this.#complained = error.code;
    }
    this.#retry = setTimeout(() => this.#dial(), this.#backoff.next());
  }

  /** No peer is left to receive the responses. */
  #abortAll(): void {
    for (const call of this.#calls.values()) call.abort(false);
    this.#calls.clear();
  }

  #onFrame({ request, frame }: GatewayFrame): void {
    switch (frame?.$case) {
      case 'begin':
        this.#begin(request, frame.value);
        break;
      case 'body':
        this.#calls.get(request)?.body(frame.value.bytes, frame.value.ended);
        break;
      case 'credit':
        this.#calls.get(request)?.credit(frame.value);
        break;
      case 'abort':
        this.#calls.get(request)?.abort(frame.value.code === 'DEADLINE_EXCEEDED');
        break;
      case undefined:
        break;
    }
  }

  /** A frame of the request could not be handled: this request ends, others continue. */
  #fault(request: number): void {
    const call = this.#calls.get(request);
    this.#calls.delete(request);
    this.#frames.add({ request, frame: { $case: 'abort', value: { code: 'INTERNAL', message: 'the agent failed', untouched: false } } }, 0);
    call?.abort(false);
  }

  #begin(number: number, begin: Extract<NonNullable<GatewayFrame['frame']>, { $case: 'begin' }>['value']): void {
    const stream = this.#stream;
    const send = (frame: FrameBody, bytes: number): void => {
      if (this.#stream === stream) this.#frames.add({ request: number, frame }, bytes);
    };
    const done = (): void => void this.#calls.delete(number);
    const call = this.#options.serve(
      begin.workerId,
      {
        function: begin.function,
        method: begin.method,
        url: `${begin.scheme}://${begin.authority === '' ? 'localhost' : begin.authority}${begin.target}`,
        headers: begin.headers.map(({ name, value }): [string, string] => [name, value]),
        pathValues: begin.pathValues,
        body: begin.body,
        ended: begin.ended,
        upgrade: begin.upgrade,
      },
      {
        head(status, headers, body, ended) {
          if (ended) done();
          const named = headers.map(([name, value]) => ({ name, value }));
          send({ $case: 'head', value: { status, headers: named, body, ended } }, body.length + 128);
        },
        body(bytes, ended) {
          if (ended) done();
          send({ $case: 'body', value: { bytes, ended } }, bytes.length);
        },
        credit: (bytes) => send({ $case: 'credit', value: bytes }, 0),
        failed(code, message, untouched, workerEnd) {
          done();
          send({ $case: 'abort', value: { code, message, untouched, workerEnd } }, 0);
        },
      },
    );
    if (call === null)
      send({ $case: 'abort', value: { code: 'UNAVAILABLE', message: 'the worker is not accepting requests now', untouched: true } }, 0);
    else this.#calls.set(number, call);
  }
}
