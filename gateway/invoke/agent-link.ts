/** The stream of one agent: sends numbered requests, receives their responses. */
import type { ServerDuplexStream } from '@grpc/grpc-js';

import { BatchWriter, FRAMES_BYTES } from '../../lib/batches.ts';
import type { CapstanError } from '../../lib/errors.ts';
import { toStatus } from '../../lib/grpc-errors.ts';
import { handleItem, type GuardedStream } from '../../lib/stream-guard.ts';
import type { AgentFrame, GatewayFrame, InvokeFromAgent, InvokeFromGateway } from '../../proto/gen/capstan/v1/invoke.ts';

export type InvokeCall = ServerDuplexStream<InvokeFromAgent, InvokeFromGateway>;
type Said = NonNullable<AgentFrame['frame']>;
type FrameBody = NonNullable<GatewayFrame['frame']>;

/** A request that is with an agent. */
export interface LinkedRequest {
  onFrame(frame: Said): void;
  /** A frame of the request failed because of an error in the gateway. */
  broken(error: unknown): void;
  /** The stream ended; the outcome of the request is unknown. */
  lost(): void;
}

export class AgentLink {
  readonly node: string;
  readonly #call: InvokeCall;
  readonly #stream: GuardedStream;
  readonly #requests = new Map<number, LinkedRequest>();
  readonly #frames: BatchWriter<GatewayFrame>;
  #next = 1;
  #closed = false;

  constructor(node: string, call: InvokeCall, stream: GuardedStream) {
    this.node = node;
    this.#stream = stream;
    this.#call = call;
    this.#frames = new BatchWriter((frames) => call.write({ frames }), { bytes: FRAMES_BYTES });
  }

  /** Requests whose end the agent has not reported. */
  get open(): number {
    return this.#requests.size;
  }

  add(request: LinkedRequest): number {
    const number = this.#next;
    this.#next = number === 0xffff_ffff ? 1 : number + 1;
    this.#requests.set(number, request);
    return number;
  }

  remove(number: number): void {
    this.#requests.delete(number);
  }

  /** Sends at the end of this turn of the event loop. `bytes`: size of the body in the message. */
  send(number: number, frame: FrameBody, bytes: number): void {
    if (!this.#closed) this.#frames.add({ request: number, frame }, bytes);
  }

  onFrames(frames: readonly AgentFrame[]): void {
    for (const { request, frame } of frames) {
      // Unknown numbers belong to requests that have ended on this side.
      const open = this.#requests.get(request);
      if (frame === undefined || open === undefined) continue;
      handleItem(
        this.#stream,
        () => open.onFrame(frame),
        (error) => open.broken(error),
      );
    }
  }

  /** The stream is gone. */
  broken(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#frames.clear();
    const requests = [...this.#requests.values()];
    this.#requests.clear();
    for (const request of requests) request.lost();
  }

  /** Ends the stream with an error; its requests fail at once. */
  refuse(error: CapstanError): void {
    this.#call.emit('error', toStatus(error));
  }

  end(): void {
    this.#frames.flush();
    this.#call.end();
  }
}
