/** Keeps the node's inventory fresh and says when it is worth telling. */
import type { Logger } from 'pino';

import type { Inventory } from '../../proto/gen/capstan/v1/nodes.ts';
import { afterFullProbe, afterLightProbe, differs, NO_DEVICES, type DeviceSet } from './devices.ts';
import { quickGauges, quickIdentity, readGauges, readIdentityOfHost, type HostGauges, type HostIdentity } from './host-facts.ts';
import type { DeviceProbe, ProbeResult } from './probe.ts';

/** Gauges alone are told this often, ms (nodes.proto, Inventory). */
const TELL_MS = 30_000;

export interface InventoryOptions {
  readonly probe: DeviceProbe;
  readonly runtimes: readonly string[];
  /** Lies on the disk that is reported. */
  readonly folder: string;
  readonly env: Readonly<Record<string, string>>;
  /** Time between light probes, ms. */
  readonly lightMs: number;
  /** Time between full probes, ms. */
  readonly fullMs: number;
  readonly log: Logger;
  readonly onChange: (inventory: Inventory) => void;
}

export class InventoryKeeper {
  readonly #options: InventoryOptions;
  #identity: HostIdentity = quickIdentity();
  #gauges: HostGauges = quickGauges();
  #devices: DeviceSet = NO_DEVICES;
  #toldAt = 0;
  #fullAt = 0;
  #timer: NodeJS.Timeout | undefined;
  #round: Promise<void> | undefined;
  #closed = false;

  constructor(options: InventoryOptions) {
    this.#options = options;
  }

  /** Starts the rounds; resolves after the first probe of the devices. */
  async start(): Promise<void> {
    this.#run(true);
    await this.#round;
  }

  /** As last found. */
  get current(): Inventory {
    return {
      ...this.#identity,
      ...this.#gauges,
      devices: [...this.#devices.devices],
      deviceProblem: this.#devices.problem,
      runtimes: [...this.#options.runtimes],
    };
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#options.probe.close();
    await this.#round;
  }

  #run(first: boolean): void {
    this.#round = Promise.all([this.#probeHost(first), this.#probeDevices()]).then(([hostChanged, devicesChanged]) => {
      if (this.#closed) return;
      const now = performance.now();
      if (hostChanged || devicesChanged || now - this.#toldAt >= TELL_MS) {
        this.#toldAt = now;
        this.#options.onChange(this.current);
      }
      this.#timer = setTimeout(() => this.#run(false), this.#options.lightMs);
    });
  }

  async #probeHost(first: boolean): Promise<boolean> {
    try {
      if (first) this.#identity = await readIdentityOfHost(this.#options.env);
      this.#gauges = await readGauges(this.#options.folder, !first);
    } catch (error) {
      this.#options.log.warn({ error: error instanceof Error ? error.message : String(error) }, 'the host could not be read');
    }
    return first;
  }

  /** A full probe when it is due, or when a light one finds what only a full one can explain. */
  async #probeDevices(): Promise<boolean> {
    const { probe, fullMs } = this.#options;
    const before = this.#devices;
    const now = performance.now();
    if (this.#fullAt === 0 || now - this.#fullAt >= fullMs) {
      this.#devices = await this.#full(probe);
    } else {
      const light = await probe.light();
      this.#devices = afterLightProbe(before, light);
      if (differs(before, this.#devices) && light.kind === 'devices') this.#devices = await this.#full(probe);
    }
    const changed = differs(before, this.#devices);
    if (changed && this.#devices.problem !== '' && this.#devices.problem !== before.problem) {
      this.#options.log.warn({ problem: this.#devices.problem }, 'devices cannot be read');
    }
    return changed;
  }

  async #full(probe: DeviceProbe): Promise<DeviceSet> {
    const result: ProbeResult = await probe.full();
    this.#fullAt = performance.now();
    return afterFullProbe(this.#devices, result);
  }
}
