/** NVML's reasons for lower clocks (nvml.h, nvmlClocksEventReason…), by bit; an idle GPU and clocks that were requested are none. */
export const THROTTLE_REASONS: readonly (readonly [bit: bigint, reason: string])[] = [
  [0x04n, 'sw_power_cap'],
  [0x08n, 'hw_slowdown'],
  [0x10n, 'sync_boost'],
  [0x20n, 'sw_thermal_slowdown'],
  [0x40n, 'hw_thermal_slowdown'],
  [0x80n, 'hw_power_brake_slowdown'],
];

/** Names of the reasons of a mask. */
export function throttleNames(mask: bigint): string[] {
  return THROTTLE_REASONS.filter(([bit]) => (mask & bit) !== 0n).map(([, reason]) => reason);
}
