/**
 * One call to the owner of the queue. It waits for a connection, and is made again on the next one when a scheduler
 * refused it unread with NOT_OWNER. A response with an older term than one seen before is not delivered.
 */
import { Metadata, status, type ChannelInterface, type Deadline, type InterceptingListener, type StatusObject } from '@grpc/grpc-js';

import { noteHeard, type Link, type LinkCall } from './link.ts';
import type { OwnerFinder } from './owner-finder.ts';
import { cellOfStatus } from '../cells.ts';
import { isNotOwner, namedOwner, termOf } from './term.ts';

/** The library's call, below its interceptors. */
export type RawCall = ReturnType<ChannelInterface['createCall']>;

type MessageContext = Parameters<RawCall['sendMessageWithContext']>[0];

/** Messages that are kept so that a refused call can be made again, bytes. */
const KEPT_BYTES = 256 * 1024;

export interface OwnerCallParts {
  readonly finder: OwnerFinder;
  create(link: Link): RawCall;
  /** Calls `begin` or `fail`, now or later. `isPatient`: the call waits for a connection. */
  ready(call: OwnerCall, isPatient: boolean): void;
  /** The call ended before it had a connection. */
  done(call: OwnerCall): void;
  /** The scheduler of this connection is not the owner. */
  refused(link: Link, named: string | undefined): void;
}

export class OwnerCall implements RawCall, LinkCall {
  readonly #parts: OwnerCallParts;
  readonly #deadline: number;
  #metadata = new Metadata();
  #listener: InterceptingListener | undefined;
  #credentials: Parameters<RawCall['setCredentials']>[0] | undefined;
  #inner: RawCall | undefined;
  #link: Link | undefined;
  /** What was sent so far; undefined when the call cannot be made again. */
  #sent: Sent[] | undefined = [];
  /** What the present connection still has to send. */
  #queue: Sent[] = [];
  /** The library keeps one message of a call that it is still setting up: a second one would replace it. */
  #isSending = false;
  #sentBytes = 0;
  #halfClosed = false;
  #reads = 0;
  #timer: NodeJS.Timeout | undefined;
  /** Why the scheduler's own status is not used. */
  #cutFor: string | undefined;
  /** Its response began with a term that is no older than any other. */
  #hasTerm = false;
  /** Its response began with a term. */
  #isOfOwner = false;
  #ended = false;

  constructor(parts: OwnerCallParts, deadline: Deadline) {
    this.#parts = parts;
    this.#deadline = deadline instanceof Date ? deadline.getTime() : deadline;
  }

  start(metadata: Metadata, listener: InterceptingListener): void {
    this.#metadata = metadata;
    this.#listener = listener;
    this.#wait();
  }

  sendMessageWithContext(given: MessageContext, message: Buffer): void {
    const item: Sent = { context: once(given), message };
    this.#sentBytes += message.length;
    if (this.#inner === undefined || (this.#sentBytes <= KEPT_BYTES && this.#sent !== undefined)) this.#sent?.push(item);
    else this.#sent = undefined;
    if (this.#inner === undefined) return;
    this.#queue.push(item);
    this.#sendNext(this.#inner);
  }

  startRead(): void {
    this.#reads += 1;
    this.#inner?.startRead();
  }

  halfClose(): void {
    this.#halfClosed = true;
    if (this.#inner !== undefined) this.#sendNext(this.#inner);
  }

  cancelWithStatus(code: status, details: string): void {
    if (this.#inner === undefined) this.#end({ code, details, metadata: new Metadata() });
    else this.#inner.cancelWithStatus(code, details);
  }

  getPeer(): string {
    return this.#inner?.getPeer() ?? 'unknown';
  }

  getCallNumber(): number {
    return this.#inner?.getCallNumber() ?? -1;
  }

  setCredentials(credentials: Parameters<RawCall['setCredentials']>[0]): void {
    this.#credentials = credentials;
    this.#inner?.setCredentials(credentials);
  }

  getAuthContext(): ReturnType<RawCall['getAuthContext']> {
    return this.#inner?.getAuthContext() ?? null;
  }

  get isUnanswered(): boolean {
    return this.#sent !== undefined;
  }

  /** Makes the call over a connection, with everything that was sent so far. */
  begin(link: Link): void {
    clearTimeout(this.#timer);
    if (this.#ended) return;
    const inner = this.#parts.create(link);
    this.#inner = inner;
    this.#link = link;
    link.calls.add(this);
    if (this.#credentials !== undefined) inner.setCredentials(this.#credentials);
    inner.start(this.#metadata.clone(), {
      onReceiveMetadata: (metadata) => this.#onMetadata(link, metadata),
      onReceiveMessage: (message: unknown) => this.#onMessage(link, message),
      onReceiveStatus: (reply) => this.#onStatus(link, reply),
    });
    for (let read = 0; read < this.#reads; read += 1) inner.startRead();
    this.#queue = [...(this.#sent ?? [])];
    this.#isSending = false;
    if (this.#sentBytes > KEPT_BYTES) this.#sent = undefined;
    this.#sendNext(inner);
  }

  /** Ends a call that has no connection. */
  fail(details: string): void {
    // Not at once: its caller is still starting it.
    process.nextTick(() => this.#end({ code: status.UNAVAILABLE, details, metadata: new Metadata() }));
  }

  cut(reason: string): void {
    this.#cutFor = reason;
    this.#inner?.cancelWithStatus(status.UNAVAILABLE, reason);
  }

  /** Sends the next message once the one before it is taken, and half-closes after the last. */
  #sendNext(inner: RawCall): void {
    if (this.#isSending || inner !== this.#inner) return;
    const item = this.#queue.shift();
    if (item === undefined) {
      if (this.#halfClosed) inner.halfClose();
      return;
    }
    this.#isSending = true;
    const { context, message } = item;
    const callback = (error?: Error | null): void => {
      context.callback?.(error);
      if (inner !== this.#inner) return;
      this.#isSending = false;
      this.#sendNext(inner);
    };
    inner.sendMessageWithContext({ ...context, callback }, message);
  }

  #wait(): void {
    if (this.#ended) return;
    if (Number.isFinite(this.#deadline)) {
      this.#timer = setTimeout(
        () =>
          this.#end({
            code: status.DEADLINE_EXCEEDED,
            details: 'deadline exceeded while searching for the owner',
            metadata: new Metadata(),
          }),
        Math.max(0, this.#deadline - Date.now()),
      );
    }
    this.#parts.ready(this, this.#metadata.getOptions().waitForReady === true);
  }

  #onMetadata(link: Link, metadata: Metadata): void {
    if (!this.#isCurrent(link, metadata)) return;
    noteHeard(link, this.#parts.finder);
    this.#hasTerm = !this.#parts.finder.lacksTerm(metadata);
    this.#isOfOwner = termOf(metadata) !== undefined;
    // It is being answered: from here on it is not made again.
    this.#sent = undefined;
    this.#listener?.onReceiveMetadata(metadata);
  }

  #onMessage(link: Link, message: unknown): void {
    if (this.#cutFor !== undefined) return;
    noteHeard(link, this.#parts.finder);
    this.#sent = undefined;
    this.#reads -= 1;
    this.#listener?.onReceiveMessage(message);
  }

  #onStatus(link: Link, reply: StatusObject): void {
    link.calls.delete(this);
    if (this.#cutFor === undefined && isNotOwner(reply)) {
      this.#refused(link, reply);
      return;
    }
    if (reply.code === status.UNAUTHENTICATED && !this.#hasTerm && this.#parts.finder.lacksTerm(reply.metadata)) {
      // Only the owner knows its callers: whoever believed anyone else would give its credentials up.
      this.#end({ code: status.UNAVAILABLE, details: 'credentials were rejected without the term of an owner', metadata: new Metadata() });
      return;
    }
    if (cellOfStatus(reply.metadata) !== undefined && !this.#isOfOwner && termOf(reply.metadata) === undefined) {
      // Only an owner knows that a node was moved, and where to.
      this.#end({ code: status.UNAVAILABLE, details: 'a cell was named without the term of an owner', metadata: new Metadata() });
      return;
    }
    const isUsable = this.#isCurrent(link, reply.metadata);
    this.#end(isUsable ? reply : { code: status.UNAVAILABLE, details: this.#cutFor ?? '', metadata: new Metadata() });
  }

  /** The scheduler has not read the call. */
  #refused(link: Link, reply: StatusObject): void {
    const isRepeated = this.#sent !== undefined && this.#metadata.getOptions().waitForReady === true;
    this.#inner = undefined;
    this.#link = undefined;
    this.#parts.refused(link, namedOwner(reply));
    if (isRepeated) this.#wait();
    else this.#end({ code: status.UNAVAILABLE, details: 'the scheduler does not own the queue', metadata: new Metadata() });
  }

  /** False for a response that must not be used: of a scheduler that lost the queue. */
  #isCurrent(link: Link, metadata: Metadata): boolean {
    if (this.#cutFor !== undefined) return false;
    if (this.#parts.finder.accepts(metadata)) return true;
    this.cut('the scheduler has an older term than the owner of the queue');
    this.#parts.refused(link, undefined);
    return false;
  }

  #end(reply: StatusObject): void {
    if (this.#ended) return;
    this.#ended = true;
    clearTimeout(this.#timer);
    this.#sent = undefined;
    this.#link?.calls.delete(this);
    this.#parts.done(this);
    this.#listener?.onReceiveStatus(reply);
  }
}

interface Sent {
  readonly context: MessageContext;
  readonly message: Buffer;
}

/** The writer of a message continues once, however often the message is sent. */
function once(context: MessageContext): MessageContext {
  let { callback } = context;
  return {
    ...context,
    callback: (error) => {
      const waiting = callback;
      callback = undefined;
      waiting?.(error);
    },
  };
}
