/**
 * A channel to whichever scheduler owns the queue. Clients are made over it once and keep it for life; below it is one
 * connection, replaced when the owner is another one. Calls that wait for readiness wait for the owner.
 */
import { Channel, connectivityState, type ChannelInterface, type ChannelOptions } from '@grpc/grpc-js';

import type { Candidate } from './addresses.ts';
import { noteHeard, type Link } from './link.ts';
import { OwnerCall, type RawCall } from './owner-call.ts';
import type { OwnerFinder } from './owner-finder.ts';
import { checkHealth, nameOptions } from './probe.ts';

/** Silence of a connection with open calls after which its scheduler is asked whether it serves, ms. */
const QUIET_MS = 1_500;
/** Time for the answer, ms; after that, another owner is looked for. */
const ANSWER_MS = 1_500;
const LOOK_MS = 250;
/** How long the answer is waited for all the same, ms. */
const CHECK_MS = 60_000;
/** Time for a scheduler that does not own the queue to refuse the calls that it has, ms. */
const REFUSALS_MS = 1_000;
const LOST = 'the scheduler no longer owns the queue';

export class OwnerChannel implements ChannelInterface {
  readonly #finder: OwnerFinder;
  readonly #options: ChannelOptions;
  /** Calls without a connection, oldest first. */
  readonly #waiting = new Set<OwnerCall>();
  readonly #stop: () => void;
  readonly #look: NodeJS.Timeout;
  #link: Link | undefined;
  #closed = false;

  constructor(finder: OwnerFinder, options: ChannelOptions) {
    this.#finder = finder;
    this.#options = options;
    const stops = [finder.onOwner((owner) => this.#connect(owner)), finder.onCellSwitch(() => this.#leave())];
    this.#stop = () => stops.forEach((stop) => stop());
    this.#look = setInterval(() => this.#ask(), LOOK_MS).unref();
    if (finder.owner !== undefined) this.#connect(finder.owner);
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#stop();
    clearInterval(this.#look);
    // As the library does: open calls may end, waiting ones fail.
    this.#link?.channel.close();
    for (const call of [...this.#waiting]) call.fail('the channel was closed before the call started');
  }

  getTarget(): string {
    return this.#finder.setting;
  }

  getConnectivityState(tryToConnect: boolean): connectivityState {
    if (this.#closed) return connectivityState.SHUTDOWN;
    return this.#link?.channel.getConnectivityState(tryToConnect) ?? connectivityState.CONNECTING;
  }

  watchConnectivityState(currentState: connectivityState, deadline: Date | number, callback: (error?: Error) => void): void {
    if (this.#link === undefined) callback(new Error('no scheduler is known to own the queue'));
    else this.#link.channel.watchConnectivityState(currentState, deadline, callback);
  }

  getChannelzRef(): ReturnType<ChannelInterface['getChannelzRef']> {
    if (this.#link === undefined) throw new Error('no scheduler is known to own the queue');
    return this.#link.channel.getChannelzRef();
  }

  createCall(...parameters: Parameters<ChannelInterface['createCall']>): RawCall {
    const [method, deadline, host, parent, flags] = parameters;
    return new OwnerCall(
      {
        finder: this.#finder,
        create: (link) => link.channel.createCall(method, deadline, host, parent, flags),
        ready: (call, isPatient) => this.#place(call, isPatient),
        done: (call) => void this.#waiting.delete(call),
        refused: (link, named) => this.#refused(link, named),
      },
      deadline,
    );
  }

  /** Gives a call its connection, now or later. */
  #place(call: OwnerCall, isPatient: boolean): void {
    const link = this.#link;
    if (link !== undefined && !this.#closed && (link.isReady || !isPatient)) call.begin(link);
    else if (this.#closed || !isPatient) call.fail(this.#closed ? 'the channel is closed' : 'no scheduler is known to own the queue');
    else this.#waiting.add(call);
  }

  #connect(candidate: Candidate): void {
    if (this.#closed) return;
    const old = this.#link;
    if (old?.candidate.key === candidate.key && old.isReady) return;
    if (old !== undefined) this.#cut(old);
    const channel = new Channel(candidate.target, this.#finder.credentials, { ...this.#options, ...nameOptions(candidate) });
    const link: Link = { candidate, channel, calls: new Set(), isReady: false, heardAt: performance.now(), askedAt: undefined };
    this.#link = link;
    this.#watch(link);
  }

  /** Ends every call on a connection: nothing that still arrives on it is used. */
  #cut(link: Link): void {
    if (this.#link === link) this.#link = undefined;
    link.isReady = false;
    for (const call of [...link.calls]) call.cut(LOST);
    link.channel.close();
  }

  /** The owner of another cell is looked for: a response of this one must not be taken for one of that. */
  #leave(): void {
    if (this.#link !== undefined) this.#cut(this.#link);
  }

  #refused(link: Link, named: string | undefined): void {
    if (this.#link !== link) return;
    this.#link = undefined;
    link.isReady = false;
    // Calls without any response are refused one by one, unread: they may be made again.
    for (const call of [...link.calls]) if (!call.isUnanswered) call.cut(LOST);
    setTimeout(() => this.#cut(link), REFUSALS_MS).unref();
    this.#finder.refused(link.candidate, named);
  }

  #watch(link: Link): void {
    if (this.#link !== link || this.#closed) return;
    const state = link.channel.getConnectivityState(true);
    const wasReady = link.isReady;
    link.isReady = state === connectivityState.READY;
    link.channel.watchConnectivityState(state, Infinity, () => this.#watch(link));
    if (link.isReady) {
      link.heardAt = performance.now();
      link.askedAt = undefined;
      for (const call of [...this.#waiting]) {
        this.#waiting.delete(call);
        call.begin(link);
      }
    } else if (wasReady || state === connectivityState.TRANSIENT_FAILURE) this.#finder.lost(link.candidate);
  }

  /** Asks a silent scheduler whether it serves, if there are others to turn to. */
  #ask(): void {
    const link = this.#link;
    if (link === undefined || !link.isReady || link.calls.size === 0 || !this.#finder.hasRivals) return;
    const now = performance.now();
    if (link.askedAt !== undefined) {
      if (now - link.askedAt >= ANSWER_MS) this.#finder.silent(link.candidate);
      return;
    }
    if (now - link.heardAt < QUIET_MS) return;
    link.askedAt = now;
    checkHealth(link.channel, { credentials: this.#finder.credentials, service: this.#finder.service, timeoutMs: CHECK_MS }).then(
      ({ serving }) => {
        if (this.#link !== link) return;
        if (!serving) this.#refused(link, undefined);
        else noteHeard(link, this.#finder);
      },
      // A connection that broke is noticed as such, and a scheduler without health replies nonetheless.
      () => noteHeard(link, this.#finder),
    );
  }
}
