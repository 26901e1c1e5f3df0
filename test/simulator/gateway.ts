/** A gateway in the simulated world: its channel to the scheduler breaks, and it dies; what is unanswered is sent again. */
import { StreamCursors } from '../../gateway/jobs/stream-cursors.ts';
import type { JobReply } from '../../proto/gen/capstan/v1/jobs.ts';
import type { CoreEvent, Ref } from '../../scheduler/core/events.ts';
import { closedLink, Link, type World } from './world.ts';

/** A caller's request. */
export interface Request {
  readonly event: (ref: Ref, resent: boolean) => CoreEvent;
  /** The scheduler sent its reply. */
  readonly left?: (reply: JobReply) => void;
  /** The reply arrived. */
  readonly answered: (reply: JobReply) => void;
}

/** A scheduler, as the gateway's channel reaches it. */
export interface Target {
  handle(event: CoreEvent): void;
}

export interface GatewayWiring<T extends Target> {
  /** The scheduler that takes requests, if it was found. */
  find(): T | null;
  died(): void;
}

export class SimGateway<T extends Target> {
  readonly #world: World;
  readonly #wiring: GatewayWiring<T>;
  /** The scheduler at the channel's other end. */
  #target: T | null = null;
  readonly #open = new Map<number, Request & { sent: boolean }>();
  cursors = new StreamCursors();
  #channel = 0;
  #requests = closedLink<CoreEvent>();
  #replies = closedLink<JobReply>();
  #request = 0;

  constructor(world: World, wiring: GatewayWiring<T>) {
    this.#world = world;
    this.#wiring = wiring;
  }

  /** Requests that were never answered. */
  get unanswered(): readonly number[] {
    return [...this.#open.keys()];
  }

  request(wanted: Request): void {
    const request = ++this.#request;
    this.#open.set(request, { ...wanted, sent: false });
    this.#send(request);
  }

  /** A new channel, on which whatever is unanswered is sent again in its order. */
  connect(): void {
    const target = this.#wiring.find();
    if (target === null) {
      this.#reconnect();
      return;
    }
    this.#target = target;
    this.#channel++;
    this.#requests = new Link(this.#world, (event) => target.handle(event));
    this.#replies = new Link(this.#world, (reply) => this.#arrived(reply));
    for (const request of this.#open.keys()) this.#send(request);
  }

  /** The scheduler replies on a channel. */
  reply(channel: number, reply: JobReply): void {
    if (channel !== this.#channel) return;
    this.#open.get(reply.requestId)?.left?.(reply);
    this.#replies.send(reply);
  }

  /** What is under way is lost, both ways. A gateway that died forgets its callers, who have to ask anew. */
  breakChannel(hasDied: boolean): void {
    const target = this.#target;
    if (!this.#requests.open || target === null) return;
    const { random } = this.#world;
    this.#world.trace(hasDied ? 'gateway crashed' : 'channel broke');
    this.#close();
    const channel = this.#channel;
    this.#world.after(random.int(0, 50), () => target.handle({ kind: 'channel-closed', channel }));
    if (hasDied) {
      this.#open.clear();
      this.cursors = new StreamCursors();
      this.#wiring.died();
    }
    // A channel may be open again before the scheduler saw the old one's end; a process takes longer.
    this.#world.after(hasDied ? random.int(60, 500) : random.int(0, 100), () => {
      if (!this.#requests.open && this.#channel === channel) this.connect();
    });
  }

  /** This scheduler ended the channel; the gateway connects as soon as it can again. */
  lost(scheduler: T): void {
    if (this.#target !== scheduler) return;
    this.#target = null;
    this.#close();
    this.#reconnect();
  }

  /** Whether its channel leads to this scheduler. */
  follows(scheduler: T): boolean {
    return this.#target === scheduler && this.#requests.open;
  }

  #reconnect(): void {
    this.#world.after(this.#world.random.int(20, 200), () => {
      if (!this.#requests.open) this.connect();
    });
  }

  #send(request: number): void {
    const wanted = this.#open.get(request);
    if (wanted === undefined || !this.#requests.open) return;
    const event = wanted.event({ channel: this.#channel, request }, wanted.sent);
    if ('job' in event) this.#world.trace(`ask ${request} ${event.kind} ${event.job}`);
    this.#requests.send(event);
    wanted.sent = true;
  }

  #arrived(reply: JobReply): void {
    const wanted = this.#open.get(reply.requestId);
    if (wanted === undefined) return;
    this.#open.delete(reply.requestId);
    this.#world.trace(
      `reply ${reply.requestId} ${reply.result?.$case ?? ''} ${reply.result?.$case === 'job' ? reply.result.value.state : ''}`,
    );
    wanted.answered(reply);
  }

  #close(): void {
    this.#requests.open = false;
    this.#replies.open = false;
  }
}
