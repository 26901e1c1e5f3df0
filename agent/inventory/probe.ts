/** What a source of devices offers to the inventory; nvidia-smi is one. */

/** Facts of one device; what the source does not say is absent. */
export interface DeviceFacts {
  /** As CUDA takes it; empty when it could not be read, and then `problem` and `pciBusId` are there. */
  readonly uuid: string;
  readonly model?: string;
  readonly memoryBytes?: number;
  readonly memoryUsedBytes?: number;
  /** Two numbers with a dot. */
  readonly computeCapability?: string;
  readonly driverVersion?: string;
  readonly cudaVersion?: string;
  /** 0 to 100. */
  readonly utilizationPercent?: number;
  readonly temperatureCelsius?: number;
  /** UUID of the GPU that a MIG slice is cut from. */
  readonly parentUuid?: string;
  /** `0000:3b:00`. */
  readonly pciBusId?: string;
  /** Memory errors since the driver was loaded. */
  readonly eccCorrected?: number;
  readonly eccUncorrected?: number;
  /** What the driver says the GPU needs; empty when it says nothing is. */
  readonly recoveryAction?: string;
  /** Why it cannot be used; absent when it can. */
  readonly problem?: string;
}

export type ProbeResult =
  /** The host has no such devices: a normal case. */
  | { readonly kind: 'none' }
  /** `devices` is the whole set there is; `problem` says what is odd without being fatal. */
  | { readonly kind: 'devices'; readonly devices: readonly DeviceFacts[]; readonly problem: string }
  /** The source did not answer, or not sensibly; nothing is known about the devices now. */
  | { readonly kind: 'failed'; readonly problem: string };

export interface DeviceProbe {
  /** Everything there is to know; may take seconds. Never rejects. */
  full(): Promise<ProbeResult>;
  /** The gauges and whether each device is still there; cheap. Never rejects. */
  light(): Promise<ProbeResult>;
  /** Ends what is being asked; what was asked answers `failed`. */
  close(): void;
}
