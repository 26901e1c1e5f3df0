/**
 * Records the gauges of the devices of connected nodes, a value a minute. The minutes of an hour are one row, which is written anew
 * each minute: a device has 73 rows at most, and 800 devices have as many as an account of 200 endpoints.
 *
 * An end of the process without a close loses the minute that is open.
 */
import type { Device } from '../../proto/gen/capstan/v1/nodes.ts';
import type { State } from '../core/state.ts';
import { DEVICE_MINUTES_KEPT_MS, type DeviceHistoryRow, type DeviceHistoryStore } from '../store/device-history.ts';
import { encodeMinute, MinuteSamples } from './device-minutes.ts';

export interface DeviceRecorderOptions {
  /** Null while the queue is being taken over. */
  readonly state: () => State | null;
  /** Wall clock, ms. */
  readonly wall: () => number;
  readonly store: DeviceHistoryStore;
  readonly log: { warn(fields: object, message: string): void };
}

/** Devices of a node, and of all nodes, whose history is kept: those that come first in order of node and uuid. */
export const MAX_DEVICES_OF_NODE = 64;
export const MAX_DEVICES = 4_096;
/** Agents report changed gauges every 30 s. */
const SAMPLE_MS = 20_000;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
/** Rows of one write: a few milliseconds. */
const ROWS = 200;

interface Recorded {
  readonly node: string;
  readonly device: string;
  samples: MinuteSamples;
  errors: Device['xids'];
  /** Minutes of the open hour, encoded. */
  minutes: (number | null)[][];
}

export class DeviceRecorder {
  readonly #options: DeviceRecorderOptions;
  #devices = new Map<string, Recorded>();
  /** The state whose devices are recorded. */
  #state: State | null = null;
  /** Begin of the rows of the open hour, and of the open minute, ms. */
  #rowAt = 0;
  #minuteAt = 0;
  #expiredAt = 0;
  #timer: NodeJS.Timeout | null = null;
  #saved: Promise<void> | null = null;
  #isFailing = false;

  constructor(options: DeviceRecorderOptions) {
    this.#options = options;
  }

  /** Takes samples from now on. */
  start(): void {
    this.#timer = setInterval(() => this.sample(), SAMPLE_MS);
    this.#timer.unref();
  }

  /** Writes the open minute, and ends. */
  async close(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
    await this.#saved;
    if (this.#state !== null && this.#state === this.#options.state()) this.#endMinute();
    await this.#saved;
  }

  /** Takes a sample of each device, and writes the minute before if it has ended. */
  sample(): void {
    const state = this.#options.state();
    if (state === null) return;
    const now = this.#options.wall();
    const minute = Math.floor(now / MINUTE_MS) * MINUTE_MS;
    if (state !== this.#state) {
      // Rows of an earlier scheduler of this hour stay.
      this.#state = state;
      this.#devices.clear();
      this.#rowAt = now;
      this.#minuteAt = minute;
    }
    if (minute !== this.#minuteAt) {
      this.#endMinute();
      if (Math.floor(minute / HOUR_MS) !== Math.floor(this.#rowAt / HOUR_MS)) {
        for (const each of this.#devices.values()) each.minutes = [];
        this.#rowAt = minute;
      }
      this.#minuteAt = minute;
    }
    this.#sampleDevices(state);
  }

  /** Resolves when what was sampled is written, or its write has failed. */
  async written(): Promise<void> {
    await this.#saved;
  }

  #sampleDevices(state: State): void {
    const present = new Set<string>();
    for (const [key, node, device] of recordedDevices(state)) {
      present.add(key);
      const known = this.#devices.get(key) ?? { node, device: device.uuid, samples: new MinuteSamples(), errors: [], minutes: [] };
      this.#devices.set(key, known);
      known.samples.add(device);
      known.errors = device.xids;
    }
    // One that is away keeps the minutes of the open hour, which its row has.
    for (const [key, { minutes }] of this.#devices) if (!present.has(key) && minutes.length === 0) this.#devices.delete(key);
  }

  #endMinute(): void {
    const minute = Math.floor((this.#minuteAt % HOUR_MS) / MINUTE_MS);
    const rows: DeviceHistoryRow[] = [];
    for (const each of this.#devices.values()) {
      const encoded = encodeMinute(minute, each.samples.end(this.#minuteAt, each.errors));
      each.samples = new MinuteSamples();
      // Nothing was sampled: its node is away.
      if (encoded.length === 1) continue;
      each.minutes.push(encoded);
      rows.push({ node: each.node, device: each.device, at: this.#rowAt, value: JSON.stringify(each.minutes) });
    }
    // A write that is still under way: the next one has this minute, too.
    if (this.#saved === null) this.#run(this.#save(rows));
  }

  async #save(rows: readonly DeviceHistoryRow[]): Promise<void> {
    const { store, wall } = this.#options;
    for (let from = 0; from < rows.length; from += ROWS) await store.save(rows.slice(from, from + ROWS));
    const hour = Math.floor(wall() / HOUR_MS);
    if (hour === this.#expiredAt) return;
    await store.expire(wall() - DEVICE_MINUTES_KEPT_MS - HOUR_MS);
    this.#expiredAt = hour;
  }

  /** A plot has a gap, and the queue goes on: told once until it works again. */
  #run(work: Promise<void>): void {
    this.#saved = work
      .then(
        () => {
          this.#isFailing = false;
        },
        (err: unknown) => {
          if (!this.#isFailing) this.#options.log.warn({ err }, 'the history of devices is not written');
          this.#isFailing = true;
        },
      )
      .finally(() => {
        this.#saved = null;
      });
  }
}

/** The devices whose history is kept, with a key that is unique over all nodes. */
function recordedDevices({ nodes }: State): [key: string, node: string, device: Device][] {
  const found: [string, string, Device][] = [];
  for (const id of [...nodes.keys()].sort()) {
    const { session, inventory } = nodes.get(id) ?? {};
    if (session === null || session === undefined) continue;
    const devices = [...(inventory?.devices ?? [])].filter(({ uuid }) => uuid !== '').sort((a, b) => (a.uuid < b.uuid ? -1 : 1));
    for (const device of devices.slice(0, MAX_DEVICES_OF_NODE)) {
      if (found.length === MAX_DEVICES) return found;
      found.push([`${id} ${device.uuid}`, id, device]);
    }
  }
  return found;
}
