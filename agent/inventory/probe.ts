/** The interface of a device probe for the inventory; nvidia-smi is one. */

/** Facts of one device; facts unknown to the probe are absent. */
export interface DeviceFacts {
  /** As CUDA accepts it; empty when it could not be read; `problem` and `pciBusId` are then present. */
  readonly uuid: string;
  readonly model?: string;
  readonly memoryBytes?: number;
  readonly memoryUsedBytes?: number;
  /** Two numbers separated by a dot. */
  readonly computeCapability?: string;
  readonly driverVersion?: string;
  readonly cudaVersion?: string;
  /** 0 to 100. */
  readonly utilizationPercent?: number;
  readonly temperatureCelsius?: number;
  readonly powerMilliwatts?: number;
  /** NVML's mask of the reasons for lower clocks. */
  readonly throttleReasons?: bigint;
  /** UUID of the GPU that a MIG slice is cut from. */
  readonly parentUuid?: string;
  /** `0000:3b:00`. */
  readonly pciBusId?: string;
  /** Memory errors since the driver was loaded. */
  readonly eccCorrected?: number;
  readonly eccUncorrected?: number;
  /** The action that the driver recommends for the GPU; empty when none is needed. */
  readonly recoveryAction?: string;
  /** Why it cannot be used; absent when it can. */
  readonly problem?: string;
}

export type ProbeResult =
  /** The host has no such devices: a normal case. */
  | { readonly kind: 'none' }
  /** `devices` is the complete set; `problem` describes a non-fatal irregularity. */
  | { readonly kind: 'devices'; readonly devices: readonly DeviceFacts[]; readonly problem: string }
  /** The probe returned nothing usable; the state of the devices is unknown. */
  | { readonly kind: 'failed'; readonly problem: string };

export interface DeviceProbe {
  /** Returns all facts; may take seconds. Never rejects. */
  full(): Promise<ProbeResult>;
  /** Returns the gauges and whether each device is present; cheap. Never rejects. */
  light(): Promise<ProbeResult>;
  /** Cancels the running probe, which then returns `failed`. */
  close(): void;
}
