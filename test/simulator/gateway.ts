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

export interface GatewayWiring {
  /** The scheduler takes requests. */
  isUp(): boolean;
  handle(event: CoreEvent): void;
  died(): void;
}

export class SimGateway {
  readonly #world: World;
  readonly #wiring: GatewayWiring;
  readonly #open = new Map<number, Request & { sent: boolean }>();
  cursors = new StreamCursors();
  #channel = 0;
  #requests = closedLink<CoreEvent>();
  #replies = closedLink<JobReply>();
  #request = 0;

  constructor(world: World, wiring: GatewayWiring) {
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
    this.#channel++;
    this.#requests = new Link(this.#world, (event) => this.#wiring.handle(event));
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
    if (!this.#requests.open || !this.#wiring.isUp()) return;
    const { random } = this.#world;
    this.#world.trace(hasDied ? 'gateway crashed' : 'channel broke');
    this.#close();
    const channel = this.#channel;
    this.#world.after(random.int(0, 50), () => this.#wiring.handle({ kind: 'channel-closed', channel }));
    if (hasDied) {
      this.#open.clear();
      this.cursors = new StreamCursors();
      this.#wiring.died();
    }
    // A channel may be open again before the scheduler saw the old one's end; a process takes longer.
    this.#world.after(hasDied ? random.int(60, 500) : random.int(0, 100), () => {
      if (!this.#requests.open && this.#channel === channel && this.#wiring.isUp()) this.connect();
    });
  }

  /** The scheduler ended the channel; the gateway connects as soon as it can again. */
  lostScheduler(): void {
    this.#close();
    this.#reconnect();
  }

  #reconnect(): void {
    this.#world.after(this.#world.random.int(20, 200), () => {
      if (this.#requests.open) return;
      if (this.#wiring.isUp()) this.connect();
      else this.#reconnect();
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
