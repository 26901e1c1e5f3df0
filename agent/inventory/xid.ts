/**
 * Parses errors that the NVIDIA driver writes to the kernel log. Codes and their meaning are those of NVIDIA's "Xid
 * errors" guide.
 */
import { busIdOf } from './nvidia-text.ts';

export interface Xid {
  /** `0000:3b:00`. */
  readonly pciBusId: string;
  readonly code: number;
  readonly text: string;
  /** Monotonic ms of this process's clock. */
  readonly at: number;
}

/**
 * After these errors a GPU is unusable until it was reset or has run without errors for a while. All other errors are
 * caused by the program.
 */
const FATAL: ReadonlyMap<number, string> = new Map([
  [46, 'the GPU stopped processing'],
  [48, 'an uncorrectable ECC memory error'],
  [62, 'the power management halted'],
  [64, 'remapping a memory row failed'],
  [74, 'an NVLink error'],
  [79, 'the GPU has fallen off the bus'],
  [95, 'an uncontained memory error'],
  [109, 'a context switch timed out'],
  [110, 'a security fault'],
  [119, 'the GPU system processor does not respond'],
  [120, 'the GPU system processor failed'],
  [136, 'training an NVLink failed'],
  [140, 'an unrecovered memory error'],
  [143, 'initialising the GPU failed'],
]);
/** The driver reports a changed recommended action: it counts unless the action is none. */
const RECOVERY_CHANGED = 154;

/**
 * Parses one kernel log line without its prefix: `NVRM: Xid (PCI:0000:3b:00): 79, pid=…, GPU has fallen off the bus.`
 */
export function parseXid(message: string, at: number): Xid | undefined {
  const [, bus, code, text] = /NVRM: Xid \(PCI:([0-9a-f:.]+)\): (\d+)(?:, *(.*))?$/i.exec(message.trim()) ?? [];
  const pciBusId = busIdOf(bus);
  return pciBusId === undefined || code === undefined ? undefined : { pciBusId, code: Number(code), text: (text ?? '').slice(0, 300), at };
}

/** Returns why the GPU must not be used after this error; absent when it may be. */
export function faultOf({ code, text }: Pick<Xid, 'code' | 'text'>): string | undefined {
  if (code === RECOVERY_CHANGED) return /to \S+ \(None\)/i.test(text) ? undefined : `Xid ${code}: ${text}`;
  const meaning = FATAL.get(code);
  return meaning === undefined ? undefined : `Xid ${code}: ${meaning}`;
}
