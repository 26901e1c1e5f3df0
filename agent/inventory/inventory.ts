/** Keeps the node's inventory current and decides when to report it. */
import type { Logger } from 'pino';

import type { NodeIsolation } from '../../lib/isolation.ts';
import type { DefaultNetworks } from '../engine/isolation-guard.ts';
import type { Inventory, UnreachableGateway } from '../../proto/gen/capstan/v1/nodes.ts';
import { messageOf } from '../../lib/to-error.ts';
import { afterFullProbe, afterLightProbe, differs, NO_DEVICES, type DeviceSet } from './devices.ts';
import { HardwareReader } from './hardware.ts';
import { CpuLoad, quickGauges, quickIdentity, readGauges, readIdentityOfHost, type HostGauges, type HostIdentity } from './host-facts.ts';
import type { HostPython } from './host-python.ts';
import type { KernelLog } from './kernel-log.ts';
import type { DeviceProbe, ProbeResult } from './probe.ts';
import { parseXid } from './xid.ts';
import { XidWatch } from './xid-watch.ts';

/** Minimum time between two rounds of probes, ms, however often a device is in doubt. */
const SOONEST_MS = 1_000;
/** Reported until the first probe of the devices has ended. */
const UNREAD = 'nvidia-smi has not responded yet';
/** Interval for reports with changed gauges only, ms (nodes.proto, Inventory). */
const REPORT_MS = 30_000;
/** Most builds reported (nodes.proto, Inventory). */
const MAX_BUILDS = 64;

/** What a container engine has; with one, the node offers the `container` runtime. */
export interface ContainerFacts {
  /** Name and version. */
  readonly name: string;
  /** As in Inventory.images. */
  readonly images: readonly string[];
  /** What they require of the driver, by reference. */
  readonly requirements: ReadonlyMap<string, readonly string[]>;
  /** Isolation of its containers. */
  readonly level: 'container' | 'gvisor';
  readonly networks: NodeIsolation['containerNetworks'];
}

/** What never changes while the agent runs. */
export interface InventoryIsolation {
  readonly processes: NodeIsolation['processes'];
  readonly networks: NodeIsolation['processNetworks'];
  readonly defaultNetworks: DefaultNetworks;
  readonly missing: NodeIsolation['missing'];
}

export interface InventoryOptions {
  readonly probe: DeviceProbe;
  readonly kernelLog: KernelLog;
  /** Absent: systeminformation. */
  readonly hardware?: Pick<HardwareReader, 'read' | 'close'>;
  /** Runtimes that are always available. */
  readonly runtimes: readonly string[];
  /** Probes the container engine, which may start or stop at any time. Never rejects. */
  readonly engine?: () => Promise<ContainerFacts | undefined>;
  readonly isolation: InventoryIsolation;
  /** Digests of the cached builds, most recently used first. */
  readonly builds: () => readonly string[];
  /** Log lines that were forwarded; absent where none are. */
  readonly logForwarding?: (() => Inventory['logForwarding']) | undefined;
  /** Gateways that the agent does not reach. */
  readonly unreachableGateways?: () => UnreachableGateway[];
  /** Whether workers get no CAPSTAN_URL. */
  readonly gatewayUnknown?: () => boolean;
  /** A folder on the disk that is reported. */
  readonly folder: string;
  readonly python: PythonReader;
  /** Interval of light probes, ms. */
  readonly lightMs: number;
  /** Interval of full probes, and of reading the host's hardware and Python, ms. */
  readonly fullMs: number;
  readonly log: Logger;
  readonly onChange: (inventory: Inventory) => void;
}

/** Reads the Python of workers. */
export interface PythonReader {
  /** Whether a Python was installed or removed since the last reading, as far as a look at PATH tells. Never rejects. */
  hasChanged(): Promise<boolean>;
  /** Lets workers that start from now on run what the host has now, and returns that. Rejects where a Python fails. */
  read(): Promise<HostPython>;
}

export class InventoryKeeper {
  readonly #options: InventoryOptions;
  #identity: HostIdentity = quickIdentity();
  #gauges: HostGauges = quickGauges();
  readonly #load = new CpuLoad();
  readonly #hardware: Pick<HardwareReader, 'read' | 'close'>;
  #python: HostPython = { version: '', packages: {} };
  /** When reading the identity and the host's Python began last, monotonic ms. */
  #hostAt = -Infinity;
  /** The reading that runs. */
  #hostReading: Promise<void> | undefined;
  /** As reported by nvidia-smi. */
  #devices: DeviceSet = NO_DEVICES;
  /** The same with errors from the kernel log. */
  #marked: DeviceSet = NO_DEVICES;
  readonly #xids = new XidWatch();
  #containers: ContainerFacts | undefined;
  #sentAt = 0;
  #sentBuilds = '';
  #sentUnreachable = '';
  #fullAt = 0;
  #timer: NodeJS.Timeout | undefined;
  /** When the last round ended, monotonic ms; undefined during a round. */
  #restingSince: number | undefined;
  #doubted = false;
  /** The devices have been probed once. */
  #read = false;
  #round: Promise<void> | undefined;
  #closed = false;

  constructor(options: InventoryOptions) {
    this.#options = options;
    this.#hardware = options.hardware ?? new HardwareReader();
  }

  /** Starts the rounds; resolves after the first probe of the devices and the first reading of the host. */
  async start(): Promise<void> {
    this.#run(true);
    await Promise.all([this.#round, this.#hostReading]);
  }

  /** A worker with devices failed: probes them immediately, unless that happened a moment ago. */
  probeSoon(): void {
    this.#doubted = true;
    if (!this.#closed && this.#restingSince !== undefined) this.#arm();
  }

  /** As of the last probe. */
  get current(): Inventory {
    return {
      ...this.#identity,
      ...this.#gauges,
      devices: [...this.#marked.devices],
      deviceProblem: this.#read ? this.#marked.problem : UNREAD,
      devicesUnread: !this.#read,
      runtimes: [...this.#options.runtimes, ...(this.#containers === undefined ? [] : ['container'])],
      pythonVersion: this.#python.version,
      packages: { ...this.#python.packages },
      containerEngine: this.#containers?.name ?? '',
      images: [...(this.#containers?.images ?? [])],
      imageRequirements: [...(this.#containers?.requirements ?? [])].map(([image, expressions]) => ({
        image,
        expressions: [...expressions],
      })),
      builds: this.#options.builds().slice(0, MAX_BUILDS),
      isolation: this.#isolation,
      logForwarding: this.#options.logForwarding?.(),
      unreachableGateways: this.#options.unreachableGateways?.() ?? [],
      gatewayUnknown: this.#options.gatewayUnknown?.() ?? false,
    };
  }

  get #isolation(): Inventory['isolation'] {
    const { processes, networks, defaultNetworks, missing } = this.#options.isolation;
    return {
      processes,
      containers: this.#containers?.level ?? '',
      processNetworks: [...networks],
      containerNetworks: [...(this.#containers?.networks ?? [])],
      missing: missing.map((each) => ({ ...each })),
      defaultNetwork: defaultNetworks.usual,
      closedNetwork: defaultNetworks.closed,
    };
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#options.probe.close();
    this.#hardware.close();
    await Promise.all([this.#round, this.#hostReading]);
    await this.#options.kernelLog.close();
  }

  /** The next round is due after the usual interval, or soon if a device is in doubt. */
  #arm(): void {
    clearTimeout(this.#timer);
    const rested = performance.now() - (this.#restingSince ?? performance.now());
    const pause = this.#doubted ? Math.min(SOONEST_MS, this.#options.lightMs) : this.#options.lightMs;
    this.#timer = setTimeout(() => this.#run(false), Math.max(0, pause - rested));
  }

  #tell(): void {
    this.#sentAt = performance.now();
    this.#options.onChange(this.current);
  }

  #run(first: boolean): void {
    this.#doubted = false;
    this.#restingSince = undefined;
    this.#readHostLater();
    this.#round = Promise.all([this.#probeHost(first), this.#probeDevices(), this.#probeEngine()]).then((changes) => {
      if (this.#closed) return;
      const builds = [...this.#options.builds()].sort().join();
      // The reason may change at each try.
      const unreachable = [
        ...(this.#options.unreachableGateways?.() ?? []).map(({ address }) => address),
        String(this.#options.gatewayUnknown?.() ?? false),
      ].join();
      const isNews = builds !== this.#sentBuilds || unreachable !== this.#sentUnreachable;
      if (changes.includes(true) || isNews || performance.now() - this.#sentAt >= REPORT_MS) {
        this.#sentBuilds = builds;
        this.#sentUnreachable = unreachable;
        this.#tell();
      }
      this.#restingSince = performance.now();
      this.#arm();
    });
  }

  async #probeHost(first: boolean): Promise<boolean> {
    try {
      this.#gauges = await readGauges(this.#options.folder, this.#load);
    } catch (error) {
      this.#options.log.warn({ error: messageOf(error) }, 'reading the host failed');
    }
    return first;
  }

  /**
   * Reads the identity and the host's Python where that is due, Python also where it has changed, and tells what is new. Outside of the rounds: a program that
   * hangs must not hold up the probes of the devices.
   */
  #readHostLater(): void {
    this.#hostReading ??= this.#readHost().then(() => {
      this.#hostReading = undefined;
    });
  }

  async #readHost(): Promise<void> {
    const now = performance.now();
    if (now - this.#hostAt >= this.#options.fullMs) {
      this.#hostAt = now;
      await Promise.all([this.#readIdentity(), this.#readPython()]);
    } else if (await this.#options.python.hasChanged()) await this.#readPython();
  }

  /** Leaves the last identity where the host cannot be read now. */
  async #readIdentity(): Promise<void> {
    try {
      const identity = await readIdentityOfHost(() => this.#hardware.read());
      this.#change(() => (this.#identity = identity));
    } catch (error) {
      if (!this.#closed) this.#options.log.warn({ error: messageOf(error) }, 'reading the hardware failed');
    }
  }

  /** Leaves what was known where Python fails now. */
  async #readPython(): Promise<void> {
    try {
      const python = await this.#options.python.read();
      this.#change(() => (this.#python = python));
    } catch (error) {
      if (!this.#closed) this.#options.log.warn({ error: messageOf(error) }, "reading the host's Python failed");
    }
  }

  #change(apply: () => void): void {
    const before = this.#slowFacts;
    apply();
    if (this.#slowFacts !== before && !this.#closed) this.#tell();
  }

  get #slowFacts(): string {
    return JSON.stringify([this.#identity, this.#python], (_key, value: unknown) => (typeof value === 'bigint' ? String(value) : value));
  }

  async #probeEngine(): Promise<boolean> {
    const { engine, log } = this.#options;
    const before = this.#containers;
    this.#containers = await engine?.();
    const now = this.#containers;
    if (before?.name !== now?.name) log.info({ engine: now?.name ?? 'none' }, 'container engine');
    return before?.name !== now?.name || shownImages(before) !== shownImages(now);
  }

  /**
   * Runs a full probe when it is due or when a light one finds something that only a full one can explain. Returns true
   * when more than a gauge changed.
   */
  async #probeDevices(): Promise<boolean> {
    const { probe, fullMs } = this.#options;
    const before = this.#devices;
    let changed = false;
    if (this.#fullAt === 0 || performance.now() - this.#fullAt >= fullMs) {
      this.#devices = await this.#full(probe);
    } else {
      const light = await probe.light();
      this.#devices = afterLightProbe(before, light);
      if (differs(before, this.#devices) && light.kind === 'devices') {
        changed = await this.#mark();
        // A full report takes seconds, during which a lost device would still be used.
        if (changed && !this.#closed) this.#tell();
        this.#devices = await this.#full(probe);
      }
    }
    changed = (await this.#mark()) || changed;
    if (changed && this.#devices.problem !== '' && this.#devices.problem !== before.problem) {
      this.#options.log.warn({ problem: this.#devices.problem }, 'reading the devices failed');
    }
    this.#read = true;
    return changed;
  }

  /** Adds errors from the kernel log. Returns true when more than a gauge changed. */
  async #mark(): Promise<boolean> {
    await this.#readKernelLog();
    const wallOffset = Date.now() - performance.now();
    const shown = this.#marked;
    const devices = this.#xids.mark(this.#devices.devices, performance.now(), (at) => at + wallOffset);
    this.#marked = { devices, problem: this.#devices.problem };
    return differs(shown, this.#marked);
  }

  async #readKernelLog(): Promise<void> {
    // A host without GPUs needs no kernel log.
    if (this.#devices.devices.length === 0) return;
    try {
      for (const { text, at } of await this.#options.kernelLog.read()) {
        const xid = parseXid(text, at);
        if (xid !== undefined) this.#xids.add(xid);
      }
    } catch (error) {
      this.#options.log.warn({ error: messageOf(error) }, 'reading the kernel log failed');
    }
  }

  async #full(probe: DeviceProbe): Promise<DeviceSet> {
    const result: ProbeResult = await probe.full();
    this.#fullAt = performance.now();
    return afterFullProbe(this.#devices, result);
  }
}

/** Equal for equal images with equal requirements. */
function shownImages(facts: ContainerFacts | undefined): string {
  return JSON.stringify([facts?.images, [...(facts?.requirements ?? [])]]);
}
