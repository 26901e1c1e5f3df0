/**
 * What changes at the endpoints of a group of readers that see the same: read once a second for all of them while there is any, and
 * sent to each as numbered changes. Each read that changes nothing is a sign of life, and one that fails or is late is the event
 * `stale`: a page knows at any time how old its data is.
 */
import { setTimeout as pause } from 'node:timers/promises';

import type { EndpointActivity } from '../../proto/gen/capstan/v1/control.ts';
import { toCapstanError } from '../http/problem.ts';

/** Interval of reads and so of changes, ms. */
const READ_MS = 1_000;
/** Time after which a read that has not ended is late, ms: a page shows within 3 s that the scheduler is away. */
const LATE_MS = 1_500;
const ALIVE = ': alive\n\n';
const STALE = 'event: stale\ndata: {"reason":"The scheduler does not respond."}\n\n';

/** One open stream. */
export interface Reader {
  /** Reads the counts with the session of this stream. */
  read(): Promise<readonly EndpointActivity[]>;
  /** Rejects with UNAUTHENTICATED once the session has ended. */
  check(): Promise<unknown>;
  /** Sends text; false while the reader is too slow for more. */
  send(text: string): boolean;
  end(): void;
}

/** A reader with its state. */
interface Stream extends Reader {
  /** It missed changes, and gets everything with the next one. */
  isBehind: boolean;
}

export interface ActivityFeedOptions {
  /** Tells this feed's numbers from those of others and of other gateways. */
  readonly name: string;
  /** The gateway is about to close: streams end, and browsers connect to another one. */
  readonly isClosing: () => boolean;
  /** Told of an error that ended all streams. */
  readonly onFailure: (error: unknown) => void;
  readonly readMs?: number;
  readonly lateMs?: number;
}

export class ActivityFeed {
  readonly #name: string;
  readonly #isClosing: () => boolean;
  readonly #onFailure: (error: unknown) => void;
  readonly #readMs: number;
  readonly #lateMs: number;
  readonly #streams = new Set<Stream>();
  /** By endpoint: its counts, and the number of their change. */
  readonly #counts = new Map<string, { readonly text: string; readonly changed: number }>();
  #number = 0;
  /** The number of the last change that removed an endpoint. */
  #removed = 0;
  #isRunning = false;
  /** The last read failed or is late. */
  #isStale = false;

  constructor({ name, isClosing, onFailure, readMs = READ_MS, lateMs = LATE_MS }: ActivityFeedOptions) {
    this.#name = name;
    this.#isClosing = isClosing;
    this.#onFailure = onFailure;
    this.#readMs = readMs;
    this.#lateMs = lateMs;
  }

  get isIdle(): boolean {
    return this.#streams.size === 0;
  }

  /**
   * Adds a stream, which first gets what it does not know: everything, or with the id of its last event the changes since.
   * Returns the function that removes it.
   */
  add(reader: Reader, lastEventId: string | undefined): () => void {
    const stream: Stream = { ...reader, isBehind: true };
    this.#streams.add(stream);
    const known = this.#numberOf(lastEventId);
    if (known !== undefined && this.#isRunning && known >= this.#removed) {
      stream.isBehind = false;
      const since = [...this.#counts.values()].filter(({ changed }) => changed > known).map(({ text }) => text);
      stream.send(since.length === 0 ? ': nothing changed\n\n' : this.#event('change', since, []));
    } else if (this.#isRunning && this.#number > 0) this.#sendAll(stream);
    if (this.#isRunning && this.#isStale) stream.send(STALE);
    this.#run().catch((error: unknown) => {
      this.#onFailure(error);
      this.#endAll();
    });
    return () => void this.#streams.delete(stream);
  }

  #numberOf(id: string | undefined): number | undefined {
    const [name, number] = (id ?? '').split('.');
    return name === this.#name && number !== undefined && /^\d{1,15}$/.test(number) && Number(number) <= this.#number
      ? Number(number)
      : undefined;
  }

  async #run(): Promise<void> {
    if (this.#isRunning) return;
    this.#isRunning = true;
    try {
      while (this.#streams.size > 0) {
        if (this.#isClosing()) this.#endAll();
        await this.#read();
        // The directory of keys answers: no call is made for a session that goes on.
        await this.#check();
        await pause(this.#readMs);
      }
    } finally {
      this.#isRunning = false;
      this.#isStale = false;
      // What changes while nobody reads is not known.
      this.#counts.clear();
      this.#removed = this.#number + 1;
    }
  }

  #endAll(): void {
    for (const stream of this.#streams) stream.end();
    this.#streams.clear();
  }

  async #read(): Promise<void> {
    const [first] = this.#streams;
    if (first === undefined) return;
    const late = setInterval(() => this.#sendStale(), this.#lateMs);
    try {
      const endpoints = await first.read();
      this.#isStale = false;
      this.#take(endpoints);
    } catch (thrown) {
      const { code } = toCapstanError(thrown);
      if (code === 'INTERNAL') throw thrown;
      // A session that has ended is removed by the check.
      if (code !== 'UNAUTHENTICATED') this.#sendStale();
    } finally {
      clearInterval(late);
    }
  }

  #sendStale(): void {
    this.#isStale = true;
    for (const stream of this.#streams) stream.send(STALE);
  }

  /** Ends the streams whose sessions have ended. */
  async #check(): Promise<void> {
    await Promise.all(
      [...this.#streams].map(async (stream) => {
        try {
          await stream.check();
        } catch (thrown) {
          if (toCapstanError(thrown).code !== 'UNAUTHENTICATED') return;
          this.#streams.delete(stream);
          stream.end();
        }
      }),
    );
  }

  #take(endpoints: readonly EndpointActivity[]): void {
    const next = this.#number + 1;
    const changed: string[] = [];
    for (const endpoint of endpoints) {
      const text = JSON.stringify(shape(endpoint));
      if (this.#counts.get(endpoint.endpointId)?.text === text) continue;
      this.#counts.set(endpoint.endpointId, { text, changed: next });
      changed.push(text);
    }
    const present = new Set(endpoints.map(({ endpointId }) => endpointId));
    const removed = [...this.#counts.keys()].filter((id) => !present.has(id));
    for (const id of removed) this.#counts.delete(id);
    const hasChanged = changed.length > 0 || removed.length > 0 || this.#number === 0;
    if (hasChanged) this.#number = next;
    if (removed.length > 0) this.#removed = next;
    const event = hasChanged ? this.#event('change', changed, removed) : undefined;
    for (const stream of this.#streams) {
      if (stream.isBehind) this.#sendAll(stream);
      else if (event === undefined) stream.send(ALIVE);
      else stream.isBehind = !stream.send(event);
    }
  }

  #sendAll(stream: Stream): void {
    const all = [...this.#counts.values()].map(({ text }) => text);
    stream.isBehind = !stream.send(this.#event('all', all, []));
  }

  #event(kind: 'all' | 'change', endpoints: readonly string[], removed: readonly string[]): string {
    const data = `{"endpoints":[${endpoints.join(',')}],"removed":${JSON.stringify(removed)}}`;
    return `id: ${this.#name}.${this.#number}\nevent: ${kind}\ndata: ${data}\n\n`;
  }
}

function shape(counts: EndpointActivity): object {
  return {
    id: counts.endpointId,
    version: Number(counts.version),
    inQueue: counts.inQueue,
    inProgress: counts.inProgress,
    submitted: Number(counts.submitted),
    completed: Number(counts.completed),
    failed: Number(counts.failed),
    workers: {
      idle: counts.workersIdle,
      running: counts.workersRunning,
      initializing: counts.workersInitializing,
      throttled: counts.workersThrottled,
      unhealthy: counts.workersUnhealthy,
    },
  };
}
