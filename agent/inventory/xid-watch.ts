/**
 * Which GPUs are held back for errors in the kernel's log, and until when. A GPU comes back by
 * itself: a minute after its last fatal error, once nvidia-smi finds nothing wrong with it either.
 * One that falls ill again and again is held back twice as long each time.
 */
import type { Device } from '../../proto/gen/capstan/v1/nodes.ts';
import { faultOf, type Xid } from './xid.ts';

const FIRST_HOLD_MS = 60_000;
const LONGEST_HOLD_MS = 3_600_000;
/** Without a fatal error for so long, ms, a GPU is as good as any. */
const FORGIVEN_MS = 86_400_000;
/** Errors kept of each GPU. */
const KEPT = 8;

interface Record {
  readonly xids: Xid[];
  fault: string;
  heldUntil: number;
  /** Times it fell ill. */
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
    // Errors come in bursts: those while it is held back are of the same illness.
    if (xid.at >= gpu.heldUntil) gpu.episodes += 1;
    gpu.fault = fault;
    gpu.lastFatalAt = xid.at;
    gpu.heldUntil = xid.at + Math.min(LONGEST_HOLD_MS, FIRST_HOLD_MS * 2 ** (gpu.episodes - 1));
  }

  /** The devices with their errors; what nvidia-smi found wrong goes first. `wallOf`: the wall clock of a monotonic time, ms. */
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
