/**
 * Tells accounts of incidents and of their ends, one message for all that changed. What a channel is told is durable before it is sent,
 * so that neither a restart nor another scheduler repeats it; only the owner of the queue can write it, so only the owner sends.
 * A message that no try delivers is taken back: some time later the channel is told of what is still there, and of the ends.
 */
import { CapstanError } from '../../lib/errors.ts';
import type { State } from '../core/state.ts';
import type { Command } from '../core/events.ts';
import type { Now } from '../core/now.ts';
import { alertChannelKey, type AlertChannelRow, type ToldIncident } from '../core/state/control-rows.ts';
import { places } from '../core/control/encryption.ts';
import { keyOf, type Incident } from '../incidents/incident.ts';
import type { IncidentReader } from '../incidents/incident-reader.ts';
import type { Cipher } from '../secrets/cipher.ts';
import { changesOf, newWatched, type Changes, type Watched } from './changes.ts';
import type { AlertDelivery, Recipient } from './delivery.ts';
import { alertMessage } from './message.ts';

export interface AlertOptions {
  /** Null unless this scheduler owns the queue. */
  readonly state: () => State | null;
  readonly command: (command: Command) => Promise<unknown>;
  readonly now: () => Now;
  readonly incidents: Pick<IncidentReader, 'of'>;
  readonly cipher: Pick<Cipher, 'decrypt'>;
  readonly delivery: AlertDelivery;
  /** For how long an incident must last, and be over, before anybody is told, ms. */
  readonly delayMs: number;
  /** Base URL of the HTTP API for people; empty if unknown. */
  readonly site: () => string;
  readonly log: { warn(fields: object, message: string): void };
}

/**
 * Interval at which incidents are looked at, ms: a share of the time that they must last, within these bounds. A look computes those of
 * every account that has a channel.
 */
const MIN_LOOK_MS = 1_000;
const MAX_LOOK_MS = 5_000;
const LOOK_SHARE = 6;
/** Time after a message that was not delivered, ms. */
const PAUSE_MS = 300_000;
/** Beyond the time that hosts have to return after a take-over, ms. */
const GRACE_MARGIN_MS = 5_000;
/** Characters of a message that a row keeps. */
const MAX_KEPT = 300;

/** What is known of a channel since the take-over. */
interface Watching {
  readonly watched: Watched;
  isSending: boolean;
  /** Monotonic time before which nothing is sent. */
  pausedUntil: number;
}

export class Alerts {
  readonly #options: AlertOptions;
  #watching = new Map<string, Watching>();
  #state: State | null = null;
  #ownedSince = 0;
  #timer: NodeJS.Timeout | undefined;
  #isLooking = false;
  /** What the last look failed at: accounts, and channels. Each is logged once. */
  #failing = new Set<string>();

  constructor(options: AlertOptions) {
    this.#options = options;
  }

  start(): void {
    const every = Math.min(MAX_LOOK_MS, Math.max(MIN_LOOK_MS, this.#options.delayMs / LOOK_SHARE));
    this.#timer = setInterval(() => void this.look(), every);
    this.#timer.unref();
  }

  close(): void {
    clearInterval(this.#timer);
    this.#options.delivery.close();
  }

  /** Looks at the incidents once, and starts to send what changed. */
  async look(): Promise<void> {
    const state = this.#options.state();
    if (state === null || this.#isLooking) return;
    this.#isLooking = true;
    try {
      await this.#lookAt(state);
    } finally {
      this.#isLooking = false;
    }
  }

  async #lookAt(state: State): Promise<void> {
    const failing = new Set<string>();
    if (state !== this.#state) {
      this.#state = state;
      this.#watching = new Map();
      this.#ownedSince = this.#options.now().mono;
    }
    for (const key of this.#watching.keys()) if (!state.alertChannels.has(key)) this.#watching.delete(key);
    const views = Map.groupBy(state.alertChannels.values(), ({ account, isOperator }) => `${account} ${isOperator}`);
    for (const [first, ...others] of views.values()) {
      if (first === undefined) continue;
      const { account, isOperator } = first;
      // What fails for one account or channel (a row that no key decrypts) keeps no other one from its alerts.
      const found = await this.#guarded({ account }, failing, () => this.#options.incidents.of({ account, operator: isOperator }));
      if (found === undefined) continue;
      for (const { id } of [first, ...others]) {
        // A message may have ended in the meantime.
        const channel = state.alertChannels.get(alertChannelKey({ account, id }));
        if (channel !== undefined) await this.#guarded({ account, channel: id }, failing, () => this.#tell(channel, found));
      }
    }
    this.#failing = failing;
  }

  /** Undefined if it fails. */
  async #guarded<T>(
    facts: { readonly account: string; readonly channel?: string },
    failing: Set<string>,
    work: () => Promise<T>,
  ): Promise<T | undefined> {
    try {
      return await work();
    } catch (err) {
      // Another scheduler owns the queue by now, or it is being taken over.
      if (this.#options.state() === null || (err instanceof CapstanError && err.code === 'UNAVAILABLE')) return undefined;
      const key = `${facts.account} ${facts.channel ?? ''}`;
      failing.add(key);
      if (!this.#failing.has(key)) this.#options.log.warn({ err, ...facts }, 'alerts are not sent');
      return undefined;
    }
  }

  async #tell(channel: AlertChannelRow, found: readonly Incident[]): Promise<void> {
    const { now, delayMs, site } = this.#options;
    const watching = this.#of(channel);
    if (watching.isSending) return;
    const { mono, wall } = now();
    const graceMs = (this.#state?.settings.nodeGraceMs ?? 0) + GRACE_MARGIN_MS;
    const changes = changesOf(channel.told, found, watching.watched, { now: mono, delayMs, ownedSince: this.#ownedSince, graceMs });
    if (mono < watching.pausedUntil || changes.begun.length + changes.over.length === 0) return;
    const recipient = this.#recipientOf(channel);
    if (!this.#options.delivery.hasRoom(recipient)) return;
    watching.isSending = true;
    try {
      await this.#note(channel, { told: toldAfter(channel.told, changes, wall) });
    } catch (error) {
      watching.isSending = false;
      throw error;
    }
    void this.#send(channel, recipient, { changes, text: { site: site(), now: wall }, watching });
  }

  /** Sends a message that is noted; its result shows in the list of channels. */
  async #send(
    channel: AlertChannelRow,
    recipient: Recipient,
    { changes, text, watching }: { changes: Changes; text: { site: string; now: number }; watching: Watching },
  ): Promise<void> {
    try {
      const result = await this.#options.delivery.send(recipient, alertMessage(changes, text));
      if (result === undefined) return;
      const failure = result.result === 'delivered' ? '' : result.error;
      if (failure !== '') {
        watching.pausedUntil = this.#options.now().mono + PAUSE_MS;
        this.#options.log.warn({ account: channel.account, channel: channel.id, reason: failure }, 'an alert was not delivered');
      }
      const known = this.#state?.alertChannels.get(alertChannelKey(channel));
      if (known === undefined || (failure === '' && known.failure === '')) return;
      await this.#note(channel, { failure, told: failure === '' ? known.told : toldBefore(known.told, changes) });
    } catch (err) {
      // Another scheduler owns the queue by now, or the channel was removed.
      if (this.#options.state() !== null) this.#options.log.warn({ err, account: channel.account }, 'the result of an alert is not noted');
    } finally {
      watching.isSending = false;
    }
  }

  #note({ account, id }: AlertChannelRow, change: Partial<Pick<AlertChannelRow, 'told' | 'failure'>>): Promise<unknown> {
    return this.#options.command({ kind: 'note-alerts', account, id, change });
  }

  #recipientOf(channel: AlertChannelRow): Recipient {
    const { account, kind, sealed } = channel;
    return { account, kind, address: this.#options.cipher.decrypt(Buffer.from(sealed, 'base64'), places.alertChannel(channel)) };
  }

  #of(channel: AlertChannelRow): Watching {
    const key = alertChannelKey(channel);
    const known = this.#watching.get(key) ?? { watched: newWatched(), isSending: false, pausedUntil: 0 };
    this.#watching.set(key, known);
    return known;
  }
}

function toldAfter(told: readonly ToldIncident[], { begun, over }: Changes, toldAt: number): ToldIncident[] {
  const gone = new Set(over.map(({ key }) => key));
  const added = begun.map((incident) => ({
    key: keyOf(incident),
    subject: incident.subject,
    message: incident.message.slice(0, MAX_KEPT),
    toldAt,
  }));
  return [...told.filter(({ key }) => !gone.has(key)), ...added];
}

/** Undoes {@link toldAfter}. */
function toldBefore(told: readonly ToldIncident[], { begun, over }: Changes): ToldIncident[] {
  const added = new Set(begun.map(keyOf));
  return [...over, ...told.filter(({ key }) => !added.has(key))];
}
