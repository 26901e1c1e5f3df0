/** An agent that serves load-balanced requests as a test tells it, over the real stream to a gateway. */
import { createHmac } from 'node:crypto';

import { credentials, Metadata, type ClientDuplexStream, type ServiceError } from '@grpc/grpc-js';
import type { ExecutionContext } from 'ava';

import {
  InvokeServiceClient,
  type AgentFrame,
  type Begin,
  type GatewayFrame,
  type InvokeFromAgent,
  type InvokeFromGateway,
  type ServingWorker,
} from '../../proto/gen/capstan/v1/invoke.ts';
import { Signals } from '../agent/signals.ts';
import { TOKEN, type FakeScheduler } from './fake-scheduler.ts';

/** By the address at which agents reach its gateway: the scheduler that places the workers of fake agents. */
export const schedulers = new Map<string, FakeScheduler>();

type Frame = NonNullable<AgentFrame['frame']>;

/** A request that has come, with the means to answer it. */
export interface Taken {
  readonly number: number;
  readonly begin: Begin;
  /** The whole answer. */
  answer(status: number, body: string, headers?: Readonly<Record<string, string>>): void;
  send(frame: Frame): void;
}

export class FakeAgent {
  readonly taken = new Signals<Taken>();
  /** Every frame after a request's first. */
  readonly frames = new Signals<GatewayFrame>();
  /** Called for each request as it comes. */
  onRequest: (taken: Taken) => void = () => undefined;
  /** Resolves with how the gateway ended the stream. */
  readonly ended: Promise<ServiceError | undefined>;
  readonly #address: string;
  readonly #node: string;
  readonly #stream: ClientDuplexStream<InvokeFromAgent, InvokeFromGateway>;

  constructor(t: ExecutionContext, address: string, node = 'node-1', token = invokeToken(node)) {
    this.#address = address;
    this.#node = node;
    const client = new InvokeServiceClient(address, credentials.createInsecure());
    const metadata = new Metadata();
    metadata.set('authorization', `Bearer ${token}`);
    this.#stream = client.invoke(metadata);
    this.ended = new Promise((resolve) => {
      this.#stream.once('error', resolve);
      this.#stream.once('end', () => resolve(undefined));
    });
    this.#stream.on('data', ({ frames }: InvokeFromGateway) => {
      for (const each of frames) this.#received(each);
    });
    t.teardown(() => client.close());
  }

  /** Has the scheduler place workers on the node, and announces them; slots by worker. */
  serve(endpointId: string, slots: Readonly<Record<string, number>>): this {
    const placed = Object.entries(slots).map(([workerId, count]) => ({ workerId, endpointId, releaseId: 'r1', slots: count }));
    schedulers.get(this.#address)?.place(this.#node, placed);
    return this.announce(endpointId, slots);
  }

  /** Announces workers, placed or not. All are of the release `r1` and have the functions `fn` and `other`. */
  announce(endpointId: string, slots: Readonly<Record<string, number>>): this {
    const functions = ['fn', 'other'];
    return this.announceWorkers(
      Object.entries(slots).map(([workerId, count]) => ({ workerId, endpointId, releaseId: 'r1', slots: count, functions })),
    );
  }

  announceWorkers(workers: ServingWorker[]): this {
    this.#write(0, { $case: 'serving', value: { nodeId: this.#node, workers } });
    return this;
  }

  /** Sends a message as it is. */
  sendRaw(message: InvokeFromAgent): void {
    this.#stream.write(message);
  }

  /** As a killed agent does. */
  break(): void {
    this.#stream.cancel();
  }

  #received(each: GatewayFrame): void {
    const { request, frame } = each;
    if (frame?.$case !== 'begin') {
      this.frames.push(each);
      return;
    }
    const send = (answer: Frame): void => this.#write(request, answer);
    const taken: Taken = {
      number: request,
      begin: frame.value,
      send,
      answer(status, text, headers = {}) {
        const named = Object.entries(headers).map(([name, value]) => ({ name, value }));
        send({ $case: 'head', value: { status, headers: named, body: Buffer.from(text), ended: true } });
      },
    };
    this.taken.push(taken);
    this.onRequest(taken);
  }

  #write(request: number, frame: Frame): void {
    this.#stream.write({ frames: [{ request, frame }] });
  }
}

/** As the scheduler signs it. */
export function invokeToken(node: string, until = Date.now() + 60_000): string {
  return `${node}.${until}.${createHmac('sha256', TOKEN).update(`invoke.${node}.${until}`).digest('base64url')}`;
}
