/**
 * Decides which GPUs are held back because of errors in the kernel log, and until when. A GPU becomes usable again one
 * minute after its last fatal error, once nvidia-smi reports no problem either. Each further failure doubles the time.
 */
import type { Device } from '../../proto/gen/capstan/v1/nodes.ts';
import { faultOf, type Xid } from './xid.ts';

const FIRST_HOLD_MS = 60_000;
const LONGEST_HOLD_MS = 3_600_000;
/** After this long without a fatal error, ms, earlier failures of a GPU no longer count. */
const FORGIVEN_MS = 86_400_000;
/** Errors kept per GPU. */
const KEPT = 8;

interface Record {
  readonly xids: Xid[];
  fault: string;
  heldUntil: number;
  /** Number of failures. */
  episodes: number;
  lastFatalAt: number;
}

export class XidWatch {
  readonly #gpus = new Map<string, Record>();

  add(xid: Xid): void {
    let gpu = this.#gpus.get(xid.pciBusId);
    if (gpu === undefined) {
      gpu = { xids: [], fault: '', heldUntil: -Infinity, episodes: 0, lastFatalAt: -Infinity };
      this.#gpus.set(xid.pciBusId, gpu);
    }
    gpu.xids.push(xid);
    if (gpu.xids.length > KEPT) gpu.xids.shift();
    const fault = faultOf(xid);
    if (fault === undefined) return;
    if (xid.at - gpu.lastFatalAt > FORGIVEN_MS) gpu.episodes = 0;
    // Errors come in bursts: errors during the hold belong to the same failure.
    if (xid.at >= gpu.heldUntil) gpu.episodes += 1;
    gpu.fault = fault;
    gpu.lastFatalAt = xid.at;
    gpu.heldUntil = xid.at + Math.min(LONGEST_HOLD_MS, FIRST_HOLD_MS * 2 ** (gpu.episodes - 1));
  }

  /**
   * Returns the devices with their errors; problems reported by nvidia-smi take precedence. `wallOf`: converts a
   * monotonic time to wall clock, ms.
   */
  mark(devices: readonly Device[], now: number, wallOf: (at: number) => number): Device[] {
    return devices.map((device) => {
      const gpu = device.pciBusId === '' ? undefined : this.#gpus.get(device.pciBusId);
      if (gpu === undefined) return device;
      const xids = gpu.xids.map(({ code, text, at }) => ({ code, text, atMs: BigInt(Math.round(wallOf(at))) }));
      const held = now < gpu.heldUntil && device.healthy;
      return held ? { ...device, xids, healthy: false, problem: gpu.fault } : { ...device, xids };
    });
  }
}
