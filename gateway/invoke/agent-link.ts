/** One agent's stream: requests go out on it by number, their answers come back. */
import type { ServerDuplexStream } from '@grpc/grpc-js';

import type { CapstanError } from '../../proto/errors.ts';
import { toStatus } from '../../proto/grpc-errors.ts';
import type { AgentFrame, GatewayFrame, InvokeFromAgent, InvokeFromGateway } from '../../proto/gen/capstan/v1/invoke.ts';

export type InvokeCall = ServerDuplexStream<InvokeFromAgent, InvokeFromGateway>;
type Said = NonNullable<AgentFrame['frame']>;
type Saying = NonNullable<GatewayFrame['frame']>;

/** A request that is with an agent. */
export interface LinkedRequest {
  heard(frame: Said): void;
  /** The stream broke: nobody knows what became of the request. */
  lost(): void;
}

/** A message is written when it has this many bytes of bodies, else at the end of the turn. */
const MESSAGE_BYTES = 512 * 1024;

export class AgentLink {
  readonly node: string;
  readonly #call: InvokeCall;
  readonly #requests = new Map<number, LinkedRequest>();
  #frames: GatewayFrame[] = [];
  #bytes = 0;
  #armed = false;
  #next = 1;
  #closed = false;

  constructor(node: string, call: InvokeCall) {
    this.node = node;
    this.#call = call;
  }

  /** Requests whose end the agent has not told. */
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

  /** Sends at the end of this turn of the event loop; `bytes`: size of the body in it. */
  send(number: number, frame: Saying, bytes: number): void {
    if (this.#closed) return;
    this.#frames.push({ request: number, frame });
    this.#bytes += bytes;
    if (this.#bytes >= MESSAGE_BYTES) this.#flush();
    else if (!this.#armed) {
      this.#armed = true;
      setImmediate(() => {
        this.#armed = false;
        this.#flush();
      });
    }
  }

  heard(frames: readonly AgentFrame[]): void {
    for (const { request, frame } of frames) {
      // Unknown numbers are requests that are over for this side.
      if (frame !== undefined && request !== 0) this.#requests.get(request)?.heard(frame);
    }
  }

  /** The stream is gone. */
  broken(): void {
    if (this.#closed) return;
    this.#closed = true;
    const requests = [...this.#requests.values()];
    this.#requests.clear();
    for (const request of requests) request.lost();
  }

  /** Ends the stream with an error; its requests are lost at once. */
  refuse(error: CapstanError): void {
    this.#call.emit('error', toStatus(error));
  }

  end(): void {
    this.#flush();
    this.#call.end();
  }

  #flush(): void {
    if (this.#frames.length === 0 || this.#closed) return;
    const frames = this.#frames;
    this.#frames = [];
    this.#bytes = 0;
    this.#call.write({ frames });
  }
}
